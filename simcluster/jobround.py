"""One look at a Job: its pods, what was counted of them, and what follows of that."""

from dataclasses import dataclass, field

from simcluster.jobpods import index_of
from simcluster.objects import (
    JOB_FINALIZER,
    Obj,
    Stored,
    gates_of,
    has_condition,
    is_deleting,
    is_finished,
    node_of,
    phase_of,
)

BACKOFF_SECONDS, BACKOFF_LIMIT_SECONDS = 10.0, 600.0
ENDS = frozenset({"Complete", "Failed"})


@dataclass(slots=True)
class Backoff:
    """Failures since the last success, and when the last of them was."""

    failures: int = 0
    last_failed_at: float = 0.0

    def wait_until(self) -> float:
        if not self.failures:
            return 0.0
        delay = BACKOFF_SECONDS * 2.0 ** min(self.failures - 1, 10)
        return self.last_failed_at + min(delay, BACKOFF_LIMIT_SECONDS)


@dataclass(slots=True)
class Round:
    """One look at one Job: its pods, and the status that is being made."""

    job: Stored
    status: Obj
    pods: list[Stored]
    succeeded: set[int] = field(default_factory=set)
    failed_indexes: set[int] = field(default_factory=set)
    verdict: tuple[str, str] | None = None  # reason and message of a failure

    @property
    def spec(self) -> Obj:
        return self.job["spec"]  # type: ignore[no-any-return]  # JSON

    @property
    def active(self) -> list[Stored]:
        return [p for p in self.pods if not is_finished(p) and not is_deleting(p)]

    @property
    def terminating(self) -> int:
        return sum(is_deleting(p) and not is_finished(p) for p in self.pods)


def stage_of(pod: Obj) -> tuple[str, bool, bool]:
    """What of a pod matters to its Job at once."""
    counted = JOB_FINALIZER not in (pod["metadata"].get("finalizers") or [])
    return phase_of(pod) if is_finished(pod) else "", is_deleting(pod), counted


def is_over(job: Obj) -> bool:
    """True for a Job that is Complete or Failed."""
    return any(has_condition(job, kind) for kind in ENDS)


def replacement_policy(job: Obj) -> str:
    """When a terminating pod is replaced: at once, or once it has failed."""
    default = "Failed" if job["spec"].get("podFailurePolicy") else "TerminatingOrFailed"
    return str(job["spec"].get("podReplacementPolicy") or default)


def wanted_pods(look: Round) -> int:
    """How many pods should be active now."""
    parallelism = int(look.spec.get("parallelism", 1))
    completions = look.spec.get("completions")
    succeeded = int(look.status.get("succeeded", 0))
    if completions is None:
        return len(look.active) if succeeded else parallelism
    left = int(completions) - succeeded - len(look.failed_indexes)
    return max(0, min(parallelism, left))


def missing_indexes(look: Round) -> list[int]:
    """Indexes that are neither done, nor lost, nor being worked on; ascending."""
    busy = {index_of(pod) for pod in look.active} | look.succeeded | look.failed_indexes
    if replacement_policy(look.job) == "Failed":
        busy |= {index_of(pod) for pod in look.pods if is_deleting(pod) and not is_finished(pod)}
    return [index for index in range(look.spec["completions"]) if index not in busy]


def is_complete(look: Round) -> bool:
    if has_condition({"status": look.status}, "SuccessCriteriaMet"):
        return True
    if look.spec.get("suspend"):
        return False
    succeeded, completions = look.status.get("succeeded", 0), look.spec.get("completions")
    if completions is None:
        return succeeded > 0 and not look.active
    return bool(succeeded >= completions)


def verdict_of_indexes(look: Round) -> tuple[str, str] | None:
    """The failure that lost indexes amount to, if any."""
    limit = look.spec.get("maxFailedIndexes")
    if limit is not None and len(look.failed_indexes) > limit:
        return (
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        )
    ended = len(look.failed_indexes) + len(look.succeeded)
    if look.failed_indexes and ended >= look.spec["completions"]:
        return "FailedIndexes", "Job has failed indexes"
    return None


def spare_last(pod: Obj) -> tuple[bool, bool, bool, int]:
    """Which pod goes first when there are too many: gated, unbound, not ready, highest index."""
    ready = has_condition(pod, "Ready")
    return not gates_of(pod), bool(node_of(pod)), ready, -index_of(pod)
