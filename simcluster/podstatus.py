"""What a kubelet writes into a pod's status: waiting, running, ended, refused."""

from simcluster.objects import Obj, clone, phase_of, set_condition


def waiting_status(pod: Obj, *, at: str, host: str) -> Obj:
    """Accepted by its node, images still being fetched."""
    status = _base(pod)
    status.update(phase="Pending", hostIP=host, hostIPs=[{"ip": host}], startTime=at)
    _conditions(status, {"PodReadyToStartContainers": "False", "Initialized": "True"}, at=at)
    why = "ContainersNotReady"
    _conditions(status, {"Ready": "False", "ContainersReady": "False"}, at=at, reason=why)
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    status["containerStatuses"] = [
        _container(c, state=waiting, ready=False) for c in pod["spec"]["containers"]
    ]
    return status


def running_status(pod: Obj, *, at: str, ip: str) -> Obj:
    """All containers started at `at`."""
    status = _base(pod)
    status.update(phase="Running", podIP=ip, podIPs=[{"ip": ip}])
    ready = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    _conditions(status, dict.fromkeys(ready, "True"), at=at)
    status["containerStatuses"] = [
        _container(c, state={"running": {"startedAt": at}}, ready=True)
        for c in pod["spec"]["containers"]
    ]
    if inits := pod["spec"].get("initContainers"):
        done = {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}
        status["initContainerStatuses"] = [
            _container(c, state={"terminated": done}, ready=True) for c in inits
        ]
    return status


def ending(pod: Obj, exit_codes: dict[str, int], *, at: str, words: str = "") -> Obj:
    """Containers named in `exit_codes` have ended at `at`; the pod has when all of them have.

    words: the termination message of each, if any.
    """
    status = _base(pod)
    statuses = status.get("containerStatuses") or [
        _container(c, state={"waiting": {}}, ready=False) for c in pod["spec"]["containers"]
    ]
    for own in statuses:
        if own["name"] in exit_codes and "terminated" not in own["state"]:
            said = {"message": words} if words else {}
            own["state"] = {"terminated": {**_terminated(own, exit_codes[own["name"]], at), **said}}
            own.update(ready=False, started=False)
    status["containerStatuses"] = statuses
    ended = [own["state"].get("terminated") for own in statuses]
    if all(ended):
        failed = any(end["exitCode"] != 0 for end in ended if end)
        status["phase"] = "Failed" if failed else "Succeeded"
    reason = "PodFailed" if status["phase"] == "Failed" else "PodCompleted"
    not_ready = {"Ready": "False", "ContainersReady": "False"}
    _conditions(status, not_ready, at=at, reason=reason if all(ended) else "ContainersNotReady")
    if all(ended):
        _conditions(status, {"PodReadyToStartContainers": "False"}, at=at)
    return status


def restarted(pod: Obj, name: str, *, exit_code: int, at: str) -> Obj:
    """One container has ended and runs again since `at`."""
    status = _base(pod)
    for own in status["containerStatuses"]:
        if own["name"] == name:
            own["lastState"] = {"terminated": _terminated(own, exit_code, at)}
            own["state"] = {"running": {"startedAt": at}}
            own["restartCount"] += 1
    return status


def rejected_status(pod: Obj, *, reason: str, message: str) -> Obj:
    """Refused by its kubelet: failed before any container was made."""
    return {**_base(pod), "phase": "Failed", "reason": reason, "message": message}


def _base(pod: Obj) -> Obj:
    status: Obj = clone(pod.get("status") or {})
    status.setdefault("phase", phase_of(pod))
    return status


def _conditions(status: Obj, wanted: dict[str, str], *, at: str, reason: str = "") -> None:
    for kind, value in wanted.items():
        condition = {"lastProbeTime": None, "type": kind, "status": value}
        set_condition(status, {**condition, "reason": reason} if reason else condition, at=at)


def _container(container: Obj, *, state: Obj, ready: bool) -> Obj:
    image = container.get("image", "")
    own = {"name": container["name"], "image": image, "imageID": "", "restartCount": 0}
    return {**own, "state": state, "lastState": {}, "ready": ready, "started": ready}


def _terminated(own: Obj, exit_code: int, at: str) -> Obj:
    started = own["state"].get("running", {}).get("startedAt", at)
    reason = "Completed" if exit_code == 0 else "Error"
    return {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": at}
