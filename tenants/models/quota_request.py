from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from tenants.querysets import OfRequestQuerySet, QuotaRequestQuerySet
from tenants.states import FINAL, IN_FORCE, RequestState


class QuotaTerms(models.Model):
    """So many GPUs from one day to another. Days are whole, of the cluster's own clock."""

    gpus = models.PositiveIntegerField(default=0)  # guaranteed
    borrowing_gpus = models.PositiveIntegerField(default=0)  # besides, while others leave them idle
    gpu_hours = models.PositiveIntegerField(null=True, blank=True)  # to spend; null: not planned
    starts_on = models.DateField()
    ends_on = models.DateField()  # the last day

    class Meta:
        abstract = True
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=Q(ends_on__gte=F("starts_on")), name="%(class)s_ends_after_its_start"
            ),
        ]

    @property
    def days(self) -> int:
        return (self.ends_on - self.starts_on).days + 1


class QuotaRequest(QuotaTerms):
    """What a tenant asks for, and where that stands. Nothing but services.quota_moves moves it.

    flavor: the GPU model, or null for any whose GPUs have `gpu_memory_mib` at least. replaces: the
    request whose grant ends when this one's begins: a change, an extension, a renewal.
    """

    class Purpose(models.TextChoices):
        TRAINING = "training", _("training")
        FINE_TUNING = "fine_tuning", _("fine-tuning")
        INFERENCE = "inference", _("inference")
        COURSE = "course", _("course")

    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.PROTECT, related_name="quota_requests"
    )
    cluster = models.ForeignKey("topology.Cluster", on_delete=models.PROTECT, related_name="+")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    purpose = models.CharField(max_length=12, choices=Purpose.choices, default=Purpose.TRAINING)
    flavor = models.ForeignKey(
        "topology.ResourceFlavor", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    gpu_memory_mib = models.PositiveIntegerField(default=0)
    justification = models.TextField(blank=True)
    plan_url = models.URLField(max_length=400, blank=True)
    replaces = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="replacements"
    )
    outcome = models.TextField(blank=True)  # of the grant that it replaces
    form_key = models.CharField(max_length=40, blank=True)  # of the form: sent twice, it is one

    state = models.CharField(
        max_length=12, choices=RequestState.choices, default=RequestState.DRAFT
    )
    version = models.PositiveIntegerField(default=0)  # raised by each change
    created_at = models.DateTimeField(db_default=Now())  # wall clock
    submitted_at = models.DateTimeField(null=True, blank=True)  # wall clock

    objects = QuotaRequestQuerySet.as_manager()

    class Meta:
        constraints = [
            *QuotaTerms.Meta.constraints,
            models.CheckConstraint(
                condition=Q(state__in=RequestState.values), name="quota_request_state_known"
            ),
            models.CheckConstraint(
                condition=Q(flavor__isnull=True) | Q(gpu_memory_mib=0),
                name="quota_request_for_a_model_or_a_memory",
            ),
            models.UniqueConstraint(
                fields=["tenant", "form_key"],
                condition=~Q(form_key=""),
                name="quota_request_once_per_form",
            ),
            models.UniqueConstraint(
                fields=["replaces"],
                condition=Q(replaces__isnull=False) & ~Q(state__in=sorted(FINAL | IN_FORCE)),
                name="quota_request_replaced_by_one",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "-id"], name="quota_request_of_tenant"),
            models.Index(
                fields=["id"],
                condition=~Q(state__in=sorted(FINAL)),
                name="quota_request_not_ended",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"Q-{self.pk}"


class QuotaGrant(QuotaTerms):
    """What an operator has offered or granted on a request.

    Whether it is in force is for the state of its request to say; see services.grants.
    """

    request = models.OneToOneField(QuotaRequest, on_delete=models.CASCADE, related_name="grant")
    flavor = models.ForeignKey(
        "topology.ResourceFlavor", on_delete=models.PROTECT, related_name="grants"
    )
    not_renewable_because = models.CharField(max_length=200, blank=True)
    reminded_days = models.PositiveSmallIntegerField(null=True, blank=True)  # of the last reminder

    objects = OfRequestQuerySet.as_manager()

    class Meta(QuotaTerms.Meta):
        abstract = False

    def __str__(self) -> str:
        return f"{self.request_id}: {self.gpus} {self.flavor}"


class QuotaRequestEvent(models.Model):
    """One step in the life of a request: who, when, why, and what was asked or granted then."""

    class Action(models.TextChoices):
        CREATE = "create", _("written")
        SUBMIT = "submit", _("submitted")
        ASK = "ask", _("question")
        ANSWER = "answer", _("answer")
        COUNTER = "counter", _("counter-offer")
        ACCEPT = "accept", _("counter-offer accepted")
        DECLINE = "decline", _("counter-offer declined")
        APPROVE = "approve", _("approved")
        APPROVE_BY_RULE = "approve_by_rule", _("approved by rule")
        REJECT = "reject", _("rejected")
        WITHDRAW = "withdraw", _("withdrawn")
        SCHEDULE = "schedule", _("waits for its first day")
        START = "start", _("in force")
        REMIND = "remind", _("reminder of the end")
        HAND_BACK = "hand_back", _("GPUs handed back")
        END = "end", _("last day over")
        REPLACE = "replace", _("replaced")
        CLOSE = "close", _("closed")
        REVOKE = "revoke", _("revoked")

    request = models.ForeignKey(QuotaRequest, on_delete=models.CASCADE, related_name="events")
    action = models.CharField(max_length=20, choices=Action.choices)
    from_state = models.CharField(max_length=12, choices=RequestState.choices, blank=True)
    to_state = models.CharField(max_length=12, choices=RequestState.choices)
    actor = models.ForeignKey(  # null: the system
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    at = models.DateTimeField()  # wall clock
    note = models.TextField(blank=True)
    numbers = models.JSONField(default=dict, blank=True)  # what was asked, offered, handed back
    is_told = models.BooleanField(default=False, db_default=False)  # to those whom it concerns

    objects = OfRequestQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["request", "id"], name="quota_event_of_request"),
            models.Index(fields=["id"], condition=Q(is_told=False), name="quota_event_to_tell"),
        ]

    def __str__(self) -> str:
        return f"{self.request_id}: {self.action}"


class StarterRule(models.Model):
    """Requests for one flavor that are approved at once: small, short, once per tenant."""

    flavor = models.OneToOneField(
        "topology.ResourceFlavor", on_delete=models.CASCADE, related_name="starter_rule"
    )
    most_gpus = models.PositiveIntegerField()  # guaranteed and borrowed together
    most_days = models.PositiveIntegerField()
    most_gpu_hours = models.PositiveIntegerField(null=True, blank=True)  # null: no limit

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(most_gpus__gte=1, most_days__gte=1), name="starter_rule_gives_something"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.flavor}: {self.most_gpus} for {self.most_days} days"
