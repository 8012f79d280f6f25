"""Where a waiting job stands in its cluster's queue, in the scheduler's own order."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, F, OuterRef, Sum
from django.db.models.functions import Coalesce

from scheduling.models import Job, JobFlavor
from scheduling.reports.queue import queue_of
from scheduling.states import JobState


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the queue. rank: 1 is next.

    jobs_ahead, gpus_ahead: those in front that accept a kind of GPU that this one accepts too, and
    what they ask for at least.
    """

    rank: int
    of: int
    jobs_ahead: int
    gpus_ahead: int


def position_of(job: Job) -> Position | None:
    """Where a waiting job stands in its cluster's queue; None when it does not wait."""
    found = place_of(job)
    return None if found is None else found[0]


def place_of(job: Job) -> tuple[Position, list[tuple[int, int]]] | None:
    """The position of a waiting job, and (position, key) of those in front that compete with it.

    None when it does not wait. Three queries.
    """
    if job.state != JobState.QUEUED:
        return None
    places = queue_of(job.cluster).positions(owner=None)
    ahead = [place for place in places if place[1] != job.pk]
    rank = next((number for number, key in places if key == job.pk), None)
    if rank is None:
        return None
    competing = _competing(job, ahead[: rank - 1])
    position = Position(
        rank=rank,
        of=len(places),
        jobs_ahead=len(competing),
        gpus_ahead=sum(competing.values()),
    )
    return position, list(competing)


def _competing(job: Job, ahead: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Those of `ahead`, in order, that accept a flavor which `job` accepts: the GPUs of each."""
    rivals = Job.objects.filter(pk__in=[key for _position, key in ahead])
    flavors = [accepted.flavor_id for accepted in job.accepted.all()]
    if flavors:
        theirs = JobFlavor.objects.filter(job=OuterRef("pk"))
        rivals = rivals.filter(~Exists(theirs) | Exists(theirs.filter(flavor__in=flavors)))
    gpus = Coalesce(Sum(F("groups__min_member") * F("groups__gpus_per_member")), 0)
    asked = dict(rivals.values_list("pk").annotate(gpus=gpus))
    return {place: asked[place[1]] for place in ahead if place[1] in asked}
