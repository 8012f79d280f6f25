from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from tenants.querysets import NotificationQuerySet


class NotificationKind(models.TextChoices):
    """What people are told of; the labels stand on the page where they choose."""

    JOB_STARTED = "job_started", _("a job of mine starts")
    JOB_ENDED = "job_ended", _("a job of mine ends")
    JOB_FAILED = "job_failed", _("a job of mine fails")
    JOB_PREEMPTED = "job_preempted", _("a job of mine is stopped for another")
    REQUEST_DECIDED = "request_decided", _("a request of mine is answered")
    REQUEST_WAITING = "request_waiting", _("a request waits for an operator")
    QUOTA_ENDING = "quota_ending", _("quota of a tenant that I lead ends")
    WEBHOOK_DEAD = "webhook_dead", _("a webhook of mine is given up")
    INVITED = "invited", _("somebody invites me into a tenant")


# Mailed unless somebody chose otherwise.
MAILED = frozenset(
    {
        NotificationKind.JOB_STARTED,
        NotificationKind.JOB_FAILED,
        NotificationKind.REQUEST_DECIDED,
        NotificationKind.REQUEST_WAITING,
        NotificationKind.QUOTA_ENDING,
        NotificationKind.WEBHOOK_DEAD,
    }
)


class Notification(models.Model):
    """Something that one person is told, once. What it says is made of `facts` when it is shown."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notifications"
    )
    kind = models.CharField(max_length=20, choices=NotificationKind.choices)
    key = models.CharField(max_length=64)  # of what happened: told twice, it is one
    facts = models.JSONField(default=dict)
    link = models.CharField(max_length=200)
    happened_at = models.DateTimeField()  # by the clock of what it happened to
    made_at = models.DateTimeField(db_default=Now())  # wall clock, as those below
    in_inbox = models.BooleanField(default=True)
    read_at = models.DateTimeField(null=True, blank=True)
    mail_due_at = models.DateTimeField(null=True, blank=True)  # null: no mail
    mailed_at = models.DateTimeField(null=True, blank=True)

    objects = NotificationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "key"], name="notification_once"),
        ]
        indexes = [
            models.Index(fields=["user", "-id"], name="notification_of_user"),
            models.Index(
                fields=["mail_due_at"],
                condition=Q(mail_due_at__isnull=False, mailed_at__isnull=True),
                name="notification_to_mail",
            ),
            models.Index(fields=["made_at"], name="notification_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.key}"


class NotificationChoice(models.Model):
    """What somebody chose for one kind; who did not choose has the usual."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notification_choices"
    )
    kind = models.CharField(max_length=20, choices=NotificationKind.choices)
    in_inbox = models.BooleanField(default=True)
    by_mail = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "kind"], name="notification_choice_once"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.kind}"


class MailTimes(models.Model):
    """When somebody gets mail: at once, or once a day; never between `quiet_from` and its end.

    Hours are of the person's own time zone.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mail_times"
    )
    daily_at = models.PositiveSmallIntegerField(null=True, blank=True)  # hour; null: at once
    quiet_from = models.PositiveSmallIntegerField(null=True, blank=True)  # hour
    quiet_until = models.PositiveSmallIntegerField(null=True, blank=True)  # hour

    class Meta:
        verbose_name_plural = "mail times"
        constraints = [
            models.CheckConstraint(
                condition=Q(quiet_from__isnull=True, quiet_until__isnull=True)
                | Q(quiet_from__lt=24, quiet_until__lt=24),
                name="quiet_hours_are_two_or_none",
            ),
        ]

    def __str__(self) -> str:
        return f"mail of {self.user_id}"
