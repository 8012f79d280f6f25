from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.db.models import F, Q, Sum
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Least, Now
from django.utils.translation import gettext_lazy as _

from scheduling.querysets import JobQuerySet, OfJobQuerySet
from scheduling.states import HOLDING, JobState


class Level(models.TextChoices):
    """How close the nodes of a gang are to each other."""

    NODE = "node", _("one node")
    NVL = "nvl", _("one NVLink domain")
    RACK = "rack", _("one rack")
    BLOCK = "block", _("one block")
    FABRIC = "fabric", _("one fabric")


class ServiceClass(models.TextChoices):
    LATENCY_CRITICAL = "latency_critical", _("latency-critical service")
    LATENCY_SENSITIVE = "latency_sensitive", _("latency-sensitive service")
    TRAINING = "training", _("training")
    OFFLINE = "offline", _("offline")


class Job(models.Model):
    """What a tenant submits: a gang of one or more member groups.

    Times named submitted, started and ended are the cluster's clock; `created_at` is the wall's.
    """

    public_id = models.CharField(max_length=12, unique=True)  # j-7k3m2q: the only name outside
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="jobs")
    cluster = models.ForeignKey("topology.Cluster", on_delete=models.PROTECT, related_name="jobs")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs"
    )
    name = models.CharField(max_length=80)
    array = models.ForeignKey(
        "scheduling.JobArray",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="tasks",
        db_index=False,  # the constraint's index begins with it
    )
    array_index = models.PositiveIntegerField(null=True, blank=True)  # from 0

    state = models.CharField(
        max_length=12, choices=JobState.choices, default=JobState.QUEUED, db_index=False
    )
    stopping_to = models.CharField(max_length=12, choices=JobState.choices, blank=True)
    attempt = models.PositiveIntegerField(default=0)  # raised by each start: fences old work off
    version = models.PositiveIntegerField(default=0)  # raised by each change that a page shows
    is_held = models.BooleanField(default=False)
    held_because = models.CharField(max_length=200, blank=True)

    priority = models.IntegerField(default=0)
    is_preemptible = models.BooleanField(default=True)
    walltime_seconds = models.PositiveIntegerField(null=True, blank=True)
    min_total = models.PositiveIntegerField(null=True, blank=True)

    gpu_memory_mib = models.PositiveIntegerField(default=0)  # least of each GPU; 0 is any
    service_class = models.CharField(
        max_length=20, choices=ServiceClass.choices, default=ServiceClass.TRAINING
    )
    is_standby = models.BooleanField(default=False)  # uncharged, stopped for anybody at any time
    not_before = models.DateTimeField(null=True, blank=True)
    required_level = models.CharField(max_length=8, choices=Level.choices, blank=True)
    preferred_level = models.CharField(max_length=8, choices=Level.choices, blank=True)
    patience_seconds = models.PositiveIntegerField(null=True, blank=True)
    needs_island = models.BooleanField(default=False)
    grace_seconds = models.PositiveIntegerField(null=True, blank=True)  # to save its work
    # Of the last complete checkpoint of any attempt; and run time that earlier attempts saved.
    checkpoint_at = models.DateTimeField(null=True, blank=True)
    saved_seconds = models.PositiveIntegerField(default=0)
    preempted_count = models.PositiveSmallIntegerField(default=0)
    losses_in_a_row = models.PositiveSmallIntegerField(
        default=0
    )  # short attempts that lost members
    protected_until = models.DateTimeField(null=True, blank=True)
    stopping_for = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="victims"
    )

    image = models.CharField(max_length=300, blank=True)
    command = models.JSONField(default=list, blank=True)  # list of words
    environment = models.JSONField(default=dict, blank=True)
    annotations = models.JSONField(default=dict, blank=True)  # carried onto the pods
    external_id = models.CharField(max_length=80, blank=True)  # the submitter's own name for it

    created_at = models.DateTimeField(db_default=Now())
    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    warned_at = models.DateTimeField(null=True, blank=True)  # that its longest run is nearly over
    is_end_untold = models.BooleanField(default=False)  # the cluster is to be told when it ends
    release_by = models.DateTimeField(null=True, blank=True)  # wall: bound by then, or rolled back

    # Starts in a row that the cluster did not carry out; cluster clock: not tried again before.
    failed_starts = models.PositiveIntegerField(default=0)
    start_again_at = models.DateTimeField(null=True, blank=True)

    # Gates of others that kept its last start back; wall: not tried again before.
    foreign_gates = models.JSONField(default=list, blank=True)
    gates_until = models.DateTimeField(null=True, blank=True)

    # The last verdict of a cycle; see scheduling.engine.plan.Reason.
    reason = models.CharField(max_length=32, blank=True)
    reason_numbers = models.JSONField(default=dict, blank=True)
    reason_at = models.DateTimeField(null=True, blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(walltime_seconds__isnull=True) | Q(walltime_seconds__gt=0),
                name="job_walltime_positive",
            ),
            models.CheckConstraint(condition=Q(state__in=JobState.values), name="job_state_known"),
            models.CheckConstraint(
                condition=~Q(state=JobState.STOPPING) | ~Q(stopping_to=""),
                name="job_stopping_towards_something",
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True)
                | Q(started_at__isnull=True)
                | Q(ended_at__gte=F("started_at")),
                name="job_ends_after_its_start",
            ),
            models.UniqueConstraint(
                fields=["cluster", "external_id"],
                condition=~Q(external_id=""),
                name="job_external_id_once",
            ),
            models.CheckConstraint(
                condition=Q(array__isnull=True, array_index__isnull=True)
                | Q(array__isnull=False, array_index__isnull=False),
                name="job_in_an_array_has_a_number",
            ),
            models.UniqueConstraint(
                fields=["array", "array_index"],
                condition=Q(array__isnull=False),
                name="job_number_once_per_array",
            ),
        ]
        indexes = [
            models.Index(
                fields=["cluster", "-priority", "submitted_at", "id"],
                condition=Q(state=JobState.QUEUED),
                name="job_queue_order",
            ),
            models.Index(
                fields=["cluster", "state"],
                condition=Q(state__in=sorted(HOLDING)),
                name="job_holding",
            ),
            models.Index(fields=["tenant", "-submitted_at", "-id"], name="job_of_tenant"),
            models.Index(fields=["owner", "-submitted_at", "-id"], name="job_of_owner"),
            models.Index(fields=["-submitted_at", "-id"], name="job_newest"),
            models.Index(fields=["tenant", "state"], name="job_count_by_state"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.public_id})"

    @property
    def limit_end_at(self) -> datetime | None:
        """When it has run for its walltime; None while it has not started, or without a limit."""
        if self.started_at is None or self.walltime_seconds is None:
            return None
        return self.started_at + timedelta(seconds=self.walltime_seconds)


class JobGroup(models.Model):
    """Equal members of a job. Most jobs have one group, named `main`."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="groups")
    index = models.PositiveSmallIntegerField(default=0)
    name = models.SlugField(max_length=20, default="main")
    min_member = models.PositiveIntegerField(default=1)
    max_member = models.PositiveIntegerField(default=1)
    # Each member has devices of one kind: whole GPUs, MIG slices, shares of GPUs, or a part of one.
    gpus_per_member = models.PositiveSmallIntegerField(default=0)
    slice_profile = models.CharField(max_length=20, blank=True)  # 1g.10gb
    slices_per_member = models.PositiveSmallIntegerField(default=0)
    shares_per_member = models.PositiveSmallIntegerField(default=0)
    gpu_milli = models.PositiveSmallIntegerField(default=0)  # thousandths of one GPU: a part of it
    gpu_mib = models.PositiveIntegerField(default=0)  # of that GPU's memory
    cpu_milli = models.PositiveBigIntegerField(default=0)
    memory_mib = models.PositiveBigIntegerField(default=0)
    # How the cluster says this group's attempt ended: empty while it has not.
    outcome = models.CharField(max_length=12, blank=True)  # complete, failed
    outcome_reason = models.CharField(max_length=80, blank=True)
    outcome_attempt = models.PositiveIntegerField(default=0)

    objects = OfJobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "index"], name="group_index_once_per_job"),
            models.UniqueConstraint(fields=["job", "name"], name="group_name_once_per_job"),
            models.CheckConstraint(
                condition=Q(min_member__gte=1, max_member__gte=F("min_member")),
                name="group_min_member_within_max",
            ),
            models.CheckConstraint(
                condition=Q(gpus_per_member=0, slices_per_member=0)
                | Q(gpus_per_member=0, shares_per_member=0)
                | Q(slices_per_member=0, shares_per_member=0),
                name="group_devices_of_one_kind",
            ),
            models.CheckConstraint(
                condition=Q(slices_per_member=0, slice_profile="")
                | Q(slices_per_member__gte=1) & ~Q(slice_profile=""),
                name="group_slices_have_a_profile",
            ),
            models.CheckConstraint(
                condition=Q(gpu_milli=0, gpu_mib=0)
                | Q(
                    gpu_milli__range=(1, 1000),
                    gpu_mib__gte=1,
                    gpus_per_member=0,
                    slices_per_member=0,
                    shares_per_member=0,
                ),
                name="group_part_of_one_gpu_alone",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job.public_id}/{self.name}"

    @property
    def devices_per_member(self) -> int:
        """GPUs, slices, shares or a part, as GPU-hours and budgets count them."""
        part = min(self.gpu_milli, 1)
        return self.gpus_per_member + self.slices_per_member + self.shares_per_member + part


def devices_per_member(path: str) -> CombinedExpression:
    """`JobGroup.devices_per_member` in a query; path: to the group, as in "group__"."""
    kinds = ("gpus_per_member", "slices_per_member", "shares_per_member")
    whole, slices, shares = (F(path + kind) for kind in kinds)
    return whole + slices + shares + Least(F(path + "gpu_milli"), 1)


def most_devices() -> Sum:
    """In a query of jobs: what each may come to hold, grown as far as it may grow."""
    return Sum(F("groups__max_member") * devices_per_member("groups__"))


class JobFlavor(models.Model):
    """A flavor that a job accepts, by preference; a job without any accepts all."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="accepted")
    flavor = models.ForeignKey(
        "topology.ResourceFlavor", on_delete=models.PROTECT, related_name="+"
    )
    rank = models.PositiveSmallIntegerField(default=0)

    objects = OfJobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "flavor"], name="job_flavor_once"),
            models.UniqueConstraint(fields=["job", "rank"], name="job_flavor_rank_once"),
        ]

    def __str__(self) -> str:
        return f"{self.job.public_id}: {self.flavor}"
