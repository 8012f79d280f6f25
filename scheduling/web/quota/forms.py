import uuid
from datetime import date, timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from scheduling.web.forms import FlavorChoice, offer_clusters
from tenants.models import QuotaGrant, QuotaRequest, Role, Tenant, User
from tenants.services.quota_decisions import Offer
from tenants.services.quota_requests import QuotaWish
from topology.models import Cluster, ResourceFlavor

MIB_PER_GIB = 1024
USUAL_DAYS = 90
# What services call a thing, where the form's field has another name.
FIELD_OF = {"gpu_memory_mib": "gpu_memory_gib", "replaces": ""}


class DayInput(forms.DateInput):
    input_type = "date"

    def __init__(self) -> None:
        super().__init__(format="%Y-%m-%d")


class TermsForm(forms.Form):
    """So many GPUs of a model from one day to another."""

    gpus = forms.IntegerField(
        label=gettext_lazy("Guaranteed GPUs"), min_value=0, max_value=100_000, initial=8
    )
    borrowing_gpus = forms.IntegerField(
        label=gettext_lazy("May borrow up to"),
        min_value=0,
        max_value=100_000,
        required=False,
        help_text=gettext_lazy("GPUs besides, while others leave them idle."),
    )
    gpu_hours = forms.IntegerField(
        label=gettext_lazy("GPU-hours"),
        min_value=1,
        max_value=100_000_000,
        required=False,
        help_text=gettext_lazy("A plan to measure against; no job is stopped for it."),
    )
    starts_on = forms.DateField(label=gettext_lazy("First day"), widget=DayInput())
    ends_on = forms.DateField(label=gettext_lazy("Last day"), widget=DayInput())

    def terms(self) -> dict[str, Any]:
        """The columns of QuotaTerms, of a valid form."""
        said = self.cleaned_data
        return {
            "gpus": said["gpus"],
            "borrowing_gpus": said["borrowing_gpus"] or 0,
            "gpu_hours": said["gpu_hours"],
            "starts_on": said["starts_on"],
            "ends_on": said["ends_on"],
        }


class RequestForm(TermsForm):
    """What a lead asks for; ends in one QuotaWish."""

    once = forms.CharField(widget=forms.HiddenInput, max_length=40, required=False)
    tenant = forms.ModelChoiceField(
        Tenant.objects.none(), label=gettext_lazy("Tenant"), empty_label=None, to_field_name="slug"
    )
    cluster = forms.ModelChoiceField(
        Cluster.objects.none(),
        label=gettext_lazy("Cluster"),
        empty_label=None,
        to_field_name="slug",
    )
    purpose = forms.ChoiceField(label=gettext_lazy("Purpose"), choices=QuotaRequest.Purpose.choices)
    flavor = FlavorChoice(
        ResourceFlavor.objects.none(),
        label=gettext_lazy("GPU model"),
        required=False,
        empty_label=gettext_lazy("any"),
    )
    gpu_memory_gib = forms.IntegerField(
        label=gettext_lazy("Memory of a GPU, at least"),
        min_value=1,
        max_value=4096,
        required=False,
        help_text=gettext_lazy("In GiB, where any model will do."),
    )
    justification = forms.CharField(
        label=gettext_lazy("What it is for"),
        required=False,
        max_length=8000,
        widget=forms.Textarea(attrs={"rows": 5, "class": "prose", "data-count": "40"}),
        help_text=gettext_lazy(
            "40 characters or more: what runs, how many times, and how you know the size."
        ),
    )
    plan_url = forms.URLField(
        label=gettext_lazy("Link to the plan"),
        required=False,
        max_length=400,
        assume_scheme="https",
    )
    outcome = forms.CharField(
        label=gettext_lazy("What came of it so far"),
        required=False,
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 3, "class": "prose"}),
        help_text=gettext_lazy("Two sentences, where it is to last longer."),
    )

    def __init__(
        self,
        *args: Any,
        reader: User,
        clusters: list[Cluster],
        draft: QuotaRequest | None = None,
        replaces: QuotaRequest | None = None,
        **kwargs: Any,
    ) -> None:
        """reader: whose tenants are offered. draft: the one being rewritten."""
        super().__init__(*args, **kwargs)
        self.fields["once"].initial = uuid.uuid4().hex
        self.replaces = draft.replaces if draft else replaces
        known = draft or replaces
        offered = Tenant.objects.visible_to(reader, at_least=Role.LEAD).active().order_by("slug")
        self.fields["tenant"].queryset = offered.filter(pk=known.tenant_id) if known else offered
        offer_clusters(self, clusters)
        # A draft may lack it; what is submitted may not.
        self.fields["justification"].required = self.data.get("action") != "draft"
        if self.replaces is None:
            del self.fields["outcome"]

    def wish(self) -> QuotaWish:
        """The wish of a valid form."""
        said = self.cleaned_data
        return QuotaWish(
            purpose=QuotaRequest.Purpose(said["purpose"]),
            cluster=said["cluster"],
            flavor=said["flavor"],
            gpu_memory_mib=0 if said["flavor"] else (said["gpu_memory_gib"] or 0) * MIB_PER_GIB,
            justification=said["justification"],
            plan_url=said["plan_url"],
            replaces=self.replaces,
            outcome=said.get("outcome", ""),
            form_key=said["once"],
            **self.terms(),
        )


class OfferForm(TermsForm):
    """What an operator gives; ends in one Offer."""

    flavor = FlavorChoice(
        ResourceFlavor.objects.none(), label=gettext_lazy("GPU model"), empty_label=None
    )
    not_renewable_because = forms.CharField(
        label=gettext_lazy("Cannot be renewed, because"), required=False, max_length=200
    )
    note = forms.CharField(
        label=gettext_lazy("Words to the tenant"),
        required=False,
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 3, "class": "prose"}),
        help_text=gettext_lazy("Needed for a question and a rejection."),
    )
    overcommit = forms.BooleanField(
        label=gettext_lazy("Guarantee more than there is, and say why"), required=False
    )

    def __init__(self, *args: Any, cluster: Cluster, **kwargs: Any) -> None:
        super().__init__(*args, prefix="offer", **kwargs)
        self.fields["flavor"].queryset = cluster.flavors.order_by("name")

    def offer(self) -> Offer:
        """The offer of a valid form."""
        said = self.cleaned_data
        return Offer(
            flavor=said["flavor"],
            not_renewable_because=said["not_renewable_because"],
            **self.terms(),
        )


def proposed(today: date, asked: dict[str, str]) -> dict[str, Any]:
    """How a fresh form begins: three months from today, and what the address says."""
    return {
        "starts_on": today,
        "ends_on": today + timedelta(days=USUAL_DAYS - 1),
        **{name: asked[name] for name in ("tenant", "gpus") if name in asked},
    }


def as_stored(request: QuotaRequest) -> dict[str, Any]:
    """A stored request as the form shows it."""
    return {
        "tenant": request.tenant.slug,
        "cluster": request.cluster.slug,
        "purpose": request.purpose,
        "flavor": request.flavor_id,
        "gpu_memory_gib": request.gpu_memory_mib // MIB_PER_GIB or None,
        "justification": request.justification,
        "plan_url": request.plan_url,
        "outcome": request.outcome,
        **_terms_of(request),
    }


def as_changed(old: QuotaRequest, today: date, *, renew: bool) -> dict[str, Any]:
    """What a change of a grant begins with: its terms as they are, from today on.

    A renewal begins the day after its end and lasts as long.
    """
    grant = old.grant
    changed = as_stored(old) | _terms_of(grant) | {"flavor": grant.flavor_id, "outcome": ""}
    changed["gpu_memory_gib"] = None
    if renew:
        first = max(today, grant.ends_on + timedelta(days=1))
        return changed | {"starts_on": first, "ends_on": first + timedelta(days=grant.days - 1)}
    return changed | {"starts_on": max(today, grant.starts_on)}


def as_offered(request: QuotaRequest, flavor: ResourceFlavor | None) -> dict[str, Any]:
    """What was asked for, as an offer; of `flavor` where any would do."""
    flavor_id = request.flavor_id or (flavor.pk if flavor else None)
    return _terms_of(request) | {"flavor": flavor_id}


def _terms_of(terms: QuotaRequest | QuotaGrant) -> dict[str, Any]:
    names = ("gpus", "borrowing_gpus", "gpu_hours", "starts_on", "ends_on")
    return {name: getattr(terms, name) for name in names}


def label_of(flavor: ResourceFlavor | None, memory_mib: int) -> str:
    """The GPU model that is asked for, in words."""
    if flavor is not None:
        return flavor.name
    if not memory_mib:
        return _("any GPU model")
    return _("any GPU with %(memory)d GiB or more") % {"memory": memory_mib // MIB_PER_GIB}
