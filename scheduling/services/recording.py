"""Cycles on record: what was seen, with which policy, what was decided; to be run again."""

import hashlib
import json
import zlib
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import ndiff

from scheduling.engine import codec
from scheduling.engine.plan import Plan
from scheduling.engine.policy import Policy
from scheduling.engine.scenario import read_scenario
from scheduling.engine.scenario.render import Renderer
from scheduling.engine.scenario.writing import write_scenario
from scheduling.engine.snapshot import Snapshot
from scheduling.models import Cycle
from scheduling.services.plans import Applied
from topology.models import Cluster

KIB = 1024
_PURGE_EVERY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One cycle: what went in, what came out, what became of it."""

    snapshot: Snapshot
    policy: Policy
    plan: Plan
    applied: Applied


def record_cycle(
    decided: Decided, *, cluster: Cluster, at: datetime, seconds: float
) -> Cycle | None:
    """The cycle's row, unless it decided what the one before did and nothing was started.

    at: cluster clock. seconds: of the wall clock, that the cycle took.
    """
    plan, applied = decided.plan, decided.applied
    Cluster.objects.filter(pk=cluster.pk).update(planned_at=at)
    digest = _digest(plan)
    if not plan.starts and digest == _last_digest(cluster):
        return None
    snapshot = _packed(decided.snapshot)
    cycle = Cycle.objects.create(
        cluster=cluster,
        at=at,
        starts=applied.started,
        holds=len(plan.holds),
        skipped=applied.skipped,
        seconds=round(seconds, 4),
        digest=digest,
        plan=_packed(plan),
        policy=_packed(decided.policy),
        snapshot=snapshot if len(snapshot) <= cluster.snapshot_limit_kib * KIB else b"",
    )
    if cycle.pk % _PURGE_EVERY == 0:
        _forget_old(cluster)
    return cycle


def _digest(plan: Plan) -> str:
    """Of what was decided, whenever that was."""
    return hashlib.sha256(codec.encode(replace(plan, taken_at=0)).encode()).hexdigest()


def _last_digest(cluster: Cluster) -> str:
    digests = Cycle.objects.filter(cluster=cluster).order_by("-pk").values_list("digest", flat=True)
    return digests.first() or ""


def _packed(value: Snapshot | Policy | Plan) -> bytes:
    return zlib.compress(codec.encode(value).encode())


def _forget_old(cluster: Cluster) -> None:
    newest = Cycle.objects.filter(cluster=cluster).order_by("-pk").values_list("pk", flat=True)
    for oldest in newest[cluster.cycles_kept : cluster.cycles_kept + 1]:
        Cycle.objects.filter(cluster=cluster, pk__lte=oldest).delete()


def export_cycle(cycle: Cycle) -> str:
    """A recorded cycle as one JSON text, for `manage.py replay_snapshot`.

    LookupError when its snapshot was too large to keep.
    """
    if not cycle.snapshot:
        raise _not_kept(cycle)
    parts = {"snapshot": cycle.snapshot, "policy": cycle.policy, "plan": cycle.plan}
    return json.dumps({name: json.loads(zlib.decompress(packed)) for name, packed in parts.items()})


def scenario_of_cycle(cycle: Cycle) -> tuple[str, list[str]]:
    """A recorded cycle as a scenario, and in what lines that plans otherwise than was decided.

    LookupError when its snapshot was too large to keep; UnsayableError for what has no words.
    """
    if not cycle.snapshot:
        raise _not_kept(cycle)
    snapshot = codec.decode(zlib.decompress(cycle.snapshot), Snapshot)
    policy = codec.decode(zlib.decompress(cycle.policy), Policy)
    plan = codec.decode(zlib.decompress(cycle.plan), Plan)
    text = write_scenario(snapshot, policy)
    names = {job.id: job.name for job in (*snapshot.pending, *snapshot.running)}
    decided = Renderer(snapshot, snapshot.taken_at, names, with_devices=True).lines(plan)
    planned = read_scenario(text).plan_lines(with_devices=True)
    return text, [line for line in ndiff(decided, planned) if line[0] in "+-"]


def _not_kept(cycle: Cycle) -> LookupError:
    return LookupError(f"the snapshot of cycle {cycle.pk} was not kept: it was too large")
