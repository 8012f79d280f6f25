"""Which GPU software a cluster has, by what its nodes and workloads show; nothing is changed.

Each part leaves its own marks: the image of its DaemonSet or Deployment, an API group, a label or
annotation on nodes. One mark is enough, and what may not be looked at is said rather than guessed.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from topology.kube import names, podgroups
from topology.kube.wire import ApiError, Obj, Request, Wire, pages

DRIVER_NOTE = "muster.dev/gpu-driver"
_DRIVER_FULL = "nvidia.com/cuda.driver-version.full"
_DRIVER_PARTS = ("major", "minor", "rev")
_UNAUTHORIZED, _NOT_FOUND = 401, 404
_WORKLOADS = ("/apis/apps/v1/daemonsets", "/apis/apps/v1/deployments")
_RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSeen:
    """One part of the stack.

    is_there: None where none of its marks was found and not all could be looked for.
    versions: as they are said, each once. nodes: those that show it; None for what shows on none.
    """

    key: str
    is_there: bool | None
    versions: tuple[str, ...] = ()
    nodes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSeen:
    """kubernetes: its version. gpu_nodes: nodes with GPUs. closed: paths that we may not list."""

    kubernetes: str
    nodes: int
    gpu_nodes: int
    parts: tuple[PartSeen, ...]
    closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """A container that a DaemonSet or Deployment runs. ready: on so many nodes; 0 otherwise."""

    image: str  # without registry mirror's tag or digest
    tag: str
    container: str
    ready: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What gives a part away.

    image, container: patterns that the image's path and the container's name match both.
    but_not: one that the container's name must not match. group: an API group that it serves.
    kind: a kind of object that it serves, as "group/version/plural".
    shows: whether a node shows it; version: which one.
    runtime, device_class: names of a RuntimeClass's handler or a DeviceClass.
    """

    key: str
    image: str = ""
    container: str = ""
    but_not: str = ""
    group: str = ""
    kind: str = ""
    shows: Callable[[Obj], bool] | None = None
    version: Callable[[Obj], str] | None = None
    runtime: str = ""
    device_class: str = ""


def _has_label(node: Obj, *, prefix: str) -> bool:
    return any(key.startswith(prefix) for key in node["metadata"].get("labels") or {})


def _has_note(node: Obj, *, prefix: str) -> bool:
    return any(key.startswith(prefix) for key in node["metadata"].get("annotations") or {})


def _offers(node: Obj, *, prefix: str) -> bool:
    room = node.get("status", {}).get("allocatable") or {}
    return any(key.startswith(prefix) and str(room[key]) != "0" for key in room)


def driver_of(node: Obj) -> str:
    """The driver's version by feature discovery, else by our agent; empty where neither says."""
    labels = node["metadata"].get("labels") or {}
    parts = [labels.get(f"nvidia.com/cuda.driver.{part}", "") for part in _DRIVER_PARTS]
    said = labels.get(_DRIVER_FULL) or ".".join(part for part in parts if part)
    return said or _driver_note(node).get("version", "")


def _driver_note(node: Obj) -> dict[str, str]:
    text = (node["metadata"].get("annotations") or {}).get(DRIVER_NOTE)
    try:
        said = json.loads(text or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _has_driver(node: Obj) -> bool:
    """A device that is offered is driven by one, even where nobody says its version."""
    state = _driver_note(node).get("state")
    return state in {"ok", "tegra"} or bool(driver_of(node)) or _offers(node, prefix="nvidia.com/")


PARTS = (
    Marks(key="driver", image=r"(^|/)nvidia/driver$", shows=_has_driver, version=driver_of),
    Marks(key="toolkit", image=r"(^|/)container-toolkit$", runtime="nvidia"),
    Marks(
        key="device_plugin",
        image=r"(^|/)k8s-device-plugin$",
        but_not="feature-discovery|mps",
        shows=partial(_offers, prefix="nvidia.com/"),
    ),
    Marks(
        key="gfd",
        image=r"(^|/)(gpu-feature-discovery|k8s-device-plugin)$",
        container="feature-discovery",
        shows=partial(_has_label, prefix=names.GPU_PRODUCT),
    ),
    Marks(key="dcgm_exporter", image=r"(^|/)dcgm-exporter$"),
    Marks(
        key="mig_manager",
        image=r"(^|/)k8s-mig-manager$",
        shows=partial(_has_label, prefix="nvidia.com/mig.config.state"),
    ),
    Marks(key="gpu_operator", image=r"(^|/)gpu-operator$"),
    Marks(
        key="dra_driver",
        image=r"(^|/)(k8s-dra-driver-gpu|dra-driver-nvidia-gpu)$",
        device_class="gpu.nvidia.com",
    ),
    Marks(
        key="hami",
        image=r"(^|/)hami$",
        shows=partial(_has_note, prefix="hami.io/node-nvidia-register"),
    ),
    Marks(key="pod_groups", kind=f"{podgroups.API}/{podgroups.PLURAL}"),
    Marks(key="volcano", image=r"(^|/)vc-scheduler$", group="scheduling.volcano.sh"),
    Marks(key="kueue", image=r"(^|/)kueue(-controller)?$", group="kueue.x-k8s.io"),
    Marks(key="kai", image=r"(^|/)kai-scheduler/", group="scheduling.run.ai"),
    Marks(key="agent", shows=partial(_has_label, prefix="muster.dev/gpu-driver-state")),
)


@dataclass(frozen=True, slots=True)
class Evidence:
    nodes: tuple[Obj, ...]
    workloads: tuple[Workload, ...]
    groups: frozenset[str]
    kinds: frozenset[str]
    runtimes: frozenset[str]
    classes: frozenset[str]
    closed: tuple[str, ...]


def stack_of(wire: Wire) -> StackSeen:
    """What the cluster has. ApiError where it does not know who we are."""
    version = wire.ask(Request(method="GET", path="/version")).get("gitVersion", "")
    closed: list[str] = []
    nodes = tuple(_list(wire, "/api/v1/nodes", closed))
    found = Evidence(
        nodes=tuple(node for node in nodes if has_gpus(node)),
        workloads=tuple(w for path in _WORKLOADS for w in _workloads(_list(wire, path, closed))),
        groups=_groups(wire, closed),
        kinds=_kinds(wire, podgroups.API, closed),
        runtimes=frozenset(obj["handler"] for obj in _list(wire, _RUNTIMES, closed)),
        classes=frozenset(obj["metadata"]["name"] for obj in _list(wire, _CLASSES, closed)),
        closed=tuple(closed),
    )
    return StackSeen(
        kubernetes=str(version),
        nodes=len(nodes),
        gpu_nodes=len(found.nodes),
        parts=tuple(part_seen(marks, found) for marks in PARTS),
        closed=found.closed,
    )


def has_gpus(node: Obj) -> bool:
    """Whether a node has GPUs, by what it offers, by its labels, or by our agent."""
    labels, notes = node["metadata"].get("labels") or {}, node["metadata"].get("annotations") or {}
    room = node.get("status", {}).get("capacity") or {}
    return (
        any(key.startswith("nvidia.com/") for key in room)
        or labels.get("nvidia.com/gpu.present") == "true"
        or any("10de" in key and key.endswith(".present") for key in labels)
        or names.GPUS in notes
    )


def part_seen(marks: Marks, found: Evidence) -> PartSeen:
    """Whether one part is there, from all that was found."""
    own = [workload for workload in found.workloads if _is_of(workload, marks)]
    showing = [node for node in found.nodes if marks.shows is not None and marks.shows(node)]
    said = [marks.version(node) for node in showing if marks.version is not None]
    versions = sorted({text for text in [*said, *(w.tag for w in own)] if text})
    on_nodes = len(showing) or min(sum(w.ready for w in own), len(found.nodes))
    is_there = bool(
        own
        or showing
        or marks.group in found.groups
        or marks.kind in found.kinds
        or marks.runtime in found.runtimes
        or marks.device_class in found.classes
    )
    return PartSeen(
        key=marks.key,
        is_there=is_there or (None if found.closed else False),
        versions=tuple(versions),
        nodes=on_nodes or None,
    )


def _is_of(workload: Workload, marks: Marks) -> bool:
    return (
        bool(marks.image and re.search(marks.image, workload.image))
        and bool(re.search(marks.container, workload.container))
        and not (marks.but_not and re.search(marks.but_not, workload.container))
    )


def _workloads(objects: Iterable[Obj]) -> Iterator[Workload]:
    for obj in objects:
        ready = int(obj.get("status", {}).get("numberReady") or 0)
        for container in obj["spec"]["template"]["spec"].get("containers") or []:
            image, tag = _split(container.get("image", ""))
            yield Workload(image, tag, container.get("name", ""), ready)


def _split(image: str) -> tuple[str, str]:
    """An image's path and tag: "registry:5000/a/b:v1@sha256:…" is a/b on its registry, and v1."""
    path = image.partition("@")[0]
    head, colon, tag = path.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (path, "")


def _groups(wire: Wire, closed: list[str]) -> frozenset[str]:
    """The API groups that the cluster serves, those of others' controllers among them."""
    try:
        answer = wire.ask(Request(method="GET", path="/apis"))
    except ApiError:
        closed.append("/apis")
        return frozenset()
    return frozenset(group["name"] for group in answer.get("groups") or [])


def _kinds(wire: Wire, version: str, closed: list[str]) -> frozenset[str]:
    """What is served of one version of an API group; the group may be there without it."""
    path = f"/apis/{version}"
    try:
        answer = wire.ask(Request(method="GET", path=path))
    except ApiError as error:
        if error.status != _NOT_FOUND:
            closed.append(path)
        return frozenset()
    return frozenset(f"{version}/{kind['name']}" for kind in answer.get("resources") or [])


def _list(wire: Wire, path: str, closed: list[str]) -> list[Obj]:
    """All of one kind; none where the cluster serves no such kind, or does not let us look.

    ApiError where it does not even know who we are.
    """
    try:
        return [obj for page in pages(wire, path) for obj in page.get("items") or []]
    except ApiError as error:
        if error.status == _UNAUTHORIZED:
            raise
        if error.status != _NOT_FOUND:
            closed.append(path)
        return []
