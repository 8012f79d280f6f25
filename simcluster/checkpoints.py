"""Programs that can be resumed: they save their work now and then, and when told to end."""

from simcluster import runs
from simcluster.clock import rfc3339, seconds_of
from simcluster.jobpods import index_of
from simcluster.objects import Obj, annotations_of

EVERY_SECONDS = "simcluster.muster.dev/checkpoint-seconds"
SAVE_SECONDS = "simcluster.muster.dev/save-seconds"
AT = "muster.dev/checkpoint-at"


def next_save(pod: Obj, *, after: float) -> float | None:
    """When a running pod's next checkpoint is complete; None for one that makes none.

    Of the pods of an Indexed Job the first saves for all, as ranks of a training do.
    """
    every = runs.number(annotations_of(pod), EVERY_SECONDS, default=None)
    running = pod["status"]["containerStatuses"][0]["state"].get("running")
    if every is None or every < 1 or running is None or index_of(pod) > 0:
        return None
    started = seconds_of(running["startedAt"])
    return float(started + ((after - started) // every + 1) * every)


def note(pod: Obj, *, at: float) -> None:
    """Write onto `pod` that a checkpoint is complete."""
    pod["metadata"].setdefault("annotations", {})[AT] = rfc3339(at)


def save_seconds(pod: Obj) -> float | None:
    """How long the program takes to save when it is told to end; None for one that does not."""
    return runs.number(annotations_of(pod), SAVE_SECONDS, default=None)


def last_words(at: float) -> str:
    """What a program that saved as it was told to end leaves as its termination message."""
    return f"{AT}={rfc3339(at)}"
