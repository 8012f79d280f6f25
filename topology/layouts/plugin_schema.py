"""The keys that the device plugin reads, and where: those that stand elsewhere it passes over."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from topology.catalog.sharing import SharingMode
from topology.layouts.faults import Fault, Problem

MODES: Final = {"timeSlicing": SharingMode.TIME_SLICING, "mps": SharingMode.MPS}

# A mapping of keys; LEAF where nothing is looked into; a list of one for a list of such.
_LEAF: Final = None
_SHARED: Final = {
    "renameByDefault": _LEAF,
    "failRequestsGreaterThanOne": _LEAF,
    "resources": [{"name": _LEAF, "rename": _LEAF, "devices": _LEAF, "replicas": _LEAF}],
}
_PLUGIN_FLAGS: Final = (
    "passDeviceSpecs",
    "deviceListStrategy",
    "deviceIDStrategy",
    "cdiAnnotationPrefix",
    "nvidiaCTKPath",
    "containerDriverRoot",
    "sharedDevicesAllocationPolicy",
)
_DISCOVERY_FLAGS: Final = (
    "oneshot",
    "noTimestamp",
    "sleepInterval",
    "outputFile",
    "machineTypeFile",
)
_FLAGS: Final = (
    "migStrategy",
    "failOnInitError",
    "mpsRoot",
    "nvidiaDriverRoot",
    "nvidiaDevRoot",
    "gdrcopyEnabled",
    "gdsEnabled",
    "mofedEnabled",
    "useNodeFeatureAPI",
    "deviceDiscoveryStrategy",
)
_SCHEMA: Final[Mapping[str, Any]] = {
    "version": _LEAF,
    "flags": {
        **dict.fromkeys(_FLAGS),
        "plugin": dict.fromkeys(_PLUGIN_FLAGS),
        "gfd": dict.fromkeys(_DISCOVERY_FLAGS),
    },
    "resources": _LEAF,
    "sharing": dict.fromkeys(MODES, _SHARED),
    "imex": {"channelIDs": _LEAF, "required": _LEAF},
    "health": _LEAF,
}


def schema_problems(name: str, document: Mapping[str, Any]) -> list[Problem]:
    """The keys of a configuration that nobody reads, with the place where they would be read."""
    return list(_problems(f"{name}: " if name else "", "", document, _SCHEMA))


def _problems(config: str, path: str, read: Any, schema: Any) -> Iterator[Problem]:
    if isinstance(schema, list) and isinstance(read, list):
        for at, own in enumerate(read):
            yield from _problems(config, f"{path}[{at}]", own, schema[0])
    if not isinstance(schema, dict) or not isinstance(read, dict):
        return
    for key, value in read.items():
        where = f"{path}.{key}" if path else str(key)
        if key in schema:
            yield from _problems(config, where, value, schema[key])
        elif places := sorted(_places("", _SCHEMA, key)):
            values = {"place": " or ".join(places)}
            yield Problem(config + where, Fault.MISPLACED_KEY, values)
        else:
            yield Problem(config + where, Fault.UNKNOWN_KEY)


def _places(path: str, schema: Any, key: Any) -> Iterator[str]:
    """Where the plugin would read `key`."""
    inner = schema[0] if isinstance(schema, list) else schema
    if not isinstance(inner, dict):
        return
    if key in inner:
        yield path or "the top"
    for name, below in inner.items():
        yield from _places(f"{path}.{name}" if path else name, below, key)
