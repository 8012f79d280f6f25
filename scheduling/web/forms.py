import re
import shlex
import uuid
from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from scheduling.services.arrays import MOST_TASKS
from scheduling.services.feeding import RUN_SECONDS
from scheduling.services.requests import ArrayRequest, GroupRequest, JobRequest
from tenants.models import PriorityClass, Role, Tenant, User
from topology.models import Cluster, ResourceFlavor
from topology.reports.partitions import has_shares, slice_profiles

HOUR = 3600
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What services call a thing, where the form's field has another name.
FIELD_OF = {
    "gpu": "flavor",
    "flavors": "flavor",
    "groups": "members",
    "walltime_seconds": "max_hours",
    "priority_class": "priority",
    "annotations": "run_seconds",
    "slice_profile": "device",
    "slices_per_member": "gpus_per_member",
    "shares_per_member": "gpus_per_member",
}
SHARE = "share"  # among the devices that a member may have


class FlavorChoice(forms.ModelChoiceField):
    """Flavors by name; with several clusters the cluster's name goes before."""

    def label_from_instance(self, flavor: ResourceFlavor) -> str:
        several = self.widget.attrs.get("data-several")
        return f"{flavor.cluster.name}: {flavor.name}" if several else flavor.name


def offer_clusters(form: forms.Form, clusters: list[Cluster]) -> None:
    """Offer these clusters and the GPU models in `form`; a single cluster is not asked for."""
    cluster, flavor = form.fields["cluster"], form.fields["flavor"]
    cluster.queryset = Cluster.objects.filter(pk__in=[c.pk for c in clusters])
    flavor.queryset = ResourceFlavor.objects.select_related("cluster").order_by("name")
    if len(clusters) == 1:
        cluster.widget = forms.HiddenInput()
        cluster.initial = clusters[0].slug
    else:
        flavor.widget.attrs["data-several"] = "1"


class JobForm(forms.Form):
    """What the browser asks when somebody submits a job; ends in one JobRequest."""

    once = forms.CharField(widget=forms.HiddenInput, max_length=40)
    name = forms.CharField(label=gettext_lazy("Name"), max_length=80)
    tenant = forms.ModelChoiceField(
        Tenant.objects.none(), label=gettext_lazy("Tenant"), empty_label=None, to_field_name="slug"
    )
    cluster = forms.ModelChoiceField(
        Cluster.objects.none(),
        label=gettext_lazy("Cluster"),
        empty_label=None,
        to_field_name="slug",
    )
    members = forms.IntegerField(
        label=gettext_lazy("Members"),
        min_value=1,
        max_value=10_000,
        initial=1,
        help_text=gettext_lazy("Equal parts that start together or not at all."),
    )
    gpus_per_member = forms.IntegerField(
        label=gettext_lazy("GPUs per member"), min_value=0, max_value=1024, initial=1
    )
    device = forms.ChoiceField(
        label=gettext_lazy("Of each"),
        required=False,
        help_text=gettext_lazy("A slice or a share costs that part of a GPU in quota."),
    )
    tasks = forms.IntegerField(
        label=gettext_lazy("Tasks"),
        min_value=1,
        max_value=MOST_TASKS,
        required=False,
        initial=1,
        help_text=gettext_lazy("The whole job so many times; $MUSTER_ARRAY_INDEX counts from 0."),
    )
    at_once = forms.IntegerField(
        label=gettext_lazy("Tasks at once"),
        min_value=1,
        max_value=MOST_TASKS,
        required=False,
        help_text=gettext_lazy("Left empty, all that there is room for."),
    )
    flavor = FlavorChoice(
        ResourceFlavor.objects.none(),
        label=gettext_lazy("GPU model"),
        required=False,
        empty_label=gettext_lazy("any"),
    )
    image = forms.CharField(
        label=gettext_lazy("Image"),
        max_length=300,
        required=False,
        help_text=gettext_lazy("For example pytorch/pytorch:2.8.0-cuda12.9-cudnn9-runtime"),
    )
    command = forms.CharField(
        label=gettext_lazy("Command"),
        required=False,
        max_length=8000,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text=gettext_lazy("As in a shell: python train.py --epochs 3"),
    )
    max_hours = forms.FloatField(
        label=gettext_lazy("Max hours"),
        min_value=0.01,
        max_value=366 * 24,
        required=False,
        help_text=gettext_lazy("It is stopped after this long. Shorter jobs find room sooner."),
    )
    priority = forms.ModelChoiceField(
        PriorityClass.objects.none(), label=gettext_lazy("Priority"), required=False
    )
    environment = forms.CharField(
        label=gettext_lazy("Environment"),
        required=False,
        max_length=32_000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text=gettext_lazy("One NAME=value a line."),
    )
    run_seconds = forms.IntegerField(
        label=gettext_lazy("Seconds to run"),
        min_value=1,
        max_value=366 * 86_400,
        required=False,
        initial=600,
        help_text=gettext_lazy("This cluster is simulated: the job runs this long by its clock."),
    )

    def __init__(self, *args: Any, reader: User, clusters: list[Cluster], **kwargs: Any) -> None:
        """reader: whose tenants and priorities are offered. clusters: all there are."""
        super().__init__(*args, **kwargs)
        self.fields["once"].initial = uuid.uuid4().hex
        offered = Tenant.objects.visible_to(reader, at_least=Role.RESEARCHER).active()
        self.fields["tenant"].queryset = offered.order_by("slug")
        self.fields["priority"].queryset = PriorityClass.objects.offered().order_by("-value")
        if self.initial.get("priority"):  # then there is nothing to leave out
            self.fields["priority"].empty_label = None
        offer_clusters(self, clusters)
        self._offer_devices(clusters)
        if not any(cluster.is_simulated for cluster in clusters):
            del self.fields["run_seconds"]

    def _offer_devices(self, clusters: list[Cluster]) -> None:
        """Whole GPUs, the slices and shares that there are, and what is proposed."""
        choices = {"": _("the whole GPU")}
        if has_shares(clusters):
            choices[SHARE] = _("a share of it")
        proposed = str(self.initial.get("device") or "")
        profiles = {*slice_profiles(clusters)} | ({proposed} - {"", SHARE})
        choices |= {name: _("a slice, %s") % name for name in sorted(profiles)}
        if len(choices) > 1:
            self.fields["device"].choices = list(choices.items())
        else:
            del self.fields["device"]

    def clean_command(self) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(self.cleaned_data["command"]))
        except ValueError as error:
            raise ValidationError(_("A quotation mark has no partner.")) from error

    def clean_environment(self) -> dict[str, str]:
        variables = {}
        for number, line in enumerate(self.cleaned_data["environment"].splitlines(), start=1):
            if not line.strip():
                continue
            name, equals, value = line.strip().partition("=")
            if not equals or not _VARIABLE.fullmatch(name):
                raise ValidationError(_("Line %(number)d is not NAME=value.") % {"number": number})
            variables[name] = value
        return variables

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        flavor, cluster = cleaned.get("flavor"), cleaned.get("cluster")
        if flavor and cluster and flavor.cluster_id != cluster.pk:
            self.add_error("flavor", _("That kind of GPU belongs to another cluster."))
        return cleaned

    def to_request(self) -> JobRequest:
        """The request of a valid form. Sent twice, it is one job: `once` names it."""
        asked = self.cleaned_data
        group = _group(asked["members"], asked["gpus_per_member"], asked.get("device", ""))
        hours = asked["max_hours"]
        return JobRequest(
            name=asked["name"],
            cluster=asked["cluster"],
            groups=(group,),
            flavors=(asked["flavor"],) if asked["flavor"] else (),
            walltime_seconds=round(hours * HOUR) if hours else None,
            priority_class=asked["priority"],
            image=asked["image"],
            command=asked["command"],
            environment=asked["environment"],
            annotations=self._annotations(),
            external_id=f"page-{asked['once']}",
        )

    def to_array(self) -> ArrayRequest | None:
        """The same so many times, as a valid form asks; None where it asks for one."""
        tasks = self.cleaned_data["tasks"] or 1
        if tasks == 1:
            return None
        at_once = self.cleaned_data["at_once"]
        return ArrayRequest(job=self.to_request(), tasks=tasks, at_once=at_once)

    def _annotations(self) -> dict[str, str]:
        seconds = self.cleaned_data.get("run_seconds")
        simulated = self.cleaned_data["cluster"].is_simulated
        return {RUN_SECONDS: str(seconds)} if seconds and simulated else {}


def _group(members: int, count: int, device: str) -> GroupRequest:
    """Members with `count` devices each; device: empty, SHARE, or a slice's profile."""
    if not device or not count:
        return GroupRequest(members=members, gpus_per_member=count)
    if device == SHARE:
        return GroupRequest(members=members, gpus_per_member=0, shares_per_member=count)
    return GroupRequest(
        members=members, gpus_per_member=0, slice_profile=device, slices_per_member=count
    )


def job_form(
    request: HttpRequest, clusters: list[Cluster], proposed: Mapping[str, Any] | None = None
) -> JobForm:
    """The form as sent, or a fresh one that proposes what the address says, or `proposed`."""
    data = request.POST if request.method == "POST" else None
    usual = {"tenant": request.GET.get("tenant"), "priority": _default_priority()}
    initial = {name: value for name, value in usual.items() if value} | dict(proposed or {})
    return JobForm(data, initial=initial, reader=request.user, clusters=clusters)


def _default_priority() -> int | None:
    return PriorityClass.objects.filter(is_default=True).values_list("pk", flat=True).first()
