from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from rest_framework import serializers

from portal.core.api.fields import NamedField
from portal.core.api.queries import StrictSerializer
from scheduling.api.wishes import WishesSerializer, wishes_of
from scheduling.services.requests import ArrayRequest, GroupRequest, JobRequest
from tenants.api.fields import TenantField
from tenants.models import PriorityClass, Tenant
from topology.api.fields import ClusterField, only_cluster
from topology.models import Cluster, ResourceFlavor
from topology.reports.flavors import flavors_called

LARGEST = 2**31 - 1
LARGEST_AMOUNT = 2**53 - 1
_SIZE = (
    "members",
    "min_member",
    "max_member",
    "gpus_per_member",
    "slice_profile",
    "slices_per_member",
    "shares_per_member",
    "gpu_milli",
    "gpu_mib",
    "cpu_milli",
    "memory_mib",
)


class PriorityField(NamedField):
    name_field = "name"

    def rows(self) -> QuerySet[PriorityClass]:
        return PriorityClass.objects.offered()


class SizeSerializer(StrictSerializer):
    """Equal members. `min_member` and `max_member` are `members` unless the gang may grow."""

    members = serializers.IntegerField(required=False, max_value=LARGEST)
    min_member = serializers.IntegerField(required=False, max_value=LARGEST)
    max_member = serializers.IntegerField(required=False, max_value=LARGEST)
    gpus_per_member = serializers.IntegerField(
        required=False,
        max_value=LARGEST,
        help_text="1 unless slices, shares or a part of a GPU are asked for.",
    )
    slice_profile = serializers.CharField(
        required=False, allow_blank=True, max_length=20, help_text="Of MIG slices, as in 1g.10gb."
    )
    slices_per_member = serializers.IntegerField(required=False, max_value=LARGEST)
    shares_per_member = serializers.IntegerField(
        required=False,
        max_value=LARGEST,
        help_text="Of GPUs that are handed out to several at a time.",
    )
    gpu_milli = serializers.IntegerField(
        required=False,
        max_value=LARGEST,
        help_text="Thousandths of one GPU that is handed out by amounts, 100 to 1000.",
    )
    gpu_mib = serializers.IntegerField(
        required=False, max_value=LARGEST, help_text="Of its memory, with gpu_milli."
    )
    cpu_milli = serializers.IntegerField(required=False, max_value=LARGEST_AMOUNT)
    memory_mib = serializers.IntegerField(required=False, max_value=LARGEST_AMOUNT)


class SubmitGroupSerializer(SizeSerializer):
    name = serializers.CharField(max_length=20)


class SubmitGpuSerializer(StrictSerializer):
    model = serializers.CharField(
        required=False,
        max_length=80,
        help_text="A flavor, a GPU model, or a word of either: h100.",
    )
    memory_mib = serializers.IntegerField(
        required=False, max_value=LARGEST, help_text="At least so much of it on each GPU."
    )


class SubmitJobSerializer(SizeSerializer, WishesSerializer):
    """A job to be: one group of members in flat form, or `groups`."""

    tenant = TenantField()
    cluster = ClusterField(required=False, help_text="May be left out where there is only one.")
    name = serializers.CharField(max_length=80)
    groups = SubmitGroupSerializer(many=True, required=False, allow_empty=False)
    gpu = SubmitGpuSerializer(required=False, allow_null=True)
    walltime_seconds = serializers.IntegerField(required=False, allow_null=True, max_value=LARGEST)
    priority = PriorityField(required=False, allow_null=True, help_text="The name of a class.")
    preemptible = serializers.BooleanField(required=False, default=True)
    image = serializers.CharField(required=False, allow_blank=True, max_length=300)
    command = serializers.ListField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), required=False
    )
    environment = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), required=False
    )
    annotations = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), required=False
    )
    external_id = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=80,
        help_text="Your own name for it, once per cluster: asked twice, it is the same job.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        said = [name for name in _SIZE if name in attrs]
        if "groups" in attrs and said:
            message = _("Say this in each of the groups, or leave the groups out.")
            raise serializers.ValidationError(dict.fromkeys(said, message), code="contradiction")
        attrs["cluster"] = attrs.get("cluster") or only_cluster()
        attrs["flavors"] = _flavors(attrs["cluster"], attrs.get("gpu"))
        return attrs

    def to_request(self) -> tuple[Tenant, JobRequest]:
        values = self.validated_data
        groups = values.get("groups") or [{n: values[n] for n in _SIZE if n in values}]
        request = JobRequest(
            name=values["name"],
            cluster=values["cluster"],
            groups=tuple(_group(group) for group in groups),
            flavors=values["flavors"],
            walltime_seconds=values.get("walltime_seconds"),
            priority_class=values.get("priority"),
            is_preemptible=values["preemptible"],
            wishes=wishes_of(values),
            image=values.get("image", ""),
            command=tuple(values.get("command", ())),
            environment=values.get("environment", {}),
            annotations=values.get("annotations", {}),
            external_id=values.get("external_id", ""),
        )
        return values["tenant"], request


class SubmitArraySerializer(SubmitJobSerializer):
    """An array to be: the job, and how many times."""

    tasks = serializers.IntegerField(max_value=LARGEST)
    at_once = serializers.IntegerField(
        required=False,
        allow_null=True,
        max_value=LARGEST,
        help_text="So many tasks hold GPUs at one time; all if it is left out.",
    )

    def to_array(self) -> tuple[Tenant, ArrayRequest]:
        tenant, job = self.to_request()
        values = self.validated_data
        return tenant, ArrayRequest(job=job, tasks=values["tasks"], at_once=values.get("at_once"))


def _group(said: dict[str, Any]) -> GroupRequest:
    """The group; without `members` it has as many as it may start with."""
    members = said.get("members", said.get("min_member", said.get("max_member", 1)))
    kinds = ("slices_per_member", "shares_per_member", "gpu_milli")
    has_parts = any(said.get(kind) for kind in kinds)
    usual = {"gpus_per_member": 0} if has_parts else {}
    return GroupRequest(**{**usual, **said, "members": members})


def _flavors(cluster: Cluster, gpu: dict[str, Any] | None) -> tuple[ResourceFlavor, ...]:
    if gpu is None or "model" not in gpu:
        return ()
    flavors = flavors_called(cluster, gpu["model"])
    if not flavors:
        known = ", ".join(cluster.flavors.order_by("name").values_list("name", flat=True))
        message = _("This cluster has no such GPU; it has: %s.") % known
        raise serializers.ValidationError({"gpu": {"model": [message]}}, code="does_not_exist")
    return flavors
