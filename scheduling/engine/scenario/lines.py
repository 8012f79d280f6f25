"""The lines of a scenario: each word with the keys it takes and what it changes in the world."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, get_type_hints

from scheduling.engine.jobs import ServiceClass
from scheduling.engine.policy import Policy
from scheduling.engine.scenario import values
from scheduling.engine.scenario.world import (
    NOBODY,
    GpuState,
    Job,
    Node,
    Owner,
    Seat,
    World,
    held_by_node,
)
from scheduling.engine.snapshot import GpuMode
from topology.catalog.gpus import find_model

Reader = Callable[[str], Any]
Keys = Mapping[str, tuple[str, Reader]]


class NotYetError(ValueError):
    """A word of the language that this release does not read."""


def apply_line(world: World, line: str, *, at: int) -> list[str]:
    """Change `world` as `line` says; `at` is now. Returns the names of jobs that it adds.

    Raises ValueError, and NotYetError for what is not supported yet.
    """
    word, *rest = line.split()
    if word not in _LINES:
        if word in _LATER_LINES or word[0] == "@":
            raise NotYetError(f"{word!r} is not supported yet")
        raise ValueError(f"unknown word {word!r}")
    if not rest:
        raise ValueError(f"{word!r} needs a name")
    return _LINES[word](world, rest, at) or []


def _options(words: Sequence[str], keys: Keys, flags: Mapping[str, str]) -> dict[str, Any]:
    """Fields and values of the words `key=value` and of flags."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and word in flags:
            found[flags[word]] = True
        elif equals and key in keys:
            name, read = keys[key]
            found[name] = read(value)
        elif not equals and word[0] == "p" and word[1:].isdecimal() and "p" in keys:
            found["priority"] = int(word[1:])
        elif key in _LATER_KEYS or word in _LATER_KEYS:
            raise NotYetError(f"{key!r} is not supported yet")
        else:
            raise ValueError(f"unknown word {word!r}")
    return found


def _change(thing: Any, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        setattr(thing, name, value)


def _word(value: str) -> str:
    if not value:
        raise ValueError("a key without a value")
    return value


def _flavor(word: str) -> str:
    """The catalogue's key for a model, or the word itself."""
    model = find_model(word)
    return model.key if model else word


def _flavors(word: str) -> tuple[str, ...]:
    return tuple(_flavor(part) for part in word.split("|"))


def _quotas(word: str) -> tuple[values.Quota, ...]:
    return tuple((_flavor(model), *limits) for model, *limits in values.quotas(word))  # type: ignore[misc]


def _service_class(word: str) -> ServiceClass:
    if word.upper() not in ServiceClass.__members__:
        raise ValueError(f"{word!r} is no service class")
    return ServiceClass[word.upper()]


_NODE_KEYS: Final[Keys] = {
    "cpu": ("cpu_milli", values.milli),
    "mem": ("memory_mib", values.mib),
    "nics": ("nics", values.whole),
    "rack": ("rack", _word),
    "block": ("block", _word),
    "fabric": ("fabric", _word),
    "nvl": ("nvl", _word),
    "islands": ("islands", values.partition),
    "numa": ("numa", values.partition),
    "gpumem": ("gpu_memory_mib", values.mib),
}
_OWNER_KEYS: Final[Keys] = {
    "cohort": ("cohort", _word),
    "parent": ("cohort", _word),
    "weight": ("weight", values.whole),
    "quota": ("quotas", _quotas),
}
_JOB_KEYS: Final[Keys] = {
    "p": ("priority", values.whole),
    "tenant": ("tenant", _word),
    "model": ("models", _flavors),
    "gpumem": ("gpu_memory_mib", values.mib),
    "walltime": ("walltime", values.seconds),
    "takes": ("takes", values.seconds),
    "cpu": ("cpu_milli", values.milli),
    "ram": ("memory_mib", values.mib),
    "nics": ("nics", values.whole),
    "gate": ("gate", _word),
    "not_before": ("not_before", values.seconds),
    "submitted": ("submitted", values.seconds),
    "min_total": ("min_total", values.whole),
    "required": ("required", _word),
}
_JOB_FLAGS: Final = {"held": "held", "fixed": "fixed"}
_RUN_KEYS: Final[Keys] = {
    "since": ("started", values.seconds),
    "limit": ("limit", values.seconds),
}
_LATER_LINES: Final = frozenset({"domain", "keep", "block"})
_LATER_KEYS: Final = frozenset(
    {
        "mode",
        "layouts",
        "gpudirect",
        "dedicated",
        "window",
        "used",
        "max_priority",
        "budget",
        "expected",
        "ckpt",
        "stopping",
        "protected",
        "preempted",
        "preferred",
        "patience",
        "island",
        "class",
        "after",
        "standby",
        "stop",
        "grace",
        "save",
        "gpus",
    }
)


def _node(world: World, words: Sequence[str], at: int) -> None:
    del at
    name, *rest = words
    node = world.nodes.get(name)
    if rest and "x" in rest[0] and "=" not in rest[0]:
        count, _, model = rest.pop(0).partition("x")
        node = Node(name, _flavor(_word(model)), values.whole(count))
        node.gpus = [GpuState() for _ in range(node.count)]
    if node is None:
        raise ValueError(f"node {name!r} needs its GPUs: write 8xA100")
    _change(node, _options(rest, _NODE_KEYS, {"closed": "closed"}))
    world.nodes[name] = node


def _gpu(world: World, words: Sequence[str], at: int) -> None:
    del at
    place, *rest = words
    name, _, number = place.partition("/")
    node = world.nodes.get(name)
    if node is None or not number.isdecimal() or int(number) >= node.count:
        raise ValueError(f"there is no GPU {place!r}")
    if rest not in (["faulty"], ["ok"]):
        raise NotYetError(f"{' '.join(rest)!r} is not supported yet")
    node.gpus[int(number)].faulty = rest == ["faulty"]


def _cohort(world: World, words: Sequence[str], at: int) -> None:
    del at
    name, *rest = words
    owner = world.cohorts.setdefault(name, Owner(name))
    _change(owner, _options(rest, _OWNER_KEYS, {}))
    _check_cohort(world, owner)


def _tenant(world: World, words: Sequence[str], at: int) -> None:
    del at
    name, *rest = words
    owner = world.tenants.setdefault(name, Owner(name))
    _change(owner, _options(rest, _OWNER_KEYS, {"strict": "strict"}))
    _check_cohort(world, owner)


def _check_cohort(world: World, owner: Owner) -> None:
    if owner.cohort and owner.cohort not in world.cohorts:
        raise ValueError(f"there is no cohort {owner.cohort!r}")


def _job(world: World, words: Sequence[str], at: int) -> list[str]:
    name, *rest = words
    job = world.jobs.get(name) or Job(id=len(world.jobs) + 1, name=name, submitted=at)
    if rest and "=" not in rest[0] and "x" in rest[0]:
        job.groups = values.groups(rest.pop(0))
    if not job.groups:
        raise ValueError(f"job {name!r} needs a shape: write 4x8")
    _change(job, _options(rest, _JOB_KEYS, _JOB_FLAGS))
    return _add(world, job)


def _add(world: World, job: Job) -> list[str]:
    if job.tenant == NOBODY:
        world.tenants.setdefault(NOBODY, Owner(NOBODY))
    if job.tenant not in world.tenants:
        raise ValueError(f"there is no tenant {job.tenant!r}")
    is_new = job.name not in world.jobs
    world.jobs[job.name] = job
    return [job.name] if is_new else []


def _run(world: World, words: Sequence[str], at: int) -> list[str]:
    name, *rest = words
    if rest[1:2] != ["on"] or len(rest) < 3:  # noqa: PLR2004 -- SHAPE on PLACE
        raise ValueError(f"write: run {name} SHAPE on PLACE")
    job = Job(id=len(world.jobs) + 1, name=name, submitted=at, started=at, state="running")
    job.groups = values.groups(rest[0])
    _change(job, _options(rest[3:], {**_JOB_KEYS, **_RUN_KEYS}, _JOB_FLAGS))
    span = job.limit if job.limit is not None else job.walltime
    job.limit = None if span is None else job.started + span
    job.walltime = span
    job.seats = _seats(world, job, values.place(rest[2]))
    return _add(world, job)


def _seats(world: World, job: Job, place: Sequence[tuple[str, int, str]]) -> tuple[Seat, ...]:
    """Members on the lowest-numbered healthy devices of their nodes."""
    names = [group.name for group in job.groups]
    held = held_by_node(world)
    seats: list[Seat] = []
    for group_name, count, node_name in place:
        node = world.nodes.get(node_name)
        if node is None:
            raise ValueError(f"there is no node {node_name!r}")
        if group_name not in names:
            raise ValueError(f"{job.name!r} has no group {group_name!r}")
        group = names.index(group_name)
        asked = job.groups[group].request.count
        for _ in range(count):
            rank = sum(seat.group == group for seat in seats)
            free = [
                number
                for number, gpu in enumerate(node.gpus)
                if number not in held[node_name]
                and not gpu.faulty
                and gpu.mode == GpuMode.EXCLUSIVE
            ]
            if len(free) < asked:
                raise ValueError(f"{job.name!r} does not fit on {node_name}")
            held[node_name].update(free[:asked])
            seats.append(Seat(group, rank, node_name, tuple(free[:asked])))
    return tuple(seats)


def _policy(world: World, words: Sequence[str], at: int) -> None:
    del at
    types = get_type_hints(Policy)
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in {field.name for field in fields(Policy)}:
            raise ValueError(f"unknown policy {word!r}")
        world.policy = replace(world.policy, **{key: _policy_value(types[key], value)})


def _policy_value(kind: Any, word: str) -> Any:
    if kind is bool:
        if word not in {"on", "off"}:
            raise ValueError(f"{word!r} is neither on nor off")
        return word == "on"
    if kind in {int, int | None}:
        if word == "none" and kind is not int:
            return None
        return int(word) if word.isdecimal() else values.seconds(word)
    return kind(word)


_LINES: Final[Mapping[str, Callable[[World, Sequence[str], int], list[str] | None]]] = {
    "node": _node,
    "gpu": _gpu,
    "cohort": _cohort,
    "tenant": _tenant,
    "job": _job,
    "run": _run,
    "policy": _policy,
}
