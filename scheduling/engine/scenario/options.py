"""`key=value` words and flags: which a line takes, what they set, how they are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduling.engine.jobs import ServiceClass
from scheduling.engine.scenario import values
from scheduling.engine.scenario.world import Sharing
from scheduling.engine.snapshot import GpuMode
from topology.catalog.gpus import find_model

_SHARED_MODES: Final = {"time_slicing": GpuMode.TIME_SLICING, "mps": GpuMode.MPS}


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a line. is_instant: its value counts from now, and is kept as an instant."""

    field: str
    read: Callable[[str], Any]
    is_instant: bool = False


@dataclass(frozen=True, slots=True)
class Grammar:
    """The keys and flags that a line takes. flags: the field that each sets to True."""

    keys: Mapping[str, Key]
    flags: Mapping[str, str]

    def read(self, words: Sequence[str], at: int) -> dict[str, Any]:
        """Values by field. Raises ValueError for a word that the line does not take."""
        found: dict[str, Any] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals and word in self.flags:
                found[self.flags[word]] = True
            elif equals and name in self.keys:
                key = self.keys[name]
                read = key.read(value)
                found[key.field] = at + read if key.is_instant else read
            elif not equals and "p" in self.keys and word[0] == "p" and word[1:].isdecimal():
                found["priority"] = values.whole(word[1:])
            else:
                raise ValueError(f"unknown word {word!r}")
        return found


def change(thing: Any, options: Mapping[str, Any]) -> None:
    """Set the fields of `thing`."""
    for name, value in options.items():
        setattr(thing, name, value)


def a_word(value: str) -> str:
    if not value:
        raise ValueError("a key without a value")
    return value


def flavor(word: str) -> str:
    """The catalogue's key for a model, or the word itself."""
    model = find_model(a_word(word))
    return model.key if model else word


def sharing(word: str) -> Sharing:
    """`exclusive`, `hami`, `time_slicing:4`, `time_slicing:4,many`, `mps:4`."""
    if word in {"exclusive", "hami"}:
        return GpuMode[word.upper()], 1, False
    mode, _, rest = word.partition(":")
    count, _, many = rest.partition(",")
    if mode not in _SHARED_MODES or many not in {"", "many"} or not values.whole(count or "0"):
        raise ValueError(f"{word!r} is no way to share a GPU: write time_slicing:4 or hami")
    return _SHARED_MODES[mode], values.at_most(values.MOST_OF_A_NODE, count), many == "many"


def _flavors(word: str) -> tuple[str, ...]:
    return tuple(flavor(part) for part in word.split("|"))


def _quotas(word: str) -> tuple[values.Quota, ...]:
    return tuple(
        (flavor(model), nominal, borrowing, lending)
        for model, nominal, borrowing, lending in values.quotas(word)
    )


def _service_class(word: str) -> ServiceClass:
    if word.upper() not in ServiceClass.__members__:
        raise ValueError(f"{word!r} is no service class")
    return ServiceClass[word.upper()]


def _automatic(word: str) -> bool:
    if word != "auto":
        raise ValueError(f"layouts={word}: only layouts=auto is known")
    return True


def _after(word: str) -> tuple[tuple[str, bool], ...]:
    found = []
    for part in word.split(","):
        name, _, ending = part.rpartition(":")
        if not name or ending not in {"ok", "any"}:
            raise ValueError(f"{part!r} is no dependency: write after=JOB:ok or after=JOB:any")
        found.append((name, ending == "ok"))
    return tuple(found)


NODE: Final = Grammar(
    {
        "cpu": Key("cpu_milli", values.milli),
        "mem": Key("memory_mib", values.mib),
        "nics": Key("nics", values.whole),
        "rack": Key("rack", a_word),
        "block": Key("block", a_word),
        "fabric": Key("fabric", a_word),
        "nvl": Key("nvl", a_word),
        "islands": Key("islands", values.partition),
        "numa": Key("numa", values.partition),
        "gpumem": Key("gpu_memory_mib", values.mib),
        "layouts": Key("auto_layout", _automatic),
        "dedicated": Key("dedicated", _service_class),
        "window": Key("window", values.seconds, is_instant=True),
    },
    {"closed": "closed", "gpudirect": "gpudirect"},
)
_COHORT_KEYS: Final = {
    "weight": Key("weight", values.whole),
    "quota": Key("quotas", _quotas),
}
COHORT: Final = Grammar({**_COHORT_KEYS, "parent": Key("cohort", a_word)}, {})
TENANT: Final = Grammar(
    {
        **_COHORT_KEYS,
        "cohort": Key("cohort", a_word),
        "used": Key("used", values.duration),
        "budget": Key("budget", values.seconds),
        "max_priority": Key("max_priority", values.whole),
    },
    {"strict": "strict"},
)
_JOB_KEYS: Final = {
    "p": Key("priority", values.whole),
    "tenant": Key("tenant", a_word),
    "model": Key("models", _flavors),
    "gpumem": Key("gpu_memory_mib", values.mib),
    "walltime": Key("walltime", values.duration),
    "takes": Key("takes", values.duration),
    "required": Key("required", a_word),
    "preferred": Key("preferred", a_word),
    "patience": Key("patience", values.duration),
    "class": Key("service_class", _service_class),
    "after": Key("after", _after),
    "not_before": Key("not_before", values.seconds, is_instant=True),
    "gate": Key("gate", a_word),
    "cpu": Key("cpu_milli", values.milli),
    "ram": Key("memory_mib", values.mib),
    "nics": Key("nics", values.whole),
    "min_total": Key("min_total", values.whole),
    "submitted": Key("submitted", values.seconds, is_instant=True),
    "stop": Key("stop", values.duration),
    "grace": Key("grace", values.duration),
    "save": Key("save", values.duration),
}
_JOB_FLAGS: Final = {"island": "island", "standby": "standby", "fixed": "fixed", "held": "held"}
JOB: Final = Grammar(_JOB_KEYS, _JOB_FLAGS)
RUN: Final = Grammar(
    {
        **{name: key for name, key in _JOB_KEYS.items() if name != "after"},
        "gpus": Key("devices", a_word),
        "since": Key("started", values.seconds, is_instant=True),
        "limit": Key("walltime", values.duration),
        "expected": Key("expected", values.seconds, is_instant=True),
        "ckpt": Key("checkpoint", values.seconds, is_instant=True),
        "protected": Key("protected", values.seconds, is_instant=True),
        "preempted": Key("preempted", values.whole),
    },
    {**_JOB_FLAGS, "stopping": "is_stopping"},
)
KEEP: Final = Grammar(
    {"gpus": Key("devices", a_word), "until": Key("until", values.seconds, is_instant=True)}, {}
)
BLOCK: Final = Grammar(
    {
        "from": Key("start", values.seconds, is_instant=True),
        "to": Key("end", values.seconds, is_instant=True),
        "tenant": Key("tenant", a_word),
    },
    {},
)
