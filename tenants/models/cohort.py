from django.db import models
from django.db.models import F, Q


class Cohort(models.Model):
    """Tenants that may borrow from each other; cohorts hang in cohorts, as a tree."""

    name = models.SlugField(max_length=64, unique=True)
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    weight = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(parent__isnull=True) | ~Q(parent=F("id")),
                name="cohort_not_its_own_parent",
            ),
            models.CheckConstraint(condition=Q(weight__gte=1), name="cohort_weight_positive"),
        ]

    def __str__(self) -> str:
        return self.name
