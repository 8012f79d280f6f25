"""The parts of a submission that say where and when a job would like to run."""

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from portal.core.api.fields import NamedField
from portal.core.api.queries import StrictSerializer
from scheduling.models import Job, Level, ServiceClass
from scheduling.services.requests import After, Wishes

LARGEST = 2**31 - 1
# As the API names them, by the names of Wishes.
_PLAIN = {
    "service_class": "service_class",
    "standby": "is_standby",
    "not_before": "not_before",
    "grace_seconds": "grace_seconds",
    "min_total": "min_total",
}


class JobField(NamedField):
    """A job of the caller's tenants: another one gives the answer of one that does not exist."""

    name_field = "public_id"

    def rows(self) -> QuerySet[Job]:
        return Job.objects.visible_to(self.context["request"].user)


class AfterSerializer(StrictSerializer):
    job = JobField(max_length=12)
    ended = serializers.ChoiceField(
        choices=("ok", "any"), default="ok", help_text="With success, or in any way."
    )


class TopologySerializer(StrictSerializer):
    required = serializers.ChoiceField(
        choices=Level.choices, required=False, help_text="Its nodes must share one of these."
    )
    preferred = serializers.ChoiceField(choices=Level.choices, required=False)
    patience_seconds = serializers.IntegerField(
        required=False,
        max_value=LARGEST,
        help_text="After so long in the queue the next higher level will do.",
    )
    island = serializers.BooleanField(
        default=False, help_text="Its GPUs on one node share one NVLink island."
    )


class WishesSerializer(StrictSerializer):
    """To be inherited by what takes a whole job."""

    topology = TopologySerializer(required=False, allow_null=True)
    after = AfterSerializer(many=True, required=False, help_text="Jobs that must have ended.")
    service_class = serializers.ChoiceField(choices=ServiceClass.choices, required=False)
    standby = serializers.BooleanField(
        required=False, help_text="Not charged, and stopped for anybody at any time."
    )
    not_before = serializers.DateTimeField(required=False, allow_null=True)
    grace_seconds = serializers.IntegerField(
        required=False,
        allow_null=True,
        max_value=LARGEST,
        help_text="How long it takes to save its work when it is told to stop.",
    )
    min_total = serializers.IntegerField(required=False, allow_null=True, max_value=LARGEST)


def wishes_of(values: dict[str, Any]) -> Wishes:
    """The wishes among the validated values of a submission."""
    topology = values.get("topology") or {}
    plain = {_PLAIN[name]: values[name] for name in _PLAIN if name in values}
    return Wishes(
        **plain,
        gpu_memory_mib=(values.get("gpu") or {}).get("memory_mib", 0),
        required=topology.get("required"),
        preferred=topology.get("preferred"),
        patience_seconds=topology.get("patience_seconds"),
        needs_island=topology.get("island", False),
        after=tuple(
            After(job=one["job"], needs_success=one["ended"] == "ok")
            for one in values.get("after", ())
        ),
    )
