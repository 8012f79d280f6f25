"""Requests for quota over REST: what is read, what is written."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.core.api.queries import StrictSerializer
from tenants.api.fields import TenantField
from tenants.models import QuotaGrant, QuotaRequest, QuotaRequestEvent
from tenants.services.quota_decisions import Offer
from tenants.services.quota_requests import QuotaWish
from tenants.states import RequestState
from topology.api.fields import ClusterField, only_cluster
from topology.models import Cluster, ResourceFlavor
from topology.reports.flavors import flavors_called

LARGEST = 2**31 - 1
LONGEST_TEXT = 8000


class GrantSerializer(serializers.ModelSerializer[QuotaGrant]):
    """What an operator has offered or granted."""

    flavor = serializers.CharField(source="flavor.name", read_only=True)
    guaranteed_gpus = serializers.IntegerField(source="gpus", read_only=True)

    class Meta:
        model = QuotaGrant
        fields = (
            "flavor",
            "guaranteed_gpus",
            "borrowing_gpus",
            "gpu_hours",
            "starts_on",
            "ends_on",
            "not_renewable_because",
        )
        read_only_fields = fields


class QuotaRequestSerializer(serializers.ModelSerializer[QuotaRequest]):
    """What a tenant asks for, and where that stands. Days are of the cluster's own clock."""

    id = serializers.CharField(source="public_id", read_only=True)
    tenant = serializers.CharField(source="tenant.slug", read_only=True)
    cluster = serializers.CharField(source="cluster.slug", read_only=True)
    flavor = serializers.CharField(source="flavor.name", read_only=True, allow_null=True)
    guaranteed_gpus = serializers.IntegerField(source="gpus", read_only=True)
    state = serializers.ChoiceField(choices=RequestState.choices, read_only=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True)
    replaces = serializers.CharField(source="replaces.public_id", read_only=True, allow_null=True)
    grant = serializers.SerializerMethodField(
        help_text="What is offered or granted; null before any offer."
    )

    class Meta:
        model = QuotaRequest
        fields = (
            "id",
            "version",
            "tenant",
            "cluster",
            "state",
            "purpose",
            "flavor",
            "gpu_memory_mib",
            "guaranteed_gpus",
            "borrowing_gpus",
            "gpu_hours",
            "starts_on",
            "ends_on",
            "justification",
            "plan_url",
            "outcome",
            "replaces",
            "requested_by",
            "created_at",
            "submitted_at",
            "grant",
        )
        read_only_fields = fields

    @extend_schema_field(GrantSerializer(allow_null=True))
    def get_grant(self, request: QuotaRequest) -> dict[str, Any] | None:
        return GrantSerializer(request.grant).data if hasattr(request, "grant") else None


class QuotaRequestEventSerializer(serializers.ModelSerializer[QuotaRequestEvent]):
    """One step: who, when, why, and what was asked, offered or handed back."""

    actor = serializers.CharField(
        source="actor.username", read_only=True, allow_null=True, help_text="Null: the system."
    )

    class Meta:
        model = QuotaRequestEvent
        fields = ("id", "at", "action", "from_state", "to_state", "actor", "note", "numbers")
        read_only_fields = fields


class TermsSerializer(StrictSerializer):
    guaranteed_gpus = serializers.IntegerField(min_value=0, max_value=LARGEST)
    borrowing_gpus = serializers.IntegerField(
        required=False, default=0, min_value=0, max_value=LARGEST
    )
    gpu_hours = serializers.IntegerField(
        required=False, default=None, allow_null=True, min_value=1, max_value=LARGEST
    )
    starts_on = serializers.DateField()
    ends_on = serializers.DateField()

    def terms(self) -> dict[str, Any]:
        """The columns of QuotaTerms."""
        values = self.validated_data
        return {
            "gpus": values["guaranteed_gpus"],
            **{n: values[n] for n in ("borrowing_gpus", "gpu_hours", "starts_on", "ends_on")},
        }


class WriteQuotaRequestSerializer(TermsSerializer):
    """A request to be, or a draft written anew: without a flavor any GPU will do that has
    `gpu_memory_mib`.
    """

    tenant = TenantField()
    cluster = ClusterField(required=False, help_text="May be left out where there is only one.")
    purpose = serializers.ChoiceField(choices=QuotaRequest.Purpose.choices)
    flavor = serializers.CharField(required=False, allow_null=True, max_length=80)
    gpu_memory_mib = serializers.IntegerField(
        required=False, default=0, min_value=0, max_value=LARGEST
    )
    justification = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=LONGEST_TEXT
    )
    plan_url = serializers.URLField(required=False, allow_blank=True, default="", max_length=400)
    outcome = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=LONGEST_TEXT
    )
    replaces = serializers.RegexField(
        r"^Q-[0-9]{1,18}$",
        required=False,
        allow_null=True,
        help_text="The granted request whose place it takes: a change, an extension, a renewal.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs["cluster"] = attrs.get("cluster") or only_cluster()
        attrs["flavor"] = one_flavor(attrs["cluster"], attrs.get("flavor"))
        attrs["replaces"] = self._replaced(attrs.get("replaces"))
        return attrs

    def wish(self) -> QuotaWish:
        values = self.validated_data
        names = (
            "cluster",
            "flavor",
            "gpu_memory_mib",
            "justification",
            "plan_url",
            "outcome",
            "replaces",
        )
        return QuotaWish(
            purpose=QuotaRequest.Purpose(values["purpose"]),
            **{name: values[name] for name in names},
            **self.terms(),
        )

    def _replaced(self, public_id: str | None) -> QuotaRequest | None:
        if public_id is None:
            return None
        rows = QuotaRequest.objects.visible_to(self.context["request"].user)
        old = rows.filter(pk=int(public_id[2:])).select_related("grant__flavor").first()
        if old is None:
            message = _("There is no such request.")
            raise serializers.ValidationError({"replaces": message}, code="does_not_exist")
        return old


class PatchQuotaRequestSerializer(StrictSerializer):
    """What of a draft changes; its tenant, its cluster and what it replaces stay."""

    purpose = serializers.ChoiceField(choices=QuotaRequest.Purpose.choices, required=False)
    flavor = serializers.CharField(required=False, allow_null=True, max_length=80)
    gpu_memory_mib = serializers.IntegerField(required=False)
    guaranteed_gpus = serializers.IntegerField(required=False)
    borrowing_gpus = serializers.IntegerField(required=False)
    gpu_hours = serializers.IntegerField(required=False, allow_null=True)
    starts_on = serializers.DateField(required=False)
    ends_on = serializers.DateField(required=False)
    justification = serializers.CharField(required=False, allow_blank=True)
    plan_url = serializers.CharField(required=False, allow_blank=True)
    outcome = serializers.CharField(required=False, allow_blank=True)


def as_written(draft: QuotaRequest) -> dict[str, Any]:
    """A draft as WriteQuotaRequestSerializer would have been sent it."""
    names = ("purpose", "gpu_memory_mib", "borrowing_gpus", "gpu_hours", "starts_on", "ends_on")
    words = ("justification", "plan_url", "outcome")
    return {
        "tenant": draft.tenant.slug,
        "cluster": draft.cluster.slug,
        "flavor": draft.flavor.name if draft.flavor else None,
        "guaranteed_gpus": draft.gpus,
        "replaces": draft.replaces.public_id if draft.replaces else None,
        **{name: getattr(draft, name) for name in (*names, *words)},
    }


class StepSerializer(StrictSerializer):
    """Words to go with a step. version: of the request as it was read; 409 if it has changed."""

    note = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=LONGEST_TEXT
    )
    version = serializers.IntegerField(required=False, default=None, min_value=0, max_value=LARGEST)


class ApproveSerializer(StepSerializer):
    """Grant what was asked for. flavor: needed where any would do."""

    flavor = serializers.CharField(required=False, allow_null=True, default=None, max_length=80)
    not_renewable_because = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=200
    )
    overcommit = serializers.BooleanField(
        required=False, default=False, help_text="Guarantee more than there is; needs a note."
    )


class CounterSerializer(StepSerializer, TermsSerializer):
    """Offer other terms."""

    flavor = serializers.CharField(max_length=80)
    not_renewable_because = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=200
    )


class HandBackSerializer(StrictSerializer):
    gpus = serializers.IntegerField(min_value=1, max_value=LARGEST)


def offer_of(request: QuotaRequest, form: ApproveSerializer) -> Offer:
    """What was asked for, as an offer."""
    values = form.validated_data
    flavor = one_flavor(request.cluster, values["flavor"]) or request.flavor
    if flavor is None:
        message = _("Any GPU model would do: name the one to grant.")
        raise serializers.ValidationError({"flavor": message}, code="required")
    names = ("gpus", "borrowing_gpus", "gpu_hours", "starts_on", "ends_on")
    return Offer(
        flavor=flavor,
        not_renewable_because=values["not_renewable_because"],
        **{name: getattr(request, name) for name in names},
    )


def counter_of(request: QuotaRequest, form: CounterSerializer) -> Offer:
    values = form.validated_data
    flavor = one_flavor(request.cluster, values["flavor"])
    if flavor is None:
        raise serializers.ValidationError({"flavor": _("Name the GPU model.")}, code="required")
    return Offer(
        flavor=flavor, not_renewable_because=values["not_renewable_because"], **form.terms()
    )


def one_flavor(cluster: Cluster, name: str | None) -> ResourceFlavor | None:
    """The flavor that `name` means, None for no name; a name that fits several is refused."""
    if not name:
        return None
    found = flavors_called(cluster, name)
    if len(found) != 1:
        known = ", ".join(cluster.flavors.order_by("name").values_list("name", flat=True))
        message = _("Name one GPU model; there are: %(known)s.") % {"known": known or "-"}
        raise serializers.ValidationError({"flavor": message}, code="does_not_exist")
    return found[0]
