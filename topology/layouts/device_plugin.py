"""Configurations of NVIDIA's device plugin: MIG strategy and sharing; read, checked, written.

The file's form is api/config/v1 of NVIDIA/k8s-device-plugin. A ConfigMap holds several, and the
node label `nvidia.com/device-plugin.config` names the one that a node gets.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from topology.catalog.boards import MIG_PREFIX
from topology.catalog.gpus import GpuModel
from topology.catalog.sharing import SharingMode, most_shares
from topology.layouts.documents import config_map_data, read_document, write_document
from topology.layouts.faults import Fault, Problem, RefusedError
from topology.layouts.node import WHOLE_GPU, GpuLayout, MigStrategy, resources
from topology.layouts.plugin_schema import MODES, schema_problems

_VERSION: Final = "v1"
_PREFIX: Final = "nvidia.com/"
_LONGEST_NAME: Final = 63
_LEAST_REPLICAS: Final = 2


@dataclass(frozen=True, slots=True)
class PluginSharing:
    """How the plugin shares devices of a node.

    rename: whether shared resources get the ending .shared. refuse_many: whether a request for more
    than one share fails. replicas: shares of each device, by resource name.
    """

    mode: SharingMode
    rename: bool
    refuse_many: bool
    replicas: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """One configuration. problems: why it is refused.

    What it would do is told even then, as far as it can be: the plugin passes over much in silence.
    """

    name: str
    strategy: MigStrategy
    sharing: PluginSharing | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node offers: how many of each resource name, and how many GPUs it really has."""

    resources: Mapping[str, int]
    gpus: int


def read_plugin_configs(text: str) -> tuple[PluginConfig, ...]:
    """The configurations of a ConfigMap by its keys, or the one of a plain file, named "".

    Raises RefusedError if the text is no such file at all.
    """
    document = read_document(text)
    data = config_map_data(document)
    if data is None:
        return (_config("", document),)
    return tuple(_config(name, read_document(own)) for name, own in data.items())


def config_named(configs: Sequence[PluginConfig], name: str) -> PluginConfig:
    """The configuration that a node's label names. Raises RefusedError: the plugin would go on with
    what it had, in silence.
    """
    for config in configs:
        if config.name == name:
            return config
    known = ", ".join(own.name for own in configs)
    raise RefusedError(Problem("", Fault.NO_CONFIG, {"key": name, "known": known}))


def _config(name: str, document: Any) -> PluginConfig:
    if not isinstance(document, dict):
        problem = Problem(name, Fault.NO_MAPPING)
        return PluginConfig(name, MigStrategy.NONE, None, (problem,))
    problems = schema_problems(name, document)
    if document.get("version") != _VERSION:
        found = document.get("version", "not given")
        problems.append(Problem(_path(name, "version"), Fault.VERSION, {"found": found}))
    strategy = _strategy(name, document, problems)
    sharing = _sharing(name, _mapping(document, "sharing"), problems)
    return PluginConfig(name, strategy, sharing, tuple(problems))


def _strategy(name: str, document: Mapping[str, Any], problems: list[Problem]) -> MigStrategy:
    found = _mapping(document, "flags").get("migStrategy", MigStrategy.NONE)
    if found in list(MigStrategy):
        return MigStrategy(found)
    where = _path(name, "flags.migStrategy")
    problems.append(Problem(where, Fault.STRATEGY, {"found": found}))
    return MigStrategy.NONE


def _sharing(
    name: str, document: Mapping[str, Any], problems: list[Problem]
) -> PluginSharing | None:
    modes = [key for key in MODES if document.get(key) is not None]
    if len(modes) > 1:
        problems.append(Problem(_path(name, "sharing"), Fault.BOTH_SHARINGS))
    if not modes:
        return None
    key = modes[0]
    where = _path(name, f"sharing.{key}")
    read, mode = _mapping(document, key), MODES[key]
    is_mps = mode == SharingMode.MPS
    rename = _flag(where, read, "renameByDefault", problems)
    refuse_many = _flag(where, read, "failRequestsGreaterThanOne", problems, default=is_mps)
    if is_mps and not refuse_many:
        at = f"{where}.failRequestsGreaterThanOne"
        problems.append(Problem(at, Fault.MPS_ALWAYS_FAILS_MANY))
    replicas = _replicas(f"{where}.resources", read.get("resources"), mode, problems)
    return PluginSharing(mode, rename, refuse_many or is_mps, replicas)


def _flag(
    where: str,
    read: Mapping[str, Any],
    key: str,
    problems: list[Problem],
    *,
    default: bool = False,
) -> bool:
    found = read.get(key, default)
    if isinstance(found, bool):
        return found
    problems.append(Problem(f"{where}.{key}", Fault.NO_BOOLEAN, {"found": found}))
    return default


def _replicas(
    where: str, read: Any, mode: SharingMode, problems: list[Problem]
) -> tuple[tuple[str, int], ...]:
    if not isinstance(read, list) or not read:
        problems.append(Problem(where, Fault.NO_LIST))
        return ()
    good: dict[str, int] = {}
    for at, resource in enumerate(read):
        found = list(_resource_problems(f"{where}[{at}]", resource, mode))
        problems += found
        if isinstance(resource, dict) and _is_replicas(resource.get("replicas")):
            name = str(resource.get("name"))
            if name in good:
                problems.append(Problem(f"{where}[{at}]", Fault.RESOURCE_TWICE, {"name": name}))
            good[name] = resource["replicas"]
    return tuple(good.items())


def _resource_problems(where: str, read: Any, mode: SharingMode) -> list[Problem]:
    if not isinstance(read, dict):
        return [Problem(where, Fault.NO_MAPPING)]
    found = []
    name = read.get("name")
    if not isinstance(name, str) or not _is_resource(name):
        found.append(Problem(f"{where}.name", Fault.RESOURCE_NAME, {"found": name}))
    elif mode == SharingMode.MPS and name.startswith(MIG_PREFIX):
        found.append(Problem(f"{where}.name", Fault.MPS_ON_MIG))
    if not _is_replicas(read.get("replicas")):
        found.append(Problem(f"{where}.replicas", Fault.REPLICAS, {"found": read.get("replicas")}))
    if read.get("devices", "all") != "all":
        found.append(Problem(f"{where}.devices", Fault.DEVICES_IGNORED))
    if "rename" in read:
        found.append(Problem(f"{where}.rename", Fault.RENAME_IGNORED))
    return found


def _is_resource(name: str) -> bool:
    return name.startswith(_PREFIX) and len(_PREFIX) < len(name) <= _LONGEST_NAME


def _is_replicas(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= _LEAST_REPLICAS


def _mapping(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def _path(name: str, rest: str) -> str:
    return f"{name}: {rest}" if name else rest


def offer(config: PluginConfig, models: Sequence[GpuModel], layouts: Sequence[GpuLayout]) -> Offer:
    """What a node with these GPUs would offer under `config`, whether it is refused or not."""
    counts = resources(models, layouts, config.strategy)
    replicas = dict(config.sharing.replicas) if config.sharing else {}
    ending = ".shared" if config.sharing and config.sharing.rename else ""
    shared: Counter[str] = Counter()
    for name, count in counts.items():
        if name in replicas:
            shared[name + ending] += count * replicas[name]
        else:
            shared[name] += count
    return Offer(dict(shared), len(models))


def node_problems(
    config: PluginConfig, models: Sequence[GpuModel], layouts: Sequence[GpuLayout]
) -> tuple[Problem, ...]:
    """What is wrong with `config` on a node with these GPUs, beyond what is wrong with it anywhere:
    it shares what the node has not, or more often than MPS can.
    """
    found = []
    counts = resources(models, layouts, config.strategy)
    sharing = config.sharing
    for name, replicas in sharing.replicas if sharing else ():
        where = _path(config.name, "sharing")
        if not counts[name]:
            found.append(Problem(where, Fault.NOT_ON_NODE, {"name": name}))
        if sharing and sharing.mode == SharingMode.MPS and name == WHOLE_GPU:
            found += _too_many(where, replicas, models)
    return tuple(found)


def _too_many(where: str, replicas: int, models: Sequence[GpuModel]) -> list[Problem]:
    return [
        Problem(where, Fault.MPS_TOO_MANY, {"model": model.key, "most": most, "found": replicas})
        for model in dict.fromkeys(models)
        if (most := most_shares(SharingMode.MPS, model)) is not None and replicas > most
    ]


def write_plugin_config(config: PluginConfig) -> str:
    """The configuration as a file: what `read_plugin_configs` reads as it."""
    written: dict[str, Any] = {
        "version": _VERSION,
        "flags": {"migStrategy": config.strategy.value},
    }
    if config.sharing is not None:
        sharing = config.sharing
        key = next(key for key, mode in MODES.items() if mode == sharing.mode)
        written["sharing"] = {
            key: {
                "renameByDefault": sharing.rename,
                "failRequestsGreaterThanOne": sharing.refuse_many,
                "resources": [
                    {"name": name, "replicas": count} for name, count in sharing.replicas
                ],
            }
        }
    return write_document(written)
