from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from tenants.models.notification import NotificationKind


class Webhook(models.Model):
    """An address that notices are sent to: a person's, or a tenant's.

    The address and the secret let whoever has them write there: no page shows them again.
    """

    class Style(models.TextChoices):
        SLACK = "slack", _("Slack or Mattermost")
        FEISHU = "feishu", _("Feishu")
        DINGTALK = "dingtalk", _("DingTalk")
        WECOM = "wecom", _("WeCom")
        GENERIC = "generic", _("a program of yours (signed JSON)")

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="webhooks",
    )
    tenant = models.ForeignKey(
        "tenants.Tenant", null=True, blank=True, on_delete=models.CASCADE, related_name="webhooks"
    )
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    made_at = models.DateTimeField(db_default=Now())  # wall clock, as those below
    name = models.CharField(max_length=60)
    style = models.CharField(max_length=10, choices=Style.choices)
    url = models.TextField()
    secret = models.CharField(max_length=200, blank=True)
    kinds = ArrayField(models.CharField(max_length=20, choices=NotificationKind.choices))
    failures = models.PositiveSmallIntegerField(default=0)  # since it last answered well
    last_error = models.CharField(max_length=200, blank=True)  # of ours: no word of the answer
    next_at = models.DateTimeField(null=True, blank=True)  # not tried before; null: at once
    answered_at = models.DateTimeField(null=True, blank=True)
    dead_at = models.DateTimeField(null=True, blank=True)  # given up; nothing is kept for it

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, tenant__isnull=True)
                | Q(user__isnull=True, tenant__isnull=False),
                name="webhook_of_a_person_or_a_tenant",
            ),
            models.UniqueConstraint(fields=["user", "name"], name="webhook_once_per_person"),
            models.UniqueConstraint(fields=["tenant", "name"], name="webhook_once_per_tenant"),
        ]

    def __str__(self) -> str:
        return self.name


class WebhookNotice(models.Model):
    """Something that one webhook is to be told, once."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="notices")
    kind = models.CharField(max_length=20, choices=NotificationKind.choices)
    key = models.CharField(max_length=64)  # of what happened: told twice, it is one
    facts = models.JSONField(default=dict)
    link = models.CharField(max_length=200)
    happened_at = models.DateTimeField()  # by the clock of what it happened to
    made_at = models.DateTimeField(db_default=Now())  # wall clock, as that below
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["webhook", "key"], name="webhook_notice_once"),
        ]
        indexes = [
            models.Index(
                fields=["webhook", "id"],
                condition=Q(sent_at__isnull=True),
                name="webhook_notice_to_send",
            ),
            models.Index(fields=["made_at"], name="webhook_notice_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.webhook_id}: {self.key}"
