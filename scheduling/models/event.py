from django.conf import settings
from django.db import models

from scheduling.querysets import OfJobQuerySet
from scheduling.states import JobState


class JobEvent(models.Model):
    """One step in the life of a job: the audit line that `move` writes with the change itself."""

    job = models.ForeignKey("scheduling.Job", on_delete=models.CASCADE, related_name="events")
    from_state = models.CharField(max_length=12, choices=JobState.choices, blank=True)
    to_state = models.CharField(max_length=12, choices=JobState.choices)
    reason = models.CharField(max_length=300, blank=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    at = models.DateTimeField()  # cluster clock
    is_told = models.BooleanField(default=False, db_default=False)  # to those whom it concerns

    objects = OfJobQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["job", "id"], name="job_event_of_job"),
            models.Index(
                fields=["id"], condition=models.Q(is_told=False), name="job_event_to_tell"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.from_state or 'new'} → {self.to_state}"
