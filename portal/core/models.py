from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class AuditEvent(models.Model):
    """Who did what to which thing: append only, written in the transaction of the change itself."""

    class Channel(models.TextChoices):
        PAGE = "page", _("page")
        API = "api", _("API")
        SYSTEM = "system", _("system")

    at = models.DateTimeField(db_default=Now())  # wall clock
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    # Who did it in the actor's name; null: the actor themselves.
    really = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    channel = models.CharField(max_length=8, choices=Channel.choices, default=Channel.SYSTEM)
    action = models.CharField(max_length=64)  # verb_noun of the service: submit_job, cancel_job
    object_kind = models.CharField(max_length=32)
    object_id = models.CharField(max_length=64)
    tenant_slug = models.CharField(max_length=64, blank=True)
    request_id = models.CharField(max_length=16, blank=True)
    before = models.JSONField(default=dict, blank=True)
    after = models.JSONField(default=dict, blank=True)
    reason = models.TextField(blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["object_kind", "object_id", "-at"], name="audit_by_object"),
            models.Index(fields=["-at"], name="audit_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.object_kind} {self.object_id}"


class IdempotencyKey(models.Model):
    """The answer that a user's request with this key got: the same key gets the same answer."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)  # none while the first one still runs
    body = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "key"], name="idempotency_key_once_per_user"),
        ]

    def __str__(self) -> str:
        return self.key
