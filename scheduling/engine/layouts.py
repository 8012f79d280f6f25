"""MIG layouts that are not there yet: boards that could be cut for a waiting job."""

from collections import Counter

import numpy as np

from scheduling.engine.access import open_until, tiers
from scheduling.engine.arrays import BoolArray
from scheduling.engine.desk import Desk
from scheduling.engine.fit import slice_rows
from scheduling.engine.jobs import Access, JobSpec, PendingJob
from scheduling.engine.ledger import WHOLE_MILLI, Ledger
from scheduling.engine.plan import Repartition
from scheduling.engine.snapshot import UNKNOWN, GpuMode
from topology.catalog.gpus import GpuModel, find_model
from topology.catalog.mig import find_layout, profiles


def can_be_cut(desk: Desk, job: JobSpec) -> bool:
    """Whether boards here could be cut so that the slices that `job` asks for exist."""
    if not _asks_for_slices_alone(job):
        return False
    wanted = _slices_of(job)
    boards = [model for gpu in range(len(desk.snapshot.gpu_ids)) if (model := _model(desk, gpu))]
    return all(
        sum(profiles(model)[name].most for model in boards if name in profiles(model)) >= count
        for name, count in wanted.items()
    )


def profile_to_cut(desk: Desk, ledger: Ledger, job: JobSpec) -> str | None:
    """The profile that is missing and that an idle board could be cut into, or None."""
    if not _slices_of(job):
        return None
    allowed = desk.open_nodes(job, ())
    idle = (_idle(desk, ledger) | _idle_shared(desk, ledger)) & allowed[desk.snapshot.gpu_node]
    for name in _missing(ledger, job, allowed):
        for gpu in np.flatnonzero(idle).tolist():
            model = _model(desk, gpu)
            if model and name in profiles(model):
                return name
    return None


def find_repartition(desk: Desk, job: PendingJob) -> tuple[Repartition, ...] | None:
    """New layouts of idle boards that give `job` its slices, or None.

    Boards without a layout are cut first, in node and GPU order; then those whose instances are
    all free, where more of the wanted ones fit than there are.
    """
    if not _asks_for_slices_alone(job):
        return None
    if not tiers(desk, job, desk.quota_now(job)):
        return None
    allowed = open_until(desk, job, (), desk.at)
    missing = Counter(_missing(desk.ledger, job, allowed))
    automatic = desk.snapshot.node_auto_layout & allowed
    idle = np.flatnonzero(_idle(desk, desk.ledger) & automatic[desk.snapshot.gpu_node])
    changes: list[Repartition] = []
    for gpu in sorted(idle.tolist(), key=lambda own: (not desk.fleet.exclusive[own], own)):
        model = _model(desk, gpu)
        if model is None or not missing or gpu in desk.recut:
            continue
        standing = _standing(desk, gpu) & _slices_of(job)
        chosen = _most_on(model, sorted((missing + standing).elements()))
        layout = find_layout(model, chosen)
        if layout and len(chosen) > standing.total():
            cut = tuple((instance.profile, instance.start) for instance in layout)
            changes.append(Repartition(gpu, cut, job.id))
            missing = missing + standing - Counter(chosen)
    if missing or not changes:
        return None
    desk.recut_gpus(change.gpu for change in changes)
    return tuple(changes)


def _standing(desk: Desk, gpu: int) -> Counter[str]:
    """The instances that a board has now, by profile."""
    snapshot = desk.snapshot
    own = snapshot.mig_profile[snapshot.mig_gpu == gpu]
    return Counter(snapshot.profiles[profile] for profile in own.tolist())


def _most_on(model: GpuModel, wanted: list[str]) -> list[str]:
    """As many of the wanted profiles as fit on one board, the widest first."""
    known = profiles(model)
    chosen: list[str] = []
    possible = [name for name in wanted if name in known]
    for name in sorted(possible, key=lambda own: (-known[own].width, own)):
        if find_layout(model, [*chosen, name]) is not None:
            chosen.append(name)
    return chosen


def _slices_of(job: JobSpec) -> Counter[str]:
    """How many instances of which profile the minimum of the gang asks for."""
    wanted: Counter[str] = Counter()
    for group in job.groups:
        if group.request.kind == Access.SLICE:
            wanted[group.request.profile] += group.min_member * group.request.count
    return wanted


def _asks_for_slices_alone(job: JobSpec) -> bool:
    """Whether it asks for slices, and for no GPU in another way."""
    kinds = {group.request.kind for group in job.groups}
    return Access.SLICE in kinds and kinds <= {Access.SLICE, Access.NONE}


def _missing(ledger: Ledger, job: JobSpec, allowed: BoolArray) -> list[str]:
    """Profiles of which too few instances are free on the allowed nodes, once for each missing."""
    snapshot = ledger.fleet.snapshot
    on_allowed = allowed[snapshot.gpu_node[snapshot.mig_gpu]]
    found: list[str] = []
    for group in job.groups:
        request = group.request
        if request.kind == Access.SLICE:
            free = int((slice_rows(ledger, job, request) & on_allowed).sum())
            found += [request.profile] * (group.min_member * request.count - free)
    return found


def _idle(desk: Desk, ledger: Ledger) -> BoolArray:
    """(G,) healthy boards without live work that MIG layouts may be cut from."""
    snapshot = desk.snapshot
    idle: BoolArray = desk.fleet.exclusive & (ledger.gpu_milli == WHOLE_MILLI)
    mig: BoolArray = snapshot.gpu_open & (snapshot.gpu_mode == GpuMode.MIG)
    mig[snapshot.mig_gpu[~ledger.instances]] = False
    mig[snapshot.slot_gpu] = False
    idle |= mig
    return idle


def _idle_shared(desk: Desk, ledger: Ledger) -> BoolArray:
    """(G,) healthy boards shared in software that nobody uses: an operator may cut them instead."""
    snapshot = desk.snapshot
    shared: BoolArray = snapshot.gpu_open & (snapshot.gpu_mode > GpuMode.MIG)
    shared &= ledger.gpu_milli == WHOLE_MILLI
    shared[snapshot.slot_gpu[~ledger.slots]] = False
    return shared


def _model(desk: Desk, gpu: int) -> GpuModel | None:
    """The catalogue's entry for a board that MIG can cut, or None."""
    index = int(desk.snapshot.gpu_model[gpu])
    model = None if index == UNKNOWN else find_model(desk.snapshot.gpu_models[index])
    return model if model and model.has_mig else None
