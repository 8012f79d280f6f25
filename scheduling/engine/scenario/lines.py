"""The lines of a scenario: what each word changes in the world."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, get_type_hints

from scheduling.engine.jobs import Group, Level
from scheduling.engine.policy import Policy
from scheduling.engine.scenario import options, values
from scheduling.engine.scenario.events import EVENTS, stop_duration
from scheduling.engine.scenario.refusals import check_levels
from scheduling.engine.scenario.seating import seats_of
from scheduling.engine.scenario.survey import node_of
from scheduling.engine.scenario.world import (
    NOBODY,
    GpuState,
    Job,
    Keep,
    Layout,
    Node,
    Owner,
    PromisedBlock,
    Sharing,
    World,
)
from scheduling.engine.snapshot import GpuMode
from topology.catalog.gpus import find_model
from topology.catalog.mig import MigInstance, check_layout

Line = Callable[[World, Sequence[str], int], None]
_MILLI: Final = 1000


def apply_line(world: World, line: str, *, at: int, is_event: bool = False) -> None:
    """Change `world` as `line` says; `at` is now. Raises ValueError for what cannot be read."""
    word, *rest = line.split()
    known = {**_LINES, **EVENTS} if is_event else _LINES
    if word not in known:
        raise ValueError(f"unknown word {word!r}")
    if not rest:
        raise ValueError(f"{word!r} needs a name")
    known[word](world, rest, at)


def _node(world: World, words: Sequence[str], at: int) -> None:
    name, *rest = words
    node = world.nodes.get(name)
    if rest and "=" not in rest[0] and rest[0][0].isdecimal():
        count, _, model = rest.pop(0).partition("x")
        _check_nobody_sits(world, name)
        node = Node(name, options.flavor(model), values.at_most(values.MOST_OF_A_NODE, count))
        node.gpus = [GpuState() for _ in range(node.count)]
    if node is None:
        raise ValueError(f"node {name!r} needs its GPUs: write 8xA100")
    shared = [word for word in rest if word.startswith("mode=")]
    found = options.NODE.read([word for word in rest if word not in shared], at)
    _check_partition(node, found)
    options.change(node, found)
    for word in shared:
        sharing = options.sharing(word.removeprefix("mode="))
        for number in range(node.count):
            _recut(world, node, number, sharing)
    world.nodes[name] = node


def _check_nobody_sits(world: World, name: str) -> None:
    """A node gets other GPUs only while nobody holds, keeps or is promised the ones it has."""
    held = (seat.node for job in world.placed() for seat in job.seats)
    kept = (seat.node for keep in world.keeps.values() for seat in keep.seats)
    if name in {*held, *kept}:
        raise ValueError(f"node {name!r} is in use and cannot get other GPUs")


def _recut(world: World, node: Node, number: int, sharing: Sharing, layout: Layout = ()) -> None:
    """Share or cut a GPU otherwise, which it may be only while nobody holds or keeps any of it."""
    gpu = node.gpus[number]
    if (gpu.sharing, gpu.layout) == (sharing, layout):
        return
    held = (seat for job in world.placed() for seat in job.seats)
    kept = (seat for keep in world.keeps.values() for seat in keep.seats)
    if any(seat.node == node.name and number in seat.numbers for seat in (*held, *kept)):
        raise ValueError(f"GPU {node.name}/{number} is in use and cannot be shared otherwise")
    gpu.sharing, gpu.layout = sharing, layout


def _check_partition(node: Node, found: Mapping[str, Any]) -> None:
    for key in ("islands", "numa"):
        numbers = [number for own in found.get(key, ()) for number in own]
        if len(numbers) != len(set(numbers)) or any(own >= node.count for own in numbers):
            raise ValueError(f"{key}= names a GPU twice, or one that {node.name} does not have")


def _gpu(world: World, words: Sequence[str], at: int) -> None:
    del at
    place, *rest = words
    name, _, device = place.partition("/")
    number, at_start, start = device.partition("@")
    node = node_of(world, name)
    if not number.isdecimal() or int(number) >= node.count or not rest:
        raise ValueError(f"there is no GPU {place!r}, or nothing is said of it")
    gpu = node.gpus[int(number)]
    if at_start:
        _instance(gpu, place, start, rest)
    elif rest in (["faulty"], ["ok"]):
        gpu.faulty = rest == ["faulty"]
    elif rest[0] == "mig" and len(rest) == 2:  # noqa: PLR2004 -- mig LAYOUT
        _recut(world, node, int(number), (GpuMode.MIG, 1, False), _layout(node, rest[1]))
    elif len(rest) == 1:
        _recut(world, node, int(number), options.sharing(rest[0]))
    else:
        raise ValueError(f"unknown word {rest[0]!r}")


def _instance(gpu: GpuState, place: str, start: str, words: Sequence[str]) -> None:
    starts = {own for own, _ in gpu.layout}
    if not start.isdecimal() or int(start) not in starts:
        raise ValueError(f"there is no instance {place!r}")
    if list(words) not in (["faulty"], ["ok"]):
        raise ValueError(f"unknown word {words[0]!r}")
    change = gpu.faulty_starts.add if words[0] == "faulty" else gpu.faulty_starts.discard
    change(int(start))


def _layout(node: Node, word: str) -> Layout:
    model = find_model(node.model)
    if model is None or not model.has_mig:
        raise ValueError(f"{node.model} has no MIG")
    layout = []
    for part in word.split(","):
        profile, _, start = part.rpartition("@")
        layout.append(MigInstance(values.whole(start), profile))
    check_layout(model, layout)
    return tuple((own.start, own.profile) for own in sorted(layout))


def _domain(world: World, words: Sequence[str], at: int) -> None:
    del at
    place, *rest = words
    level, _, name = place.partition("/")
    if level.upper() not in Level.__members__ or not name:
        raise ValueError(f"{place!r} is no domain: write rack/r1")
    for word in rest:
        key, _, value = word.partition("=")
        if key != "oversub":
            raise ValueError(f"unknown word {word!r}")
        world.oversub[Level[level.upper()], name] = values.milli(value)


def _cohort(world: World, words: Sequence[str], at: int) -> None:
    name, *rest = words
    owner = world.cohorts.get(name) or Owner(name)
    options.change(owner, options.COHORT.read(rest, at))
    _check_cohort(world, owner)
    world.cohorts[name] = owner


def _tenant(world: World, words: Sequence[str], at: int) -> None:
    name, *rest = words
    owner = world.tenants.get(name) or Owner(name)
    options.change(owner, options.TENANT.read(rest, at))
    _check_cohort(world, owner)
    world.tenants[name] = owner


def _check_cohort(world: World, owner: Owner) -> None:
    above, seen = owner.cohort, {owner.name}
    while above:
        if above not in world.cohorts:
            raise ValueError(f"there is no cohort {above!r}")
        if above in seen and world.cohorts.get(owner.name) is owner:
            raise ValueError(f"cohort {owner.name!r} would hang in itself")
        seen.add(above)
        above = world.cohorts[above].cohort


def _job(world: World, words: Sequence[str], at: int) -> None:
    name, *rest = words
    known = job = world.jobs.get(name)
    shape = rest and "=" not in rest[0] and rest[0] not in options.JOB.flags
    if job is None or job.has_ended:
        job = Job(id=world.next_id(), name=name, submitted=at)
        world.keeps.pop(name, None)
    if shape and not _is_priority(rest[0]):
        _reshape(world, job, values.groups(rest.pop(0)))
    if not job.groups:
        raise ValueError(f"job {name!r} needs a shape: write 4x8")
    found = options.JOB.read(rest, at)
    if job.is_placed and "after" in found:
        raise ValueError(f"job {name!r} has started and waits for no other")
    options.change(job, found)
    _check_job(world, job, is_new=job is not known)
    world.jobs[name] = job


def _reshape(world: World, job: Job, groups: tuple[Group, ...]) -> None:
    """Let `job` ask for other members, which it may only while none has a place."""
    if groups != job.groups and (job.is_placed or job.name in world.keeps):
        raise ValueError(f"job {job.name!r} has a place and cannot get another shape")
    job.groups = groups


def _is_priority(word: str) -> bool:
    return word[0] == "p" and word[1:].isdecimal()


def _check_job(world: World, job: Job, *, is_new: bool) -> None:
    if not is_new:
        check_levels(job)
    if job.tenant == NOBODY:
        world.tenants.setdefault(NOBODY, Owner(NOBODY))
    if job.tenant not in world.tenants:
        raise ValueError(f"there is no tenant {job.tenant!r}")
    if job.min_total > sum(group.max_member for group in job.groups):
        raise ValueError(f"min_total={job.min_total} is more than {job.name!r} may have")


def _run(world: World, words: Sequence[str], at: int) -> None:
    name, *rest = words
    if rest[1:2] != ["on"] or len(rest) < 3:  # noqa: PLR2004 -- SHAPE on PLACE
        raise ValueError(f"write: run {name} SHAPE on PLACE")
    known = world.jobs.get(name)
    if known is not None and not known.has_ended:
        raise ValueError(f"there is a job {name!r} already")
    found = options.RUN.read(rest[3:], at)
    devices, is_stopping = found.pop("devices", ""), found.pop("is_stopping", False)
    job = Job(id=world.next_id(), name=name, submitted=at, started=at, state="running")
    job.groups = values.groups(rest[0])
    options.change(job, found)
    job.submitted = min(job.submitted, job.started)
    job.limit = None if job.walltime is None else job.started + job.walltime
    job.seats = seats_of(world, job, values.place(rest[2]), devices)
    if is_stopping:
        job.state, job.gone_at = "stopping", at + stop_duration(world, job)
    _check_job(world, job, is_new=False)
    world.jobs[name] = job


def _keep(world: World, words: Sequence[str], at: int) -> None:
    name, *rest = words
    job = world.jobs.get(name)
    if job is None or rest[:1] != ["on"] or len(rest) < 2:  # noqa: PLR2004 -- on PLACE
        raise ValueError("write: keep JOB on PLACE, after the job's own line")
    found = options.KEEP.read(rest[2:], at)
    until = found.get("until", at + world.policy.hold_expiry)
    devices = found.get("devices", "")
    seats = seats_of(world, job, values.place(rest[1]), devices, later=True)
    world.keeps[name] = Keep(name, seats, until)


def _block(world: World, words: Sequence[str], at: int) -> None:
    name, *rest = words
    if not rest or "@" not in rest[0]:
        raise ValueError("write: block NAME 8@node from=+1h to=+3h")
    amounts = tuple((count, node) for _, count, node in values.place(rest[0]))
    for _, node in amounts:
        node_of(world, node)
    found = options.BLOCK.read(rest[1:], at)
    if "start" not in found or "end" not in found or found["end"] <= found["start"]:
        raise ValueError("a block needs from= and, later, to=")
    if found.get("tenant", "") not in {"", *world.tenants}:
        raise ValueError(f"there is no tenant {found['tenant']!r}")
    world.blocks[name] = PromisedBlock(name, amounts, **found)


def _policy(world: World, words: Sequence[str], at: int) -> None:
    del at
    world.policy = replace(world.policy, **policy_changes(words))


def policy_changes(words: Sequence[str]) -> dict[str, Any]:
    """Fields of Policy of words like `reservations=2`. Raises ValueError for any other word."""
    types = get_type_hints(Policy)
    known = {field.name for field in fields(Policy)}
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise ValueError(f"unknown policy {word!r}")
        found[key] = _policy_value(key, types[key], value)
    return found


def _policy_value(key: str, kind: Any, word: str) -> Any:
    if key == "history_weight":
        return values.milli(word)
    if kind is bool:
        if word not in {"on", "off"}:
            raise ValueError(f"{word!r} is neither on nor off")
        return word == "on"
    if kind in {int, int | None}:
        if word == "none" and kind is not int:
            return None
        return values.whole(word) if word.isdecimal() else values.duration(word)
    return kind(word)


_LINES: Final[Mapping[str, Line]] = {
    "node": _node,
    "gpu": _gpu,
    "domain": _domain,
    "cohort": _cohort,
    "tenant": _tenant,
    "job": _job,
    "run": _run,
    "keep": _keep,
    "block": _block,
    "policy": _policy,
}
