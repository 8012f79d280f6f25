"""NVIDIA's GPU Operator on all nodes: its MIG manager and device plugin do what labels say.

The operator is taken to be installed with the two ConfigMaps of `NAMESPACE` that stand below. Pods
of people are never evicted: a GPU in use makes a change fail, as with the real one.
"""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from simcluster.devices import given_boards
from simcluster.gpu_layouts import (
    VENDOR,
    ConfigError,
    Cut,
    PluginConfig,
    changed_gpus,
    cuts_of,
    cuts_wanted,
    has_gpus,
    offers,
    put_cuts,
    put_discovered,
    put_offers,
    read_plugin,
)
from simcluster.objects import Obj, Stored, is_finished, labels_of, name_of
from simcluster.resources import CONFIGMAPS, NODES
from simcluster.store import Event
from simcluster.world import World

NAMESPACE = "gpu-operator"
MIG_CONFIG_MAP, MIG_KEY = "muster-mig-parted-config", "config.yaml"
PLUGIN_CONFIG_MAP = "muster-device-plugin-config"
MIG_CONFIG, MIG_STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
PAUSED = "paused-for-mig-change"
DEFAULT_MIG = "all-disabled"
MIG_FILE = """version: v1
mig-configs:
  all-disabled:
  - devices: all
    mig-enabled: false
"""
_DEPLOYED = ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm")
_LABELS = tuple(f"nvidia.com/gpu.deploy.{part}" for part in _DEPLOYED)
RANK_GPU = 5
MIG_SECONDS, PLUGIN_SECONDS, REBOOT_SECONDS = 30.0, 10.0, 180.0
# What may go wrong with the next change of a node, and where: see docs/simcluster.md.
FAULTS = ("failed", "stuck", "fallback", "short", "reboot", "reboot-needed", "plugin-stuck")


class Machines(Protocol):
    """Nodes that can be turned off and on."""

    def stop(self, name: str) -> None: ...

    def start(self, name: str) -> None: ...


@dataclass(slots=True)
class _Noted:
    mig: bool = False
    plugin: bool = False


class GpuOperator:
    def __init__(self, world: World, machines: Machines) -> None:
        self._world = world
        self._machines = machines
        self._noted: dict[str, _Noted] = {}
        self._turn: dict[str, int] = {}  # by node: a change that a later one overtook ends unseen
        self._without_plugin: set[str] = set()
        self.faults: dict[str, str] = {}

    def seen(self, event: Event) -> None:
        if event.resource is not NODES or event.kind == "DELETED" or not has_gpus(event.obj):
            return
        new, old = labels_of(event.obj), labels_of(event.old) if event.old else {}
        noted = _Noted()
        if event.old is None:
            noted.mig = MIG_CONFIG in new and new.get(MIG_STATE) not in {"success", "failed"}
            noted.plugin = _has_no_offer(event.obj)
        else:
            noted.mig = new.get(MIG_CONFIG) != old.get(MIG_CONFIG)
            resumed = _is_paused(event.old) and not _is_paused(event.obj)
            noted.plugin = resumed or new.get(PLUGIN_CONFIG) != old.get(PLUGIN_CONFIG)
        if noted.mig or noted.plugin:
            before = self._noted.setdefault(name_of(event.obj), _Noted())
            before.mig, before.plugin = before.mig or noted.mig, before.plugin or noted.plugin

    def act(self) -> bool:
        noted, self._noted = self._noted, {}
        for name, own in noted.items():
            node = self._node(name)
            if node is None:
                continue
            if own.mig:
                self._begin(node)
            if own.plugin:
                self._in(PLUGIN_SECONDS, partial(self._restart_plugin, name))
        return bool(noted)

    def fail_next(self, node: str, how: str) -> None:
        """Let the next change of a node go wrong; ValueError for a way that is not known."""
        if how not in FAULTS:
            raise ValueError(f"{how!r} is no way to fail: {', '.join(FAULTS)}")
        self.faults[node] = how

    def _begin(self, node: Stored) -> None:
        """A node's label names another configuration than before."""
        name = name_of(node)
        self._turn[name] = turn = self._turn.get(name, 0) + 1
        self._without_plugin.discard(name)
        try:
            wanted = self._wanted(node)
        except ConfigError:
            self._say(node, "failed")
            return
        if wanted == cuts_of(node) and name not in self.faults:
            self._say(node, "success")
            return

        def pause(new: Obj) -> None:
            new["metadata"]["labels"] |= {MIG_STATE: "pending", **dict.fromkeys(_LABELS, PAUSED)}
            put_offers(new, {})

        self._world.store.change(NODES, node, pause)
        self._in(MIG_SECONDS, partial(self._apply, name, turn))

    def _apply(self, name: str, turn: int) -> None:
        node, fault = self._node(name), self.faults.pop(name, "")
        if node is None or self._turn.get(name) != turn or fault == "stuck":
            return
        try:
            wanted = self._wanted(node)
        except ConfigError:
            wanted, fault = cuts_of(node), "failed"
        if fault in {"failed", "reboot-needed"} or self._in_use(node, wanted):
            self._end(name, cuts_of(node), "failed")
        elif fault == "reboot":
            self._say(node, "rebooting")
            self._machines.stop(name)
            self._in(REBOOT_SECONDS, partial(self._boot, name, turn, wanted))
        elif fault == "fallback":
            self._end(name, tuple(None for _ in wanted), "success")
        elif fault == "short":
            self._end(name, tuple(cut and cut[1:] for cut in wanted), "success")
        else:
            if fault == "plugin-stuck":
                self._without_plugin.add(name)
            self._end(name, wanted, "success")

    def _boot(self, name: str, turn: int, wanted: tuple[Cut, ...]) -> None:
        self._machines.start(name)
        if self._turn.get(name) == turn:
            self._end(name, wanted, "success")

    def _end(self, name: str, cuts: tuple[Cut, ...], state: str) -> None:
        node = self._node(name)
        if node is None:
            return

        def write(new: Obj) -> None:
            put_cuts(new, cuts)
            new["metadata"]["labels"] |= {MIG_STATE: state, **dict.fromkeys(_LABELS, "true")}

        self._world.store.change(NODES, node, write)

    def _restart_plugin(self, name: str) -> None:
        """The device plugin reads its configuration and reports what there is to the kubelet."""
        node = self._node(name)
        if node is None or _is_paused(node) or name in self._without_plugin:
            return
        config = self._plugin_config(node)
        if config is None:
            return  # it goes on with what it had

        def write(new: Obj) -> None:
            put_offers(new, offers(new, config))
            put_discovered(new, config)

        self._world.store.change(NODES, node, write)

    def _in(self, seconds: float, action: partial[None]) -> None:
        self._world.timers.add(self._world.clock.now() + seconds, RANK_GPU, action=action)

    def _wanted(self, node: Obj) -> tuple[Cut, ...]:
        text = self._data(MIG_CONFIG_MAP).get(MIG_KEY, MIG_FILE)
        return cuts_wanted(node, text, labels_of(node).get(MIG_CONFIG, DEFAULT_MIG))

    def _plugin_config(self, node: Obj) -> PluginConfig | None:
        key = labels_of(node).get(PLUGIN_CONFIG)
        text = self._data(PLUGIN_CONFIG_MAP).get(key or "default")
        if text is None:
            return None if key else PluginConfig()
        return read_plugin(text)

    def _in_use(self, node: Obj, wanted: tuple[Cut, ...]) -> bool:
        gpus = changed_gpus(node, wanted)
        pods = [pod for pod in self._world.store.pods_on(name_of(node)) if not is_finished(pod)]
        return any(gpus & given_boards(pod) for pod in pods)

    def _say(self, node: Stored, state: str) -> None:
        self._world.store.change(
            NODES, node, lambda new: new["metadata"]["labels"].update({MIG_STATE: state})
        )

    def _node(self, name: str) -> Stored | None:
        return self._world.store.get(NODES, "", name)

    def _data(self, name: str) -> dict[str, str]:
        found = self._world.store.get(CONFIGMAPS, NAMESPACE, name)
        return {} if found is None else found.get("data") or {}


def _is_paused(node: Obj) -> bool:
    return PAUSED in labels_of(node).values()


def _has_no_offer(node: Obj) -> bool:
    """Whether its device plugin is away, as it may be when simcluster itself was restarted."""
    room = node["status"].get("allocatable", {})
    return not any(int(count) for name, count in room.items() if name.startswith(VENDOR))
