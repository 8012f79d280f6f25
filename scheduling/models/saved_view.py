from django.conf import settings
from django.db import models


class SavedView(models.Model):
    """A list of jobs as somebody likes to see it, under a name of theirs."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="job_views"
    )
    name = models.CharField(max_length=40)
    query = models.CharField(max_length=500, blank=True)  # of the list's address

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "name"], name="saved_view_once_per_name"),
        ]

    def __str__(self) -> str:
        return self.name
