from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from tenants.querysets import AnnouncementQuerySet


class AnnouncementLevel(models.TextChoices):
    INFO = "info", _("for information")
    WARNING = "warning", _("a warning")
    URGENT = "urgent", _("urgent")


class Announcement(models.Model):
    """What operators tell everybody on every page, inside [from_at, until_at) of the wall clock."""

    text = models.CharField(max_length=500)  # English
    text_zh = models.CharField(max_length=500, blank=True)  # empty: the English one is shown
    level = models.CharField(
        max_length=8, choices=AnnouncementLevel.choices, default=AnnouncementLevel.INFO
    )
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=0)  # raised by each change
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    made_at = models.DateTimeField(db_default=Now())

    objects = AnnouncementQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(until_at__gt=F("from_at")), name="announcement_ends_after_it_begins"
            ),
            models.CheckConstraint(condition=~Q(text=""), name="announcement_says_something"),
        ]
        indexes = [models.Index(fields=["until_at"], name="announcement_by_end")]

    def __str__(self) -> str:
        return self.text[:40]
