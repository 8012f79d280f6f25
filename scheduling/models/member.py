from django.db import models

from scheduling.querysets import OfJobQuerySet
from scheduling.states import ENDED_PHASES, MemberPhase


class Member(models.Model):
    """One member of a gang in one attempt to run it: its place, its pod, how it went."""

    job = models.ForeignKey("scheduling.Job", on_delete=models.CASCADE, related_name="members")
    group = models.ForeignKey(
        "scheduling.JobGroup", on_delete=models.CASCADE, related_name="members"
    )
    placement = models.ForeignKey(
        "scheduling.Placement", on_delete=models.CASCADE, related_name="members"
    )
    attempt = models.PositiveIntegerField()
    rank = models.PositiveIntegerField()  # within its group; the pod's completion index
    phase = models.CharField(
        max_length=12, choices=MemberPhase.choices, default=MemberPhase.EXPECTED
    )
    pod_name = models.CharField(max_length=253, blank=True)
    pod_uid = models.CharField(max_length=64, blank=True)
    node_seen = models.CharField(max_length=253, blank=True)  # where the cluster says it is
    devices_seen = models.JSONField(default=list, blank=True)  # labels of those it was given
    bound_at = models.DateTimeField(null=True, blank=True)  # cluster clock; pod on its node
    started_at = models.DateTimeField(null=True, blank=True)  # cluster clock; container start
    ended_at = models.DateTimeField(null=True, blank=True)  # cluster clock; container end
    is_leaving = models.BooleanField(default=False)  # told to end while its gang goes on
    checkpoint_at = models.DateTimeField(null=True, blank=True)  # cluster clock; its last one
    foreign_gates = models.JSONField(default=list, blank=True)  # of others, that hold its pod
    exit_code = models.IntegerField(null=True, blank=True)
    message = models.CharField(max_length=300, blank=True)
    seen_version = models.BigIntegerField(default=0)  # resourceVersion of the last report used

    objects = OfJobQuerySet.as_manager()

    class Meta:
        constraints = [
            # One that left a gang may be followed by another of its rank.
            models.UniqueConstraint(
                fields=["group", "attempt", "rank"],
                condition=models.Q(is_leaving=False),
                name="member_stays_once_per_attempt",
            ),
            models.CheckConstraint(
                condition=models.Q(phase__in=MemberPhase.values), name="member_phase_known"
            ),
        ]
        indexes = [
            models.Index(fields=["job", "attempt"], name="member_of_attempt"),
            models.Index(
                fields=["placement"],
                condition=~models.Q(phase__in=sorted(ENDED_PHASES)),
                name="member_live",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}/{self.group_id}/{self.rank}"
