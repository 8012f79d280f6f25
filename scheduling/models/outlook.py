"""What is known of the waiting jobs' time to come: their order, when they may start, what helps."""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from scheduling.querysets import OfJobQuerySet


class Unknown(models.TextChoices):
    """Why there is no estimate of a start."""

    KEPT_BACK = "kept_back", _("something other than room keeps it back")
    TOO_FAR = "too_far", _("too many jobs wait in front of it")
    NO_PAST = "no_past", _("too few jobs have ended here to know how long they run")
    NO_END = "no_end", _("a job that nothing ends may hold the room")


class QueueOrder(models.Model):
    """The waiting jobs of a cluster in the order in which its last cycle decided them."""

    cluster = models.OneToOneField(
        "topology.Cluster", on_delete=models.CASCADE, related_name="queue_order"
    )
    jobs = models.JSONField(default=list)  # keys of jobs; one that started since may be among them
    at = models.DateTimeField()  # cluster clock

    def __str__(self) -> str:
        return f"{self.cluster_id}: {len(self.jobs)} waiting"


class StartEstimate(models.Model):
    """When a waiting job was expected to start, and whether it did.

    One row for each wait: a job that was stopped and queued again waits anew. What was told first
    never changes, so that the record of the estimates is about what somebody was told. All times
    are the cluster's clock.
    """

    job = models.ForeignKey("scheduling.Job", on_delete=models.CASCADE, related_name="estimates")
    attempt = models.PositiveIntegerField()  # of the job while it waited
    made_at = models.DateTimeField()
    earliest = models.DateTimeField(null=True, blank=True)
    latest = models.DateTimeField(null=True, blank=True)
    percent = models.PositiveSmallIntegerField(default=0)  # how likely the range is to hold
    unknown = models.CharField(max_length=12, choices=Unknown.choices, blank=True)

    first_at = models.DateTimeField(null=True, blank=True)
    first_earliest = models.DateTimeField(null=True, blank=True)
    first_latest = models.DateTimeField(null=True, blank=True)
    # When it was seen whether that held: at the start, or at its end if there was none by then.
    settled_at = models.DateTimeField(null=True, blank=True)
    held = models.BooleanField(null=True, blank=True)

    objects = OfJobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "attempt"], name="estimate_once_per_wait"),
            models.CheckConstraint(
                condition=Q(latest__isnull=True)
                | Q(earliest__isnull=False, latest__gte=F("earliest")),
                name="estimate_range_in_order",
            ),
        ]
        indexes = [
            models.Index(
                fields=["-settled_at"], condition=Q(held__isnull=False), name="estimate_settled"
            ),
            models.Index(
                fields=["first_latest"],
                condition=Q(held__isnull=True, first_latest__isnull=False),
                name="estimate_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}, attempt {self.attempt}"


class Advice(models.Model):
    """What would help a waiting job, as the engine found after one cycle."""

    job = models.OneToOneField("scheduling.Job", on_delete=models.CASCADE, related_name="advice")
    cycle = models.BigIntegerField()  # key of the newest recorded cycle then; 0 before the first
    version = models.PositiveIntegerField()  # of the job
    checked_at = models.DateTimeField()  # cluster clock
    checked_wall_at = models.DateTimeField()  # wall clock
    found = models.JSONField(default=list)  # [{kind, value, effect, …}], see services.advice
    is_complete = models.BooleanField(default=True)  # False: the time for looking ran out

    objects = OfJobQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.job_id} after cycle {self.cycle}"
