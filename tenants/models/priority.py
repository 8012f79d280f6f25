from django.db import models


class PriorityClass(models.Model):
    """A named urgency; larger is more urgent. Operators define them."""

    name = models.SlugField(max_length=40, unique=True)
    value = models.IntegerField(unique=True)
    description = models.CharField(max_length=200, blank=True)
    is_default = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"],
                condition=models.Q(is_default=True),
                name="priority_class_one_default",
            ),
        ]

    def __str__(self) -> str:
        return self.name
