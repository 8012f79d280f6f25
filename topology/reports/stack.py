"""The GPU software of a cluster as people read it: what is there, and what is lost without it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from topology.models import ClusterCheck


@dataclass(frozen=True, slots=True)
class Part:
    """name: as its makers call it. lost: what one does without it. beside: it places pods too."""

    name: str
    lost: Promise
    beside: bool = False


_PLACES = _("Nothing is lost: Muster orders, places and holds gangs itself.")
PARTS: dict[str, Part] = {
    "driver": Part("NVIDIA driver", _("No program can use a GPU.")),
    "toolkit": Part(
        "NVIDIA Container Toolkit", _("Containers do not see the GPUs that they are given.")
    ),
    "device_plugin": Part(
        "NVIDIA device plugin",
        _("The nodes offer no GPUs, unless the DRA driver or HAMi does: nothing can be placed."),
    ),
    "gfd": Part(
        "GPU Feature Discovery",
        _("Models and memory of GPUs are known only where the node agent tells them."),
    ),
    "dcgm_exporter": Part(
        "DCGM exporter",
        _("Use of GPUs is not measured: no activity, no idle GPUs found. What is held is known."),
    ),
    "mig_manager": Part("MIG manager", _("MIG layouts cannot be rolled out.")),
    "gpu_operator": Part(
        "GPU Operator",
        _("Driver, toolkit and the rest are installed and renewed by hand."),
    ),
    "dra_driver": Part(
        "NVIDIA DRA driver",
        _("A job gets GPUs of its node, but not those that were planned, one by one."),
    ),
    "pod_groups": Part(
        "PodGroups (Kubernetes)",
        _("Gangs start whole by Muster's gate alone; the cluster's scheduler is no second wall."),
    ),
    "hami": Part("HAMi", _("GPUs cannot be shared by memory; MIG and time-slicing can be used.")),
    "volcano": Part("Volcano", _PLACES, beside=True),
    "kueue": Part("Kueue", _PLACES, beside=True),
    "kai": Part("KAI Scheduler", _PLACES, beside=True),
    "agent": Part(
        "Muster node agent",
        _("Links, NUMA and islands are not known: the GPUs of a node are taken for equally close."),
    ),
}
PRESENT_BESIDE = _("It places pods too: give it nodes or namespaces of its own.")
STATES: dict[str, Promise] = {
    "there": _("there"),
    "partly": _("on some nodes"),
    "missing": _("not found"),
    "unknown": _("cannot be seen"),
}


@dataclass(frozen=True, slots=True)
class PartRow:
    """One part as found. state: a key of STATES. nodes: that show it, None if it shows on none."""

    key: str
    name: str
    state: str
    versions: tuple[str, ...]
    nodes: int | None
    says: Promise | str

    @property
    def state_says(self) -> Promise:
        return STATES[self.state]


def stack_rows(check: ClusterCheck) -> tuple[PartRow, ...]:
    """The parts of the stack in the order of PARTS."""
    return rows_of(check.parts, gpu_nodes=check.gpu_nodes)


def rows_of(parts: Sequence[dict[str, Any]], *, gpu_nodes: int) -> tuple[PartRow, ...]:
    """As `stack_rows`, of what was just found. A part that was not looked for is left out."""
    found = {part["key"]: part for part in parts}
    return tuple(
        _row(key, part, found[key], gpu_nodes) for key, part in PARTS.items() if key in found
    )


def _row(key: str, part: Part, seen: dict[str, Any], gpu_nodes: int) -> PartRow:
    state = _state(seen, gpu_nodes)
    return PartRow(
        key=key,
        name=part.name,
        state=state,
        versions=tuple(seen["versions"]),
        nodes=seen["nodes"],
        says=_says(part, state),
    )


def _state(seen: dict[str, Any], gpu_nodes: int) -> str:
    if seen["is_there"] is None:
        return "unknown"
    if not seen["is_there"]:
        return "missing"
    return "partly" if seen["nodes"] is not None and seen["nodes"] < gpu_nodes else "there"


def _says(part: Part, state: str) -> Promise | str:
    """What is lost, or what to mind; nothing where all is well."""
    if part.beside:
        return PRESENT_BESIDE if state in {"there", "partly"} else part.lost
    return "" if state == "there" else part.lost
