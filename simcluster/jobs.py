"""The Job controller: Indexed and NonIndexed Jobs, suspended, resumed, counted and ended."""

from collections.abc import Callable

from simcluster import removal
from simcluster.clock import seconds_of
from simcluster.jobpods import index_failures, index_of, is_indexed, make_pod, parse_ranges, ranges
from simcluster.jobpolicy import FAIL_INDEX, FAIL_JOB, IGNORE, judge
from simcluster.jobround import (
    BACKOFF_SECONDS,
    ENDS,
    Backoff,
    Round,
    is_complete,
    is_over,
    missing_indexes,
    replacement_policy,
    spare_last,
    stage_of,
    verdict_of_indexes,
    wanted_pods,
)
from simcluster.objects import (
    JOB_FINALIZER,
    Obj,
    Stored,
    clone,
    controller_of,
    has_condition,
    is_deleting,
    name_of,
    phase_of,
    set_condition,
    uid_of,
)
from simcluster.removal import Removal
from simcluster.resources import JOBS, PODS
from simcluster.store import Event
from simcluster.world import World

RANK_JOB = 3
_SOURCE = "job-controller"
_BACKGROUND = Removal(propagation="Background")

MakePod = Callable[[Obj], Stored | None]


class JobController:
    def __init__(self, world: World, make: MakePod) -> None:
        self._world = world
        self._make = make
        self._look: dict[str, None] = {}
        self._soon: dict[str, None] = {}
        self._orphans: dict[str, None] = {}  # pods whose Job let them go
        self._backoffs: dict[str, Backoff] = {}
        self._planned: dict[str, set[float]] = {}

    def seen(self, event: Event) -> None:
        if event.resource is JOBS:
            if event.kind == "DELETED":
                self._backoffs.pop(uid_of(event.obj), None)
                self._planned.pop(uid_of(event.obj), None)
            else:
                self._look[uid_of(event.obj)] = None
        elif event.resource is PODS:
            owner = controller_of(event.obj)
            if owner is not None and owner["kind"] == "Job":
                self._see_pod(event, owner["uid"])
            elif JOB_FINALIZER in (event.obj["metadata"].get("finalizers") or []):
                self._orphans[uid_of(event.obj)] = None

    def act(self) -> bool:
        look, self._look = self._look, {}
        soon, self._soon = self._soon, {}
        orphans, self._orphans = self._orphans, {}
        for uid in orphans:
            if (orphan := self._world.store.by_uid(uid)) is not None:
                self._take_finalizer(orphan[1])
        for uid in soon:
            self._look_again(uid, int(self._world.clock.now()) + 1.0)
        for uid in look:
            found = self._world.store.by_uid(uid)
            if found is None or found[0] is not JOBS:
                self._free_pods(uid)
            else:
                self._sync(found[1])
        return bool(look or orphans)

    def _see_pod(self, event: Event, uid: str) -> None:
        """Look at once when pods come, end or go; a little later when they only become ready."""
        if (
            event.old is None
            or event.kind == "DELETED"
            or stage_of(event.old) != stage_of(event.obj)
        ):
            self._look[uid] = None
        elif has_condition(event.old, "Ready") != has_condition(event.obj, "Ready"):
            self._soon[uid] = None

    def _free_pods(self, uid: str) -> None:
        for resource, pod in self._world.store.children(uid):
            if resource is PODS:
                self._take_finalizer(pod)

    def _sync(self, job: Stored) -> None:
        """Bring one Job up to date: count, judge, end or go on, and write its status."""
        if job["spec"].get("managedBy", "kubernetes.io/job-controller") != (
            "kubernetes.io/job-controller"
        ):
            return
        if is_deleting(job) or is_over(job):
            self._free_pods(uid_of(job))
            self._plan_removal(job)
            return
        look = self._begin(job)
        self._start_or_suspend(look)
        if look.verdict is None:
            look.verdict = self._stored_verdict(look)
        self._count(look)
        self._judge(look)
        if look.verdict is not None:
            self._fail(look)
        elif is_complete(look):
            self._complete(look)
        else:
            self._manage(look)
        self._write(look)

    def _begin(self, job: Stored) -> Round:
        children = self._world.store.children(uid_of(job))
        pods = sorted(
            (p for r, p in children if r is PODS), key=lambda p: (index_of(p), name_of(p))
        )
        status = clone(job.get("status") or {})
        succeeded = parse_ranges(status.get("completedIndexes", ""))
        failed = parse_ranges(status.get("failedIndexes", ""))
        return Round(job, status, pods, succeeded=succeeded, failed_indexes=failed)

    def _start_or_suspend(self, look: Round) -> None:
        at, suspended = self._world.clock.stamp(), bool(look.spec.get("suspend"))
        known = any(c["type"] == "Suspended" for c in look.status.get("conditions") or [])
        if suspended:
            condition = {
                "type": "Suspended",
                "status": "True",
                "reason": "JobSuspended",
                "message": "Job suspended",
                "lastProbeTime": at,
            }
            if set_condition(look.status, condition, at=at):
                look.status.pop("startTime", None)
                self._tell(look.job, "Suspended", "Job suspended")
        elif known and has_condition({"status": look.status}, "Suspended"):
            condition = {
                "type": "Suspended",
                "status": "False",
                "reason": "JobResumed",
                "message": "Job resumed",
                "lastProbeTime": at,
            }
            set_condition(look.status, condition, at=at)
            look.status["startTime"] = at
            self._tell(look.job, "Resumed", "Job resumed")
        elif "startTime" not in look.status:
            look.status["startTime"] = at

    def _stored_verdict(self, look: Round) -> tuple[str, str] | None:
        for condition in look.status.get("conditions") or []:
            if condition["type"] == "FailureTarget" and condition["status"] == "True":
                return condition["reason"], condition.get("message", "")
        return None

    def _count(self, look: Round) -> None:
        """Count what has ended since, once: the finalizer says what was not counted yet."""
        for pod in look.pods:
            if JOB_FINALIZER not in (pod["metadata"].get("finalizers") or []):
                continue
            if phase_of(pod) == "Succeeded":
                self._count_success(look, pod)
            elif self._is_failed(look, pod):
                self._count_failure(look, pod)
            else:
                continue
            self._take_finalizer(pod)
        store = self._world.store
        fresh = [store.by_uid(uid_of(pod)) for pod in look.pods]
        look.pods = [found[1] for found in fresh if found is not None]

    def _is_failed(self, look: Round, pod: Stored) -> bool:
        if phase_of(pod) == "Failed":
            return True
        return is_deleting(pod) and replacement_policy(look.job) != "Failed"

    def _count_success(self, look: Round, pod: Stored) -> None:
        if is_indexed(look.job):
            index = index_of(pod)
            if not 0 <= index < look.spec["completions"] or index in look.succeeded:
                return
            look.succeeded.add(index)
        look.status["succeeded"] = look.status.get("succeeded", 0) + 1
        self._backoffs[uid_of(look.job)] = Backoff()

    def _count_failure(self, look: Round, pod: Stored) -> None:
        action, why = judge(look.job, pod)
        if action == IGNORE:
            return
        if action == FAIL_JOB and look.verdict is None:
            look.verdict = ("PodFailurePolicy", why)
        if action == FAIL_INDEX or self._index_is_spent(look, pod):
            look.failed_indexes.add(index_of(pod))
        look.status["failed"] = look.status.get("failed", 0) + 1
        backoff = self._backoffs.setdefault(uid_of(look.job), Backoff())
        backoff.failures += 1
        backoff.last_failed_at = max(backoff.last_failed_at, self._ended_at(pod))

    def _index_is_spent(self, look: Round, pod: Stored) -> bool:
        limit = look.spec.get("backoffLimitPerIndex")
        return limit is not None and index_failures(pod) >= limit

    def _ended_at(self, pod: Stored) -> float:
        ends = [
            (own["state"].get("terminated") or {}).get("finishedAt")
            for own in pod.get("status", {}).get("containerStatuses") or []
        ]
        known = [seconds_of(end) for end in ends if end]
        return max(known, default=self._world.clock.now())

    def _judge(self, look: Round) -> None:
        if look.verdict is not None:
            return
        limit = look.spec.get("backoffLimit", 6)
        if look.status.get("failed", 0) > limit or self._restarts_too_often(look, limit):
            look.verdict = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        elif self._is_overdue(look):
            message = "Job was active longer than specified deadline"
            look.verdict = ("DeadlineExceeded", message)
        elif is_indexed(look.job):
            look.verdict = verdict_of_indexes(look)

    def _restarts_too_often(self, look: Round, limit: int) -> bool:
        if look.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        restarts = sum(
            own.get("restartCount", 0)
            for pod in look.active
            for own in pod.get("status", {}).get("containerStatuses") or []
        )
        return bool(restarts > limit if limit else restarts > 0)

    def _is_overdue(self, look: Round) -> bool:
        limit = look.spec.get("activeDeadlineSeconds")
        started = look.status.get("startTime")
        if limit is None or started is None or look.spec.get("suspend"):
            return False
        due = seconds_of(started) + limit
        if due <= self._world.clock.now():
            return True
        self._look_again(uid_of(look.job), due)
        return False

    def _fail(self, look: Round) -> None:
        """End every pod; the Job has failed when the last of them is gone."""
        reason, message = look.verdict or ("", "")
        self._set(look, "FailureTarget", reason, message=message)
        for pod in look.active:
            removal.begin(self._world, PODS, pod, how=_BACKGROUND)
        self._refresh(look)
        if not look.terminating and not look.active:
            self._set(look, "Failed", reason, message=message)
            self._tell(look.job, reason, message, warn=True)

    def _complete(self, look: Round) -> None:
        reason, message = "CompletionsReached", "Reached expected number of succeeded pods"
        self._set(look, "SuccessCriteriaMet", reason, message=message)
        for pod in look.active:
            removal.begin(self._world, PODS, pod, how=_BACKGROUND)
        self._refresh(look)
        if not look.terminating and not look.active:
            self._set(look, "Complete", reason, message=message)
            look.status["completionTime"] = self._world.clock.stamp()
            self._tell(look.job, "Completed", "Job completed")

    def _manage(self, look: Round) -> None:
        """Delete what is too much, make what is missing."""
        active = look.active
        wanted = 0 if look.spec.get("suspend") else wanted_pods(look)
        if look.spec.get("suspend") or len(active) > wanted:
            completions = look.spec.get("completions") or 0
            spare = sorted(active, key=lambda p: (index_of(p) < completions, *spare_last(p)))
            for pod in spare[: len(active) - wanted]:
                self._delete(look.job, pod)
        elif len(active) < wanted:
            self._make_missing(look, wanted - len(active))
        self._refresh(look)

    def _make_missing(self, look: Round, count: int) -> None:
        due = self._backoffs.get(uid_of(look.job), Backoff()).wait_until()
        if due > self._world.clock.now() and look.spec.get("backoffLimitPerIndex") is None:
            self._look_again(uid_of(look.job), due)
            return
        indexes: list[int | None] = [None] * count
        if is_indexed(look.job):
            indexes = list(missing_indexes(look)[:count])
        if replacement_policy(look.job) == "Failed":
            indexes = indexes[: max(0, count - look.terminating)]
        for index in indexes:
            failures = max(
                (index_failures(p) + 1 for p in look.pods if index_of(p) == index), default=0
            )
            made = self._make(make_pod(self._world, look.job, index=index, failures=failures))
            if made is None:
                self._tell(look.job, "FailedCreate", "the API refused the pod", warn=True)
                self._look_again(uid_of(look.job), self._world.clock.now() + BACKOFF_SECONDS)
                return
            self._tell(look.job, "SuccessfulCreate", f"Created pod: {name_of(made)}")

    def _delete(self, job: Stored, pod: Stored) -> None:
        """Delete a pod without counting it as failed."""
        self._take_finalizer(pod)
        now = self._world.store.get(PODS, pod["metadata"]["namespace"], name_of(pod))
        if now is not None:
            removal.begin(self._world, PODS, now, how=_BACKGROUND)
        self._tell(job, "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")

    def _take_finalizer(self, pod: Stored) -> None:
        def take(new: Obj) -> None:
            finalizers = new["metadata"].get("finalizers") or []
            left = [f for f in finalizers if f != JOB_FINALIZER]
            new["metadata"].pop("finalizers", None)
            if left:
                new["metadata"]["finalizers"] = left

        removal.finish_if_free(self._world, PODS, self._world.store.change(PODS, pod, take))

    def _refresh(self, look: Round) -> None:
        children = self._world.store.children(uid_of(look.job))
        look.pods = [pod for resource, pod in children if resource is PODS]

    def _write(self, look: Round) -> None:
        status, active = look.status, look.active
        numbers = {
            "active": len(active),
            "ready": sum(has_condition(pod, "Ready") for pod in active),
            "terminating": look.terminating,
        }
        status.update(numbers)
        if not numbers["active"]:
            del status["active"]
        status.setdefault("uncountedTerminatedPods", {})
        if is_indexed(look.job) and look.succeeded:
            status["completedIndexes"] = ranges(look.succeeded)
        if look.spec.get("backoffLimitPerIndex") is not None:
            status["failedIndexes"] = ranges(look.failed_indexes)
        self._world.store.change(JOBS, look.job, lambda new: new.update(status=status))

    def _set(self, look: Round, kind: str, reason: str, *, message: str) -> None:
        at = self._world.clock.stamp()
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}
        if not has_condition({"status": look.status}, kind):
            set_condition(look.status, {**condition, "lastProbeTime": at}, at=at)

    def _plan_removal(self, job: Stored) -> None:
        """Remove a Job that has ended once its ttlSecondsAfterFinished have passed."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or is_deleting(job):
            return
        conditions = [c for c in job["status"]["conditions"] if c["type"] in ENDS]
        ends = [c["lastTransitionTime"] for c in conditions if c.get("lastTransitionTime")]
        if not ends:
            return  # a state file of before may hold one without
        due = seconds_of(ends[0]) + ttl
        if due <= self._world.clock.now():
            removal.begin(self._world, JOBS, job, how=Removal(propagation="Foreground"))
        else:
            self._look_again(uid_of(job), due)

    def _look_again(self, uid: str, due: float) -> None:
        planned = self._planned.setdefault(uid, set())
        if due in planned:
            return
        planned.add(due)

        def look() -> None:
            planned.discard(due)
            self._look[uid] = None

        self._world.timers.add(due, RANK_JOB, action=look)

    def _tell(self, job: Stored, reason: str, message: str, *, warn: bool = False) -> None:
        self._world.tell((JOBS, job), reason, message=message, source=_SOURCE, warn=warn)
