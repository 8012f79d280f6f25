"""Kubernetes objects to values: pure, and forgiving of what others leave out."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from topology.catalog.boards import MIG_PREFIX
from topology.catalog.gpus import find_model
from topology.catalog.mig import find_layout
from topology.kube import names, quantities
from topology.kube.hami import Registered, given_gpus, registered_gpus
from topology.kube.usage import use_of
from topology.kube.values import (
    ClockSeen,
    GpuSeen,
    GroupSeen,
    LayoutSeen,
    MemberSeen,
    NodeSeen,
    PodSeen,
    StraySeen,
)
from topology.kube.wire import Obj

_TOLERATED = frozenset({names.POOL, names.GPU})
_SAID_ELSEWHERE = names.NOT_READY | {names.CORDONED}
_POD_ENDED = {"Succeeded": "succeeded", "Failed": "failed"}
_MESSAGE_LENGTH = 300
_SHARING = {"time-slicing": "time_slicing", "mps": "mps"}
# What GPU feature discovery adds to a product: it is the same board, and the same flavor.
_ADDED = re.compile(r"(-SHARED|-MIG-.*)+$")
_DEVICE = re.compile(r"[0-9]{1,4}([@#][0-9]{1,4})?")
_FEWEST_REPLICAS, _MOST_REPLICAS = 2, 1_000


def version_of(obj: Obj) -> int:
    """The resourceVersion; 0 when there is none."""
    text = obj.get("metadata", {}).get("resourceVersion") or "0"
    return int(text) if text.isdecimal() else 0


def instant(text: str | None) -> datetime | None:
    """An RFC 3339 time stamp."""
    return datetime.fromisoformat(text) if text else None


def node_seen(obj: Obj, *, gone: bool = False) -> NodeSeen:
    labels = obj["metadata"].get("labels") or {}
    room = obj.get("status", {}).get("allocatable") or {}
    taints = obj.get("spec", {}).get("taints") or []
    gpus = gpus_of(obj)
    memory = labels.get(names.GPU_MEMORY, "")
    return NodeSeen(
        name=obj["metadata"]["name"],
        uid=obj["metadata"].get("uid", ""),
        version=version_of(obj),
        cpu_milli=quantities.milli(room.get("cpu", "0")),
        memory_mib=quantities.mebibytes(room.get("memory", "0")),
        gpu_count=_gpu_count(obj),
        is_cordoned=bool(obj.get("spec", {}).get("unschedulable")),
        is_ready=_is_ready(obj),
        gpu_product=_product(labels) or (gpus[0].model if gpus else ""),
        gpu_memory_mib=int(memory) if memory.isdecimal() else _memory_of(gpus),
        rack=_first(labels, names.RACK),
        fabric=_first(labels, names.FABRIC),
        nvlink_domain=_first(labels, names.NVLINK_DOMAIN),
        gpus=gpus,
        survey=survey_seen(obj),
        layout=layout_seen(obj),
        back_ends=back_ends_of(obj),
        taints=tuple(_taint(t) for t in taints if t["key"] not in _TOLERATED | _SAID_ELSEWHERE),
        gone=gone,
    )


def survey_seen(node: Obj) -> dict[str, Any]:
    """What our agent on the node says besides its GPUs; nothing of what is torn."""
    labels, notes = node["metadata"].get("labels") or {}, node["metadata"].get("annotations") or {}
    read = {"links": _note(notes, names.LINKS), "driver": _note(notes, names.DRIVER)}
    said = {key: value for key, value in read.items() if value}
    direct = labels.get(names.GPUDIRECT)
    return {**said, "gpudirect": direct} if direct else said


def _note(notes: dict[str, str], name: str) -> dict[str, Any]:
    try:
        said = json.loads(notes.get(name) or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def gpus_of(node: Obj) -> tuple[GpuSeen, ...]:
    """The devices that the node's annotation lists, by index.

    A node without the annotation is taken to have as many as its capacity, all alike and joined,
    under names of our own.
    """
    labels = node["metadata"].get("labels") or {}
    sharing, by_amounts = _sharing(labels), registered_gpus(node)
    text = (node["metadata"].get("annotations") or {}).get(names.GPUS)
    if text:
        found = (_gpu(gpu, sharing) for gpu in json.loads(text))
        in_order = tuple(sorted(found, key=lambda gpu: gpu.index))
        return _as_registered(in_order, by_amounts) if by_amounts else in_order
    if by_amounts:
        return tuple(map(_gpu_by_amounts, by_amounts))
    status = node.get("status", {})
    room = status.get("capacity") or status.get("allocatable") or {}
    offered = (names.GPU, names.GPU_SHARED)
    count = max(quantities.whole(room.get(name, "0")) for name in offered)
    if _has_slices_for_gpus(labels):
        count = 0  # how many boards they are of, nobody says
    return tuple(
        GpuSeen(index=n, uuid=f"unknown-{n}", model=_model(labels), **sharing)
        for n in range(count // sharing.get("replicas", 1))
    )


def _as_registered(gpus: tuple[GpuSeen, ...], by: tuple[Registered, ...]) -> tuple[GpuSeen, ...]:
    """GPUs as HAMi hands them out. One that it does not, or cut into slices, nobody gives us."""
    of = {own.uuid: own for own in by if own.healthy and own.by_amounts}

    def seen(gpu: GpuSeen) -> GpuSeen:
        own = of.get(gpu.uuid)
        if own is None:
            return replace(gpu, healthy=False)
        # It may lend out more memory than there is; a plan goes by what there is.
        memory = min(gpu.memory_mib or own.memory_mib, own.memory_mib)
        return replace(gpu, mode="hami", replicas=1, slices=(), memory_mib=memory)

    return tuple(map(seen, gpus))


def _gpu_by_amounts(own: Registered) -> GpuSeen:
    return GpuSeen(
        index=own.index,
        uuid=own.uuid,
        model=own.model,
        memory_mib=own.memory_mib or None,
        numa=own.numa,
        healthy=own.healthy and own.by_amounts,
        mode="hami",
    )


def _gpu_count(node: Obj) -> int:
    """GPUs of a node, however many there are said to be of each."""
    labels = node["metadata"].get("labels") or {}
    room = node.get("status", {}).get("allocatable") or {}
    by_amounts = registered_gpus(node)
    if by_amounts:
        return len(by_amounts) if quantities.whole(room.get(names.GPU, "0")) else 0
    return _whole_gpus(room, labels)


def back_ends_of(node: Obj) -> tuple[str, ...]:
    """Who hands out a node's GPUs, where that is not the device plugin alone.

    The device plugin shows itself by names that others do not use, or by one GPU for each board
    where HAMi would offer as many as members may share it.
    """
    meta, room = node["metadata"], node.get("status", {}).get("allocatable") or {}
    notes, by_amounts = meta.get("annotations") or {}, registered_gpus(node)
    is_volcano = bool(notes.get(names.VOLCANO_REGISTER)) or any(
        name.startswith(names.VOLCANO_PREFIX) and quantities.whole(amount)
        for name, amount in room.items()
    )
    if not by_amounts and not is_volcano:
        return ()
    slices = any(n.startswith(MIG_PREFIX) and quantities.whole(c) for n, c in room.items())
    shares = quantities.whole(room.get(names.GPU_SHARED, "0")) > 0
    whole = quantities.whole(room.get(names.GPU, "0"))
    is_counted_once = whole == len(by_amounts) != sum(own.count for own in by_amounts)
    has_plugin = slices or shares or bool(_sharing(meta.get("labels") or {}))
    has_plugin |= is_counted_once if by_amounts else whole > 0
    seen = {"device_plugin": has_plugin, "hami": bool(by_amounts), "volcano_vgpu": is_volcano}
    return tuple(name for name, is_there in seen.items() if is_there)


def _whole_gpus(room: Obj, labels: dict[str, str]) -> int:
    """GPUs behind a count of `nvidia.com/gpu`: shares are none, nor are slices called so."""
    if _has_slices_for_gpus(labels):
        return 0
    count = quantities.whole(room.get(names.GPU, "0"))
    replicas: int = _sharing(labels).get("replicas", 1)
    return count // replicas


def _has_slices_for_gpus(labels: dict[str, str]) -> bool:
    """Whether what is called a GPU is a MIG instance: the strategy `single`."""
    return "-MIG-" in labels.get(names.GPU_PRODUCT, "")


def layout_seen(node: Obj) -> LayoutSeen:
    """What a node's labels and its room say of how its GPUs are cut up and shared."""
    labels = node["metadata"].get("labels") or {}
    room = node.get("status", {}).get("allocatable") or {}
    counts = {n: quantities.whole(c) for n, c in room.items() if n.startswith(names.VENDOR)}
    sharing = _sharing(labels)
    return LayoutSeen(
        offers={name: count for name, count in sorted(counts.items()) if count},
        mig_config=labels.get(names.MIG_CONFIG, ""),
        mig_state=labels.get(names.MIG_STATE, ""),
        plugin_config=labels.get(names.PLUGIN_CONFIG, ""),
        strategy=labels.get(names.MIG_STRATEGY, "none"),
        sharing=sharing.get("mode", ""),
        replicas=sharing.get("replicas", 1),
        paused=tuple(sorted(key for key, value in labels.items() if value == names.PAUSED)),
    )


def pod_seen(pod: Obj) -> PodSeen | None:
    """A pod that holds GPUs or parts of them; None for any other, and for one that has ended."""
    containers = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]
    limits = [(own.get("resources") or {}).get("limits") or {} for own in containers]
    if not any(name.startswith(names.VENDOR) for own in limits for name in own):
        return None
    if pod.get("status", {}).get("phase") in _POD_ENDED:
        return None
    meta = pod["metadata"]
    owners = [own for own in meta.get("ownerReferences") or [] if own.get("controller")]
    return PodSeen(
        namespace=meta["namespace"],
        name=meta["name"],
        owner=f"{owners[0]['kind']} {owners[0]['name']}" if owners else "",
        job=(meta.get("labels") or {}).get(names.JOB, ""),
        stopping=bool(meta.get("deletionTimestamp")),
    )


def member_seen(obj: Obj, *, gone: bool = False) -> MemberSeen | None:
    """A pod of ours; None for any other.

    One that had ended keeps how it ended when it goes: its phase is "gone" only if it had not.
    One that was told to end has no exit code of its own, unless it had finished all the same.
    """
    meta, status = obj["metadata"], obj.get("status", {})
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    rank, attempt = notes.get(names.RANK, ""), notes.get(names.ATTEMPT, "")
    if names.JOB not in labels or not rank.isdecimal() or not attempt.isdecimal():
        return None
    gates = [gate["name"] for gate in obj["spec"].get("schedulingGates") or []]
    main = _main_container(status)
    ended = (main.get("state") or {}).get("terminated") or {}
    running = (main.get("state") or {}).get("running") or {}
    return MemberSeen(
        namespace=meta.get("namespace", ""),
        job=labels[names.JOB],
        group=labels.get(names.GROUP, ""),
        attempt=int(attempt),
        rank=int(rank),
        pod_name=meta["name"],
        pod_uid=meta["uid"],
        version=version_of(obj),
        phase=_phase(obj, gates, gone=gone),
        node=obj["spec"].get("nodeName") or "",
        bound_at=instant(_condition(status, "PodScheduled", "True").get("lastTransitionTime")),
        started_at=instant(ended.get("startedAt") or running.get("startedAt")),
        ended_at=instant(ended.get("finishedAt")),
        checkpoint_at=_checkpoint(notes, ended),
        exit_code=None if _was_ended(obj, ended) else ended.get("exitCode"),
        message=_message(status, main)[:_MESSAGE_LENGTH],
        stopping=bool(meta.get("deletionTimestamp")),
        stop_by=instant(meta.get("deletionTimestamp")),
        foreign_gates=tuple(gate for gate in gates if gate != names.GATE),
        devices=_devices(notes.get(names.DEVICES_GIVEN, "")),
        part_of=given_gpus(obj),
        by_hand=not any(_is_job(owner) for owner in meta.get("ownerReferences") or []),
        use=use_of(obj, gone=gone),
    )


def _devices(said: str) -> tuple[str, ...]:
    """Those of a comma separated list; none of a text that is no such list."""
    devices = tuple(part.strip() for part in said.split(",")) if said else ()
    return devices if all(_DEVICE.fullmatch(device) for device in devices) else ()


def labelled_seen(obj: Obj, *, gone: bool = False) -> MemberSeen | StraySeen:
    """A pod that bears our label: one of ours, or a stray."""
    return member_seen(obj, gone=gone) or StraySeen(
        node=obj["spec"].get("nodeName") or "",
        uid=obj["metadata"]["uid"],
        version=version_of(obj),
        use=use_of(obj, gone=gone),
    )


def _is_job(owner: Obj) -> bool:
    return owner.get("kind") == "Job" and bool(owner.get("controller"))


def group_seen(obj: Obj, *, gone: bool = False) -> GroupSeen | None:
    """A Job of ours; None for any other."""
    meta, status = obj["metadata"], obj.get("status", {})
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    attempt = notes.get(names.ATTEMPT, "")
    if names.JOB not in labels or names.GROUP not in labels or not attempt.isdecimal():
        return None
    failed = _condition(status, "Failed", "True")
    complete = _condition(status, "Complete", "True")
    return GroupSeen(
        namespace=meta.get("namespace", ""),
        job=labels[names.JOB],
        group=labels[names.GROUP],
        attempt=int(attempt),
        version=version_of(obj),
        members=int(obj["spec"].get("completions") or 0),
        outcome="failed" if failed else "complete" if complete else "",
        reason=(failed or complete).get("reason", ""),
        is_suspended=bool(obj["spec"].get("suspend")),
        gone=gone,
    )


def clock_seen(answer: Obj, *, wall: datetime) -> ClockSeen:
    """What a simulated cluster says of its clock; {} of a cluster that keeps the wall's."""
    if not answer:
        return ClockSeen(at=None, wall=wall)
    speed = 0.0 if answer.get("frozen") else float(answer["speed"])
    return ClockSeen(at=instant(answer["now"]), wall=wall, speed=speed)


def _phase(pod: Obj, gates: list[str], *, gone: bool) -> str:
    said = pod.get("status", {}).get("phase", "Pending")
    if said in _POD_ENDED:
        return _POD_ENDED[said]
    if gone:
        return "gone"
    if names.GATE in gates:
        return "gated"
    if not pod["spec"].get("nodeName"):
        return "binding"
    return "bound" if said == "Pending" else "running"


def _checkpoint(notes: dict[str, str], ended: Obj) -> datetime | None:
    """The last complete checkpoint: of the annotation, or of a line of the termination message.

    Programs write these; what is no instant with its zone is as good as nothing.
    """
    last_words = [line.partition("=") for line in (ended.get("message") or "").splitlines()]
    said = [value for key, _, value in last_words if key.strip() == names.CHECKPOINT_AT]
    instants = [_programs_instant(text) for text in (notes.get(names.CHECKPOINT_AT), *said)]
    return max((at for at in instants if at is not None), default=None)


def _programs_instant(text: str | None) -> datetime | None:
    try:
        at = instant(text.strip() if text else None)
    except ValueError:
        return None
    return at if at is not None and at.tzinfo is not None else None


def _was_ended(pod: Obj, ended: Obj) -> bool:
    """Whether the container failed because its pod was deleted or evicted, not by itself."""
    if not ended.get("exitCode"):
        return False
    if _condition(pod["status"], names.DISRUPTED, "True"):
        return True
    meta = pod["metadata"]
    deadline, finished = instant(meta.get("deletionTimestamp")), instant(ended.get("finishedAt"))
    grace = timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
    return deadline is not None and finished is not None and deadline - grace <= finished


def _message(status: Obj, main: Obj) -> str:
    """The most telling thing that the pod says about itself; empty when all is well."""
    state = main.get("state") or {}
    ended, waiting = state.get("terminated") or {}, state.get("waiting") or {}
    unplaced = _condition(status, "PodScheduled", "False")
    if status.get("reason") or status.get("message"):
        return _sentence(status)
    if ended and ended.get("exitCode") != 0:
        return _sentence({**ended, "message": _without_checkpoint(ended.get("message") or "")})
    if waiting.get("message"):
        return _sentence(waiting)
    return "" if unplaced.get("reason") == "SchedulingGated" else _sentence(unplaced)


def _without_checkpoint(message: str) -> str:
    lines = message.splitlines()
    return "\n".join(line for line in lines if not line.startswith(names.CHECKPOINT_AT))


def _sentence(said: Obj) -> str:
    return ": ".join(part for part in (said.get("reason"), said.get("message")) if part)


def _main_container(status: Obj) -> Obj:
    statuses: list[Obj] = status.get("containerStatuses") or []
    named = [own for own in statuses if own.get("name") == names.MAIN]
    return (named or statuses or [{}])[0]


def _condition(status: Obj, kind: str, value: str) -> Obj:
    """The condition of that type and value; {} when there is none."""
    for condition in status.get("conditions") or []:
        if condition.get("type") == kind and condition.get("status") == value:
            return dict(condition)
    return {}


def _is_ready(node: Obj) -> bool:
    """What its Ready condition says; before there is one, whether a taint says otherwise."""
    for condition in node.get("status", {}).get("conditions") or []:
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    taints = node.get("spec", {}).get("taints") or []
    return names.NOT_READY.isdisjoint(taint["key"] for taint in taints)


def _taint(taint: Obj) -> dict[str, str]:
    return {"key": taint["key"], "value": taint.get("value") or "", "effect": taint["effect"]}


def _product(labels: dict[str, str]) -> str:
    """The model as its label has it, without what is added for GPUs that are cut or shared."""
    return _ADDED.sub("", labels.get(names.GPU_PRODUCT, ""))


def _model(labels: dict[str, str]) -> str:
    """The model, or where nobody tells it (as on a Jetson without our agent) what is known."""
    arch = labels.get(names.ARCH, "")
    return _product(labels) or labels.get(names.BOARD) or f"NVIDIA-GPU-{arch}".rstrip("-")


def _sharing(labels: dict[str, str]) -> dict[str, Any]:
    """Mode and replicas of a node's GPUs, as GPU feature discovery labels it; {} if not shared."""
    mode = _SHARING.get(labels.get(names.GPU_SHARING, ""))
    replicas = labels.get(names.GPU_REPLICAS, "")
    if mode is None or not replicas.isdecimal() or int(replicas) < _FEWEST_REPLICAS:
        return {}
    return {"mode": mode, "replicas": min(int(replicas), _MOST_REPLICAS)}


def _slices(said: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    """(profile, start) of a board's MIG instances.

    Where the driver does not tell where they start, they stand as on a board cut from empty.
    """
    told = [text.partition("@") for text in said.get("slices") or ()]
    if all(start.isdecimal() for _, _, start in told):
        return tuple(sorted((profile, int(start)) for profile, _, start in told))
    wanted = [profile for profile, _, _ in told]
    model = find_model(str(said.get("model", "")))
    layout = find_layout(model, wanted) if model else None
    if layout is None:
        return tuple((profile, at) for at, profile in enumerate(wanted))
    return tuple(sorted((own.profile, own.start) for own in layout))


def _gpu(said: dict[str, Any], sharing: dict[str, Any]) -> GpuSeen:
    memory, is_cut = said.get("memory_mib"), bool(said.get("mig"))
    return GpuSeen(
        index=int(said["index"]),
        uuid=str(said["uuid"]),
        model=str(said.get("model", "")),
        memory_mib=None if memory is None else int(memory),
        island=int(said.get("island", 0)),
        numa=int(said.get("numa", -1)),
        healthy=bool(said.get("healthy", True)),
        slices=_slices(said) if is_cut else (),
        **({"mode": "mig"} if is_cut else sharing),
    )


def _memory_of(gpus: tuple[GpuSeen, ...]) -> int | None:
    return gpus[0].memory_mib if gpus else None


def _first(labels: dict[str, str], keys: Iterable[str]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")
