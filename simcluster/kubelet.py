"""The kubelets of all nodes: they start pods, let them run their time, end them, and stop them."""

import random
from functools import partial

from simcluster import checkpoints, hami, removal, runs
from simcluster.clock import rfc3339, seconds_of
from simcluster.devices import GIVEN, TOLD, DevicePlugin, devices_wanted, is_device
from simcluster.objects import (
    Obj,
    Stored,
    annotations_of,
    is_deleting,
    is_finished,
    node_of,
    phase_of,
    uid_of,
)
from simcluster.podstatus import (
    ending,
    rejected_status,
    restarted,
    running_status,
    waiting_status,
)
from simcluster.removal import Removal
from simcluster.resources import NODES, PODS
from simcluster.runs import Run
from simcluster.scheduler import Scheduler
from simcluster.store import Event
from simcluster.world import World

RANK_FINISH, RANK_START, RANK_STOP = 0, 1, 2
_AT_ONCE = Removal(grace_seconds=0)
_RESTART_SECONDS = 10.0


class Kubelets:
    """One object for all nodes; `down` names those that are out of reach."""

    def __init__(self, world: World, scheduler: Scheduler) -> None:
        self._world = world
        self._scheduler = scheduler
        options = world.options
        # Names and uids are drawn elsewhere, lest they change with who chooses.
        chance = random.Random(options.seed or None) if options.chooses else None  # noqa: S311 - no secret
        self._plugin = DevicePlugin(chance)
        self._look: dict[str, None] = {}
        self._known: set[str] = set()  # pods that have been admitted, or taken over at a restart
        self._stopping: dict[str, float] = {}
        self._next_ip = 0
        self.down: set[str] = set()
        self.reject_next: list[str] = []

    def seen(self, event: Event) -> None:
        if event.resource is not PODS:
            return
        uid = uid_of(event.obj)
        if event.kind == "DELETED" or is_finished(event.obj):
            self._plugin.release(node_of(event.obj), uid)
        if event.kind == "DELETED":
            self._known.discard(uid)
            self._stopping.pop(uid, None)
        else:
            self._look[uid] = None

    def act(self) -> bool:
        look, self._look = self._look, {}
        for uid in look:
            pod = self._pod(uid)
            if pod is not None:
                self._look_at(uid, pod)
        return bool(look)

    def resume(self, node: str) -> None:
        """A node is back: its kubelet reports what has happened meanwhile."""
        self.down.discard(node)
        for pod in self._world.store.pods_on(node):
            self._known.discard(uid_of(pod))
            self._stopping.pop(uid_of(pod), None)
            self._look[uid_of(pod)] = None
            if is_deleting(pod) and phase_of(pod) == "Running":
                self._plan_end(uid_of(pod), pod)  # it may have ended before it was told to stop

    def _pod(self, uid: str) -> Stored | None:
        found = self._world.store.by_uid(uid)
        return found[1] if found and found[0] is PODS else None

    def _look_at(self, uid: str, pod: Stored) -> None:
        node = node_of(pod)
        if node in self.down or (node and not self._world.store.get(NODES, "", node)):
            return
        if is_deleting(pod):
            self._look_at_leaving(uid, pod)
        elif node and uid not in self._known and not is_finished(pod):
            self._known.add(uid)
            self._take_over(uid, pod)

    def _take_over(self, uid: str, pod: Stored) -> None:
        """Admit a new pod; go on with one that an earlier run of the program had started."""
        if phase_of(pod) == "Running":
            self._plugin.adopt(pod)
            self._plan_end(uid, pod)
            return
        if annotations_of(pod).get(GIVEN):
            self._plugin.adopt(pod)
        elif not self._admit(pod):
            return
        delay = runs.number(annotations_of(pod), runs.START_SECONDS, default=None)
        delay = self._world.options.start_seconds if delay is None else delay
        due = self._world.clock.now() + delay
        self._world.timers.add(due, RANK_START, action=lambda: self._start(uid))

    def _admit(self, pod: Stored) -> bool:
        """Give a pod its devices and accept it, or fail it as a kubelet does."""
        node = self._world.store.get(NODES, "", node_of(pod))
        by_claim = bool(pod["spec"].get("resourceClaims"))
        by_hami = hami.is_for_hami(pod)
        devices = self._devices(pod, node) if node else []
        if rejection := self._rejection(pod, devices):
            reason, message = rejection
            status = rejected_status(pod, reason=reason, message=message)
            self._write_status(pod, {**status, "startTime": self._world.clock.stamp()})
            self._world.tell((PODS, pod), reason, message=message, source="kubelet", warn=True)
            return False
        if not by_hami:  # which knows itself what it has given
            self._plugin.hold(pod, devices or [])
        at, host = self._world.clock.stamp(), _address(node)

        def accept(new: Obj) -> None:
            if devices:
                notes = new["metadata"].setdefault("annotations", {})
                notes[GIVEN] = ",".join(devices)
                if by_hami:
                    hami.note_given(notes)
                elif not by_claim:
                    notes[TOLD] = notes[GIVEN]
            new["status"] = waiting_status(new, at=at, host=host)

        self._world.store.change(PODS, pod, accept)
        return True

    def _devices(self, pod: Stored, node: Obj) -> list[str] | None:
        """What a pod is given of its node's devices; None if that is too little.

        Under HAMi a pod that its scheduler has not placed is given none.
        """
        if pod["spec"].get("resourceClaims"):
            return self._scheduler.claims.given(pod)
        if hami.is_for_hami(pod):
            return self._scheduler.hami.given(pod, node)
        if hami.is_by_hami(node) and devices_wanted(pod):
            return None
        return self._plugin.choose(pod, node)

    def _rejection(self, pod: Stored, devices: list[str] | None) -> tuple[str, str] | None:
        forced = annotations_of(pod).get(runs.REJECT)
        if forced is None and self.reject_next:
            forced = self.reject_next.pop(0)
        lacking = self._scheduler.lacking(pod, node_of(pod))
        if forced or (lacking and not is_device(lacking)):
            reason = forced or f"OutOf{lacking}"
            return reason, f"Pod was rejected: {reason}: the node refused the pod"
        if devices is None or lacking:
            wanted = devices_wanted(pod)
            resource = lacking or next(iter(wanted))
            message = (
                "Pod was rejected: Allocate failed due to requested number of devices unavailable "
                f"for {resource}. Requested: {wanted[resource]}, which is unexpected"
            )
            return "UnexpectedAdmissionError", message
        return None

    def _start(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod is None or is_deleting(pod) or phase_of(pod) != "Pending":
            return
        if node_of(pod) in self.down:
            return
        self._next_ip += 1
        address = f"10.{64 + self._next_ip // 65536 % 64}.{self._next_ip // 256 % 256}"
        status = running_status(
            pod, at=self._world.clock.stamp(), ip=f"{address}.{self._next_ip % 256}"
        )
        started = self._write_status(pod, status)
        self._world.tell(
            (PODS, pod),
            "Started",
            message=f"Started container {pod['spec']['containers'][0]['name']}",
            source="kubelet",
            warn=False,
        )
        self._plan_end(uid, started)

    def _run_of(self, pod: Obj, name: str) -> Run:
        container = next(c for c in pod["spec"]["containers"] if c["name"] == name)
        return runs.run_of(pod, container, default=self._world.options.run_seconds)

    def _plan_end(self, uid: str, pod: Obj) -> None:
        """Set a timer for each running container, at exactly its start plus its run."""
        for status in pod["status"]["containerStatuses"]:
            running, name = status["state"].get("running"), status["name"]
            run = self._run_of(pod, name)
            if running is None or run.seconds is None:
                continue
            ended = seconds_of(running["startedAt"]) + run.seconds
            due = max(ended, self._world.clock.now())  # it may have ended while nobody looked
            self._world.timers.add(due, RANK_FINISH, action=partial(self._finish, uid, name))
        self._plan_deadline(uid, pod)
        self._plan_save(uid, pod)

    def _plan_save(self, uid: str, pod: Obj) -> None:
        due = checkpoints.next_save(pod, after=self._world.clock.now())
        if due is not None:
            self._world.timers.add(due, RANK_STOP, action=lambda: self._save(uid, due))

    def _save(self, uid: str, at: float) -> None:
        """The program has a checkpoint; the node's agent notes it on the pod."""
        pod = self._pod(uid)
        if pod is None or phase_of(pod) != "Running" or is_deleting(pod):
            return
        if node_of(pod) not in self.down:
            pod = self._world.store.change(PODS, pod, partial(checkpoints.note, at=at))
        self._plan_save(uid, pod)

    def _plan_deadline(self, uid: str, pod: Obj) -> None:
        limit = pod["spec"].get("activeDeadlineSeconds")
        if limit is not None:
            due = seconds_of(pod["status"]["startTime"]) + limit
            self._world.timers.add(due, RANK_STOP, action=lambda: self._expire(uid))

    def _finish(self, uid: str, name: str) -> None:
        """A container has run its time."""
        pod = self._pod(uid)
        if pod is None or phase_of(pod) != "Running" or node_of(pod) in self.down:
            return
        own = next(s for s in pod["status"]["containerStatuses"] if s["name"] == name)
        running, run = own["state"].get("running"), self._run_of(pod, name)
        if running is None or run.seconds is None:
            return
        ended = seconds_of(running["startedAt"]) + run.seconds
        if ended > self._world.clock.now():
            return
        if self._starts_again(pod, run.exit_code):
            self._restart(uid, pod, name)
            return
        status = ending(pod, {name: run.exit_code}, at=rfc3339(ended))
        self._write_status(pod, status)

    def _starts_again(self, pod: Obj, exit_code: int) -> bool:
        policy = pod["spec"].get("restartPolicy", "Always")
        wanted = policy == "Always" or (policy == "OnFailure" and exit_code != 0)
        return wanted and not is_deleting(pod)

    def _restart(self, uid: str, pod: Stored, name: str) -> None:
        """The same container once more, after its back-off, which is part of the wait."""
        run, before = self._run_of(pod, name), _started(pod, name)
        due = self._world.clock.now() + _RESTART_SECONDS

        def again() -> None:
            now = self._pod(uid)
            if now is None or is_deleting(now) or phase_of(now) != "Running":
                return
            if _started(now, name) != before:
                return  # another timer of the same run was first
            at = self._world.clock.stamp()
            status = restarted(now, name, exit_code=run.exit_code, at=at)
            self._plan_end(uid, self._write_status(now, status))

        self._world.timers.add(due, RANK_START, action=again)

    def _expire(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod is None or is_finished(pod) or node_of(pod) in self.down:
            return
        self._end_all(pod, runs.TERMINATED_BY_TERM)
        message = "Pod was active on the node longer than the specified deadline"
        over = {"phase": "Failed", "reason": "DeadlineExceeded", "message": message}
        now = self._pod(uid)
        if now is not None:
            self._write_status(now, {**now["status"], **over})

    def _look_at_leaving(self, uid: str, pod: Stored) -> None:
        """Stop a pod that is being deleted, within its grace; then let it go."""
        grace = pod["metadata"].get("deletionGracePeriodSeconds", 0)
        if is_finished(pod) or not node_of(pod):
            self._let_go(pod)
            return
        deleted = seconds_of(pod["metadata"]["deletionTimestamp"]) - grace
        notes = annotations_of(pod)
        saves = checkpoints.save_seconds(pod)
        asked = runs.number(notes, runs.STOP_SECONDS, default=1.0) or 0.0
        asked = asked if saves is None else saves
        takes = min(asked, float(grace)) if phase_of(pod) == "Running" else 0.0
        now = self._world.clock.now()
        due = max(now, now + takes if uid not in self._stopping else deleted + takes)
        if due >= self._stopping.get(uid, due + 1):
            return
        self._stopping[uid] = due
        code = int(runs.number(notes, runs.STOP_EXIT_CODE, default=runs.TERMINATED_BY_TERM) or 0)
        code = runs.TERMINATED_BY_KILL if asked > grace else code
        has_saved = saves is not None and saves <= grace and phase_of(pod) == "Running"
        words = checkpoints.last_words(due) if has_saved else ""
        if due <= now:
            self._stop(uid, code, words)
        else:
            self._world.timers.add(due, RANK_STOP, action=lambda: self._stop(uid, code, words))

    def _stop(self, uid: str, exit_code: int, words: str) -> None:
        pod = self._pod(uid)
        if pod is None or is_finished(pod) or node_of(pod) in self.down:
            return
        self._end_all(pod, exit_code, words)

    def _end_all(self, pod: Stored, exit_code: int, words: str = "") -> None:
        """End every container of a pod. words: the termination message that they leave."""
        names = [container["name"] for container in pod["spec"]["containers"]]
        at = self._world.clock.stamp()
        self._write_status(pod, ending(pod, dict.fromkeys(names, exit_code), at=at, words=words))

    def _let_go(self, pod: Stored) -> None:
        """The last word on a pod that has ended: delete it with no grace left."""
        if not is_finished(pod):
            self._write_status(pod, {**pod.get("status", {}), "phase": "Failed"})
            return
        if pod["metadata"].get("deletionGracePeriodSeconds", 0) > 0:
            removal.begin(self._world, PODS, pod, how=_AT_ONCE)
        else:
            removal.finish_if_free(self._world, PODS, pod)

    def _write_status(self, pod: Stored, status: Obj) -> Stored:
        return self._world.store.change(PODS, pod, lambda new: new.update(status=status))


def _started(pod: Obj, name: str) -> str:
    """When a container's present run began, or "" when it does not run."""
    own = next(s for s in pod["status"]["containerStatuses"] if s["name"] == name)
    return str((own["state"].get("running") or {}).get("startedAt", ""))


def _address(node: Obj | None) -> str:
    addresses = (node or {}).get("status", {}).get("addresses") or [{"address": ""}]
    return str(addresses[0]["address"])
