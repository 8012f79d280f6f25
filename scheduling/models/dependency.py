from django.db import models
from django.db.models import F, Q

from scheduling.querysets import OfJobQuerySet


class JobDependency(models.Model):
    """Another job that must have ended before `job` starts; with success, if it `needs_success`.

    A job depends on jobs that were there before it, so there are no circles.
    """

    job = models.ForeignKey("scheduling.Job", on_delete=models.CASCADE, related_name="dependencies")
    on = models.ForeignKey("scheduling.Job", on_delete=models.CASCADE, related_name="dependants")
    needs_success = models.BooleanField(default=True)

    objects = OfJobQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "job dependencies"
        constraints = [
            models.UniqueConstraint(fields=["job", "on"], name="job_dependency_once"),
            models.CheckConstraint(condition=~Q(job=F("on")), name="job_not_its_own_dependency"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} after {self.on_id}"
