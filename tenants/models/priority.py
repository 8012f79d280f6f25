from django.db import models

from tenants.querysets import PriorityClassQuerySet


class PriorityClass(models.Model):
    """A named urgency; larger is more urgent. Operators define them.

    One that is retired goes on naming the jobs that have it; new jobs cannot ask for it.
    """

    name = models.SlugField(max_length=40, unique=True)
    value = models.IntegerField(unique=True)
    description = models.CharField(max_length=200, blank=True)
    is_default = models.BooleanField(default=False)
    retired_at = models.DateTimeField(null=True, blank=True)  # wall clock

    objects = PriorityClassQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(is_default=False) | models.Q(retired_at__isnull=True),
                name="priority_class_default_is_offered",
            ),
            models.UniqueConstraint(
                fields=["is_default"],
                condition=models.Q(is_default=True),
                name="priority_class_one_default",
            ),
        ]

    def __str__(self) -> str:
        return self.name
