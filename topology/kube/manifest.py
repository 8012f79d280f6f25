"""What we write into a cluster: the Job of a member group, and the patches of the gate protocol."""

from datetime import UTC, datetime
from typing import Any

from topology.catalog.boards import mig_resource
from topology.catalog.sharing import SharingMode
from topology.kube import names, podgroups, rendezvous
from topology.kube.values import GangSpec, MemberRelease
from topology.kube.wire import Obj
from topology.layouts.devices import ContainerRequest, DeviceWish, request_of

DEFAULT_IMAGE = "busybox"
# The cluster ends a gang so long after its walltime, should nobody have done so by then. It counts
# from before its pods are bound and their images fetched, until it is told the end to the second.
WALLTIME_NET_SECONDS = 3600
KEPT_SECONDS = 3 * 86_400  # of an ended gang with its logs; then the cluster removes it

_GPU_TOLERATION = {"key": names.GPU, "operator": "Exists"}
_POOL_TOLERATION = {"key": names.POOL, "operator": "Exists"}
# A member that its node refused, or that we took back, is no failure of the job.
_FAILURE_POLICY = {
    "rules": [
        {
            "action": "Ignore",
            "onPodConditions": [{"type": names.PLACEMENT_FAILED, "status": "True"}],
        }
    ]
}


def labels_of(spec: GangSpec) -> dict[str, str]:
    return {**spec.labels, names.JOB: spec.job, names.GROUP: spec.group}


def notes_of(spec: GangSpec) -> dict[str, str]:
    part = dict(_part(spec).annotations) if spec.back_end else {}
    saved = {names.SAVED_SECONDS: str(spec.saved_seconds)} if spec.saved_seconds else {}
    return {**spec.annotations, **part, **saved, names.ATTEMPT: str(spec.attempt)}


def _pod_labels(spec: GangSpec) -> dict[str, str]:
    """HAMi takes every pod that asks for a GPU for its own, unless the pod says that it is not."""
    is_its_own = spec.back_end == SharingMode.HAMI or not spec.devices_per_member
    return labels_of(spec) if is_its_own else {**labels_of(spec), names.HAMI_WEBHOOK: "ignore"}


def gang_job(spec: GangSpec) -> Obj:
    """An Indexed Job whose pods will wait at our gate.

    It is suspended until all that its members need to find each other is there.
    """
    template = {"labels": _pod_labels(spec), "annotations": notes_of(spec)}
    # Of the Job, since that of a pod may never be raised.
    deadline = {} if spec.walltime_seconds is None else _deadline(spec.walltime_seconds)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": spec.key.name,
            "namespace": spec.namespace,
            "labels": labels_of(spec),
            "annotations": {names.ATTEMPT: str(spec.attempt)},
        },
        "spec": {
            "suspend": spec.is_opened_later,
            "completionMode": "Indexed",
            "completions": spec.members,
            "parallelism": spec.members,
            "backoffLimit": 0,
            **deadline,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "podFailurePolicy": _FAILURE_POLICY,
            "template": {"metadata": template, "spec": _pod_spec(spec)},
        },
    }


def _deadline(walltime_seconds: int) -> Obj:
    return {"activeDeadlineSeconds": walltime_seconds + WALLTIME_NET_SECONDS}


def _pod_spec(spec: GangSpec) -> Obj:
    pod: Obj = {
        "restartPolicy": "Never",
        "schedulingGates": [{"name": names.GATE}],
        # Never an empty list, so that the patch that opens the gate can append to it.
        "tolerations": [_GPU_TOLERATION],
        "terminationGracePeriodSeconds": spec.grace_seconds,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [_container(spec)],
    }
    if spec.has_peers:
        pod["subdomain"] = spec.job  # of the Service that `rendezvous` makes
    if spec.priority_class:
        pod["priorityClassName"] = spec.priority_class
    if spec.back_end == SharingMode.HAMI:
        pod["schedulerName"] = names.HAMI_SCHEDULER
    if spec.by_claim:
        claim = {"name": names.CLAIM, "resourceClaimTemplateName": spec.key.name}
        pod["resourceClaims"] = [claim]
    if spec.in_pod_group:
        pod["schedulingGroup"] = {"podGroupName": podgroups.name_of(spec.job)}
    return pod


def _container(spec: GangSpec) -> Obj:
    container: Obj = {"name": names.MAIN, "image": spec.image or DEFAULT_IMAGE}
    if spec.command:
        container["command"] = list(spec.command)
    container["env"] = rendezvous.environment(spec)
    # What is not asked for is asked for as nothing, or a LimitRange puts in what no plan knows of.
    nothing = {"cpu": "0", "memory": "0"}
    asked = {
        **_devices(spec),
        "cpu": f"{spec.cpu_milli}m" if spec.cpu_milli else "",
        "memory": f"{spec.memory_mib}Mi" if spec.memory_mib else "",
    }
    amounts = {resource: amount for resource, amount in asked.items() if amount}
    container["resources"] = {"requests": {**nothing, **amounts}, "limits": amounts}
    if spec.by_claim:
        container["resources"]["claims"] = [{"name": names.CLAIM}]
    return container


def _devices(spec: GangSpec) -> dict[str, str]:
    """What a member asks for of device plugins, by their names for it.

    MIG instances have names of their own where the strategy is mixed, and shares where the plugin
    renames them: so nobody who asks for a GPU is given a part of one.
    """
    if spec.back_end:
        return dict(_part(spec).limits)
    counts = {
        names.GPU: 0 if spec.by_claim else spec.gpus_per_member,
        mig_resource(spec.slice_profile): spec.slices_per_member,
        names.GPU_SHARED: spec.shares_per_member,
    }
    return {resource: str(count) for resource, count in counts.items() if count}


def _part(spec: GangSpec) -> ContainerRequest:
    wish = DeviceWish(count=1, gpu_milli=spec.gpu_milli, memory_mib=spec.gpu_mib)
    return request_of(SharingMode(spec.back_end), wish)


def next_attempt(spec: GangSpec, *, before: str) -> list[Obj]:
    """JSON patch that leads a suspended Job on from attempt `before` to the spec's."""
    metadata = "/spec/template/metadata"
    return [
        _test(_note("/metadata"), before),
        _add(_note("/metadata"), str(spec.attempt)),
        _add(f"{metadata}/annotations", notes_of(spec)),
        _add("/spec/parallelism", spec.members),
        _add("/spec/completions", spec.members),
    ]


def suspension(attempt: int, *, suspend: bool) -> list[Obj]:
    """JSON patch that opens or suspends the Job, provided that it is of that attempt."""
    return [_test(_note("/metadata"), str(attempt)), _add("/spec/suspend", suspend)]


def resized(attempt: int, members: int) -> list[Obj]:
    """JSON patch that gives the Job so many pods, provided that it is of that attempt."""
    return [
        _test(_note("/metadata"), str(attempt)),
        _add("/spec/parallelism", members),
        _add("/spec/completions", members),
    ]


def limited(attempt: int, seconds: int) -> list[Obj]:
    """JSON patch that ends the Job so long after it was opened, if it is of `attempt`."""
    return [
        _test(_note("/metadata"), str(attempt)),
        _add("/spec/activeDeadlineSeconds", seconds),
    ]


def told_end(pod_uid: str, ends_at: datetime) -> list[Obj]:
    """JSON patch that tells a pod when its job is stopped."""
    return [
        _test("/metadata/uid", pod_uid),
        _add(f"/metadata/annotations/{_escaped(names.ENDS_AT)}", stamp(ends_at)),
    ]


def stamp(at: datetime) -> str:
    """An instant as Kubernetes writes it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_made(release: MemberRelease) -> list[Obj]:
    """JSON patch that opens the gate of a pod which is just as our own template made it."""
    pod = {"spec": {"schedulingGates": [{"name": names.GATE}], "tolerations": [_GPU_TOLERATION]}}
    return as_found(release, pod)


def as_found(release: MemberRelease, pod: Obj) -> list[Obj]:
    """JSON patch that opens the gate of `pod`, which has one, whatever else stands on it.

    One patch: the pod must not be seen without a gate before it has its node.
    """
    spec = pod["spec"]
    gate = f"/spec/schedulingGates/{gates_of(pod).index(names.GATE)}"
    selector = {**(spec.get("nodeSelector") or {}), names.HOSTNAME: release.node}
    pool: Obj = (
        _add("/spec/tolerations/-", _POOL_TOLERATION)
        if spec.get("tolerations")
        else _add("/spec/tolerations", [_POOL_TOLERATION])
    )
    told = {
        names.DEVICES: devices_of(release),
        names.GANG_RANK: str(release.rank),
        names.WORLD_SIZE: str(release.world_size),
        **_told_back_end(release),
    }
    return [
        _test("/metadata/uid", release.pod_uid),
        _test(_note("/metadata"), str(release.attempt)),
        _test(f"{gate}/name", names.GATE),
        _add("/spec/nodeSelector", selector),
        pool,
        *(_add(f"/metadata/annotations/{_escaped(name)}", text) for name, text in told.items()),
        {"op": "remove", "path": gate},
    ]


def _told_back_end(release: MemberRelease) -> dict[str, str]:
    """Which GPU the member's part is to be of, in the words of who gives it."""
    if not release.part_of:
        return {}
    wish = DeviceWish(count=len(release.part_of), uuids=release.part_of)
    return dict(request_of(SharingMode(release.back_end), wish).annotations)


def gates_of(pod: Obj) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]


def devices_of(release: MemberRelease) -> str:
    return ",".join(release.devices)


def _note(metadata: str) -> str:
    return f"{metadata}/annotations/{_escaped(names.ATTEMPT)}"


def _escaped(name: str) -> str:
    """A name as one step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _test(path: str, value: Any) -> Obj:
    return {"op": "test", "path": path, "value": value}


def _add(path: str, value: Any) -> Obj:
    """`add` replaces what is there, and does not mind if nothing is."""
    return {"op": "add", "path": path, "value": value}
