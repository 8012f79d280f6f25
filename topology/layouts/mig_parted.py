"""Configurations of mig-parted, which the MIG manager applies by name: read, checked, written.

The file's form is api/spec/v1/spec.go of NVIDIA/mig-parted. Each configuration of a file is judged
by itself, since only the one that a node's label names is ever applied.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from topology.layouts.documents import config_map_data, read_document, write_document
from topology.layouts.faults import Fault, Problem, RefusedError

CONFIG_KEY: Final = "config.yaml"  # of the ConfigMap that the MIG manager reads
_VERSION: Final = "v1"
_FILTER: Final = re.compile(r"0x[0-9A-Fa-f]{8}(:0x[0-9A-Fa-f]{8})?")
_KEYS: Final = ("device-filter", "devices", "mig-enabled", "mig-devices")


@dataclass(frozen=True, slots=True)
class MigEntry:
    """What some GPUs of a node become.

    gpus: their numbers, None for all. device_filter: PCI device ids that it is limited to, empty
    for any. profiles: name and count of the instances wanted on each; empty if none.
    """

    gpus: tuple[int, ...] | None
    device_filter: tuple[str, ...]
    mig_enabled: bool
    profiles: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class MigConfig:
    """A named configuration. problems: why it is refused; it may be applied if there are none."""

    name: str
    entries: tuple[MigEntry, ...]
    problems: tuple[Problem, ...] = ()


def read_mig_configs(text: str) -> tuple[MigConfig, ...]:
    """The configurations of a mig-parted file, or of a ConfigMap that holds one, in its order.

    Raises RefusedError if the text is no such file at all.
    """
    document = read_document(text)
    data = config_map_data(document)
    if data is not None:
        if CONFIG_KEY not in data:
            raise RefusedError(Problem("data", Fault.MISSING_KEY, {"key": CONFIG_KEY}))
        document = read_document(data[CONFIG_KEY])
    configs = _configs(document)
    return tuple(_config(str(name), entries) for name, entries in configs.items())


def _configs(document: Any) -> Mapping[Any, Any]:
    if not isinstance(document, dict):
        raise RefusedError(Problem("", Fault.NO_MAPPING))
    if document.get("version") != _VERSION:
        found = document.get("version", "not given")
        raise RefusedError(Problem("version", Fault.VERSION, {"found": found}))
    for key in document:
        if key not in {"version", "mig-configs"}:
            raise RefusedError(Problem(str(key), Fault.UNKNOWN_KEY))
    configs = document.get("mig-configs")
    if not isinstance(configs, dict) or not configs:
        raise RefusedError(Problem("mig-configs", Fault.NO_MAPPING))
    return configs


def _config(name: str, read: Any) -> MigConfig:
    where = f"mig-configs.{name}"
    if not isinstance(read, list) or not read:
        return MigConfig(name, (), (Problem(where, Fault.NO_LIST),))
    problems: list[Problem] = []
    entries = [_entry(f"{where}[{at}]", own, problems) for at, own in enumerate(read)]
    good = tuple(own for own in entries if own is not None)
    problems += _claimed_twice(where, good)
    return MigConfig(name, good, tuple(problems))


def _claimed_twice(where: str, entries: Sequence[MigEntry]) -> list[Problem]:
    """GPUs that two entries name. Those chosen by model are seen on the node itself."""
    claimed: list[int] = [gpu for own in entries if not own.device_filter for gpu in own.gpus or ()]
    twice = sorted({gpu for gpu in claimed if claimed.count(gpu) > 1})
    return [Problem(where, Fault.CLAIMED_TWICE, {"gpu": gpu}) for gpu in twice]


def _entry(where: str, read: Any, problems: list[Problem]) -> MigEntry | None:
    """One entry, or None if it cannot be read; why is added to `problems`."""
    found = _entry_problems(where, read)
    if found:
        problems += found
        return None
    devices, only = read["devices"], read.get("device-filter", [])
    return MigEntry(
        gpus=None if devices == "all" else tuple(devices),
        device_filter=(only,) if isinstance(only, str) else tuple(only),
        mig_enabled=read["mig-enabled"],
        profiles=tuple((read.get("mig-devices") or {}).items()),
    )


def _entry_problems(where: str, read: Any) -> list[Problem]:
    if not isinstance(read, dict):
        return [Problem(where, Fault.NO_MAPPING)]
    found = [Problem(f"{where}.{key}", Fault.UNKNOWN_KEY) for key in read if key not in _KEYS]
    found += [
        Problem(where, Fault.MISSING_KEY, {"key": key})
        for key in ("devices", "mig-enabled")
        if key not in read
    ]
    if found:
        return found
    return [
        *_devices_problems(f"{where}.devices", read["devices"]),
        *_filter_problems(f"{where}.device-filter", read.get("device-filter", [])),
        *_instances_problems(where, read["mig-enabled"], read.get("mig-devices")),
    ]


def _devices_problems(where: str, devices: Any) -> list[Problem]:
    if devices == "all":
        return []
    if not isinstance(devices, list) or not all(_is_count(own) for own in devices):
        return [Problem(where, Fault.DEVICES, {"found": devices})]
    twice = sorted({gpu for gpu in devices if devices.count(gpu) > 1})
    return [Problem(where, Fault.CLAIMED_TWICE, {"gpu": gpu}) for gpu in twice]


def _filter_problems(where: str, only: Any) -> list[Problem]:
    words = only if isinstance(only, list) else [only]
    return [
        Problem(where, Fault.DEVICE_FILTER, {"found": word})
        for word in words
        if not isinstance(word, str) or not _FILTER.fullmatch(word)
    ]


def _instances_problems(where: str, enabled: Any, instances: Any) -> list[Problem]:
    if not isinstance(enabled, bool):
        return [Problem(f"{where}.mig-enabled", Fault.NO_BOOLEAN, {"found": enabled})]
    if not enabled:
        clash = Problem(f"{where}.mig-devices", Fault.DISABLED_WITH_DEVICES)
        return [clash] if instances else []
    if instances is None:
        return [Problem(where, Fault.MISSING_KEY, {"key": "mig-devices"})]
    if not isinstance(instances, dict):
        return [Problem(f"{where}.mig-devices", Fault.NO_MAPPING)]
    return [
        Problem(f"{where}.mig-devices.{name}", Fault.NO_COUNT, {"found": count})
        for name, count in instances.items()
        if not isinstance(name, str) or not _is_count(count)
    ]


def _is_count(value: Any) -> bool:
    """Whether it is a whole number from 0 on; True and False are numbers to Python only."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def write_mig_configs(configs: Mapping[str, Sequence[MigEntry]]) -> str:
    """The mig-parted file with these configurations: what `read_mig_configs` reads as them."""
    written = {name: [written_entry(entry) for entry in own] for name, own in configs.items()}
    return write_document({"version": _VERSION, "mig-configs": written})


def written_entry(entry: MigEntry) -> dict[str, Any]:
    """An entry as the file has it."""
    only = {"device-filter": list(entry.device_filter)} if entry.device_filter else {}
    instances = {"mig-devices": dict(entry.profiles)} if entry.mig_enabled else {}
    return {
        **only,
        "devices": "all" if entry.gpus is None else list(entry.gpus),
        "mig-enabled": entry.mig_enabled,
        **instances,
    }
