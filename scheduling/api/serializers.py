from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.core.api.queries import StrictSerializer
from scheduling.engine.advice import Effect
from scheduling.models import Job, JobArray, JobDependency, JobEvent, JobGroup, Member
from scheduling.reports.devices_given import member_devices
from scheduling.reports.estimates import Record, Start
from scheduling.reports.explanation import Explanation, reasoning
from scheduling.reports.helps import Help
from scheduling.services.checks import LONGEST_WALLTIME
from scheduling.states import JobState
from tenants.models import User


class ReasonSerializer(serializers.Serializer[Any]):
    """Why a job waits. The code never changes; the text is translated by Accept-Language."""

    code = serializers.CharField()
    text = serializers.CharField()


class FactSerializer(serializers.Serializer[Any]):
    """One number behind a reason: members, GPUs, an instant, a name, as its code says."""

    code = serializers.CharField()
    value = serializers.JSONField()


class PositionSerializer(serializers.Serializer[Any]):
    """A place in the cluster's queue, in the order of the scheduler; rank 1 is next."""

    rank = serializers.IntegerField()
    of = serializers.IntegerField()
    jobs_ahead = serializers.IntegerField(help_text="In front, for the same GPUs.")
    gpus_ahead = serializers.IntegerField(help_text="What those ask for at least.")


class StartSerializer(serializers.Serializer[Start]):
    """When a waiting job is likely to start, by the cluster's clock, or why nobody knows."""

    p10 = serializers.DateTimeField(
        source="earliest", allow_null=True, help_text="Alone where no later end is known."
    )
    p90 = serializers.DateTimeField(source="latest", allow_null=True)
    percent = serializers.IntegerField(help_text="How likely the range is to hold.")
    unknown = serializers.CharField(help_text="Why there is no range, a code; else empty.")
    text = serializers.CharField()
    promised_at = serializers.DateTimeField(
        allow_null=True, help_text="A place is kept for it from then on."
    )
    made_at = serializers.DateTimeField(allow_null=True)


class RecordSerializer(serializers.Serializer[Record]):
    """Of the last first estimates told in this cluster, how many held."""

    told = serializers.IntegerField()
    held = serializers.IntegerField()


class HelpSerializer(serializers.Serializer[Help]):
    """One thing that would help, tried on the cluster as it was at `checked_at`."""

    change = serializers.DictField(
        help_text="members, gpus_per_member, flavor (to accept as well), topology,"
        " walltime_seconds or preemptible of the job; quota (flavor, gpus) of its tenant; end_of a"
        " running job (null for another tenant's)."
    )
    effect = serializers.ChoiceField(choices=[effect.value for effect in Effect])
    text = serializers.CharField()


class GroupSerializer(serializers.ModelSerializer[JobGroup]):
    """Equal members of a job."""

    class Meta:
        model = JobGroup
        fields = (
            "name",
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
        read_only_fields = fields


class TaskSerializer(serializers.ModelSerializer[Job]):
    """Which task of which array a job is."""

    id = serializers.CharField(source="array.public_id", read_only=True)
    index = serializers.IntegerField(source="array_index", read_only=True, help_text="From 0.")

    class Meta:
        model = Job
        fields = ("id", "index")
        read_only_fields = fields


class JobRowSerializer(serializers.ModelSerializer[Job]):
    """A job as lists show it."""

    id = serializers.CharField(source="public_id", read_only=True)
    tenant = serializers.CharField(source="tenant.slug", read_only=True)
    cluster = serializers.CharField(source="cluster.slug", read_only=True)
    owner = serializers.CharField(source="owner.username", read_only=True)
    priority = serializers.CharField(
        source="priority_class",
        read_only=True,
        allow_null=True,
        help_text="The class that has this value now; null when none has.",
    )
    priority_value = serializers.IntegerField(source="priority", read_only=True)
    preemptible = serializers.BooleanField(source="is_preemptible", read_only=True)
    reason = serializers.SerializerMethodField(help_text="Why it waits; null when it does not.")
    array = serializers.SerializerMethodField(help_text="Null unless it is a task of an array.")
    groups = GroupSerializer(many=True, read_only=True)
    min_gpus = serializers.SerializerMethodField(help_text="What it starts with at least.")
    flavors = serializers.SerializerMethodField(
        help_text="Kinds of GPU that it accepts, best first; empty accepts all."
    )

    class Meta:
        model = Job
        fields = (
            "id",
            "name",
            "tenant",
            "cluster",
            "owner",
            "state",
            "reason",
            "version",
            "priority",
            "priority_value",
            "preemptible",
            "min_gpus",
            "groups",
            "flavors",
            "array",
            "walltime_seconds",
            "external_id",
            "submitted_at",
            "started_at",
            "ended_at",
        )
        read_only_fields = fields

    @extend_schema_field(ReasonSerializer(allow_null=True))
    def get_reason(self, job: Job) -> dict[str, str] | None:
        reason = reasoning(job)
        return None if reason is None else ReasonSerializer(reason).data

    @extend_schema_field(TaskSerializer(allow_null=True))
    def get_array(self, job: Job) -> dict[str, Any] | None:
        return None if job.array_id is None else dict(TaskSerializer(job).data)

    def get_min_gpus(self, job: Job) -> int:
        return sum(group.min_member * group.gpus_per_member for group in job.groups.all())

    def get_flavors(self, job: Job) -> list[str]:
        return [accepted.flavor.name for accepted in job.accepted.all()]


class TopologyShownSerializer(serializers.ModelSerializer[Job]):
    """How close a job's nodes are to be; empty where it does not say."""

    required = serializers.CharField(source="required_level", read_only=True)
    preferred = serializers.CharField(source="preferred_level", read_only=True)
    island = serializers.BooleanField(source="needs_island", read_only=True)

    class Meta:
        model = Job
        fields = ("required", "preferred", "patience_seconds", "island")
        read_only_fields = fields


class DependencySerializer(serializers.ModelSerializer[JobDependency]):
    """A job that must have ended first."""

    job = serializers.CharField(source="on.public_id", read_only=True)
    state = serializers.CharField(source="on.state", read_only=True)
    needs_success = serializers.BooleanField(read_only=True)

    class Meta:
        model = JobDependency
        fields = ("job", "state", "needs_success")
        read_only_fields = fields


class JobSerializer(JobRowSerializer):
    """A job with all that was asked for."""

    command = serializers.ListField(child=serializers.CharField(), read_only=True)
    environment = serializers.DictField(child=serializers.CharField(), read_only=True)
    annotations = serializers.DictField(child=serializers.CharField(), read_only=True)
    standby = serializers.BooleanField(source="is_standby", read_only=True)
    on_hold = serializers.BooleanField(source="is_held", read_only=True)
    topology = TopologyShownSerializer(source="*", read_only=True)
    limit_end_at = serializers.DateTimeField(
        read_only=True,
        allow_null=True,
        help_text="When its longest run is over; null before its start, or without a limit.",
    )
    after = DependencySerializer(source="dependencies", many=True, read_only=True)

    class Meta(JobRowSerializer.Meta):
        fields = (
            *JobRowSerializer.Meta.fields,
            "on_hold",
            "limit_end_at",
            "warned_at",
            "topology",
            "after",
            "service_class",
            "standby",
            "not_before",
            "failed_starts",
            "start_again_at",
            "grace_seconds",
            "min_total",
            "checkpoint_at",
            "saved_seconds",
            "preempted_count",
            "image",
            "command",
            "environment",
            "annotations",
        )
        read_only_fields = fields


class MemberSerializer(serializers.ModelSerializer[Member]):
    """A member of a job's present attempt: the devices planned for it, and those it was given."""

    group = serializers.CharField(source="group.name", read_only=True)
    node = serializers.CharField(source="placement.node.name", read_only=True)
    planned = serializers.SerializerMethodField(
        help_text="Of its node: GPU 5, the MIG slice of it that starts at 4 as 5@4, a share as 5#2."
    )
    given = serializers.SerializerMethodField(
        help_text="In the same words; null while the cluster does not say."
    )
    differs = serializers.SerializerMethodField(help_text="Whether it was given others.")
    planned_islands = serializers.SerializerMethodField(
        help_text="Groups of GPUs joined by NVLink that the planned ones lie in."
    )
    given_islands = serializers.SerializerMethodField(
        help_text="And those given; null while the cluster does not say."
    )

    class Meta:
        model = Member
        fields = (
            "group",
            "rank",
            "phase",
            "node",
            "planned",
            "given",
            "differs",
            "planned_islands",
            "given_islands",
        )
        read_only_fields = fields

    def to_representation(self, member: Member) -> Any:
        self._devices = member_devices(member)  # once a row, for five fields
        return super().to_representation(member)

    def get_planned(self, _member: Member) -> list[str]:
        return list(self._devices.planned)

    def get_given(self, _member: Member) -> list[str] | None:
        return list(self._devices.given) or None

    def get_differs(self, _member: Member) -> bool:
        return self._devices.differ

    def get_planned_islands(self, _member: Member) -> int:
        return self._devices.planned_islands

    def get_given_islands(self, _member: Member) -> int | None:
        return self._devices.given_islands or None


class HoldSerializer(StrictSerializer):
    because = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=200, help_text="Why, for others."
    )


class ExtendSerializer(StrictSerializer):
    walltime_seconds = serializers.IntegerField(
        min_value=1,
        max_value=LONGEST_WALLTIME,
        help_text="The longest run in all, counted from its start.",
    )


class JobEventSerializer(serializers.ModelSerializer[JobEvent]):
    """One step in the life of a job."""

    actor = serializers.SlugRelatedField[User](
        slug_field="username", read_only=True, allow_null=True
    )

    class Meta:
        model = JobEvent
        fields = ("at", "from_state", "to_state", "reason", "actor")
        read_only_fields = fields


class ExplanationSerializer(serializers.Serializer[Explanation]):
    """Why a job waits, until when and what would help; the numbers, and when they were found."""

    state = serializers.ChoiceField(choices=JobState.choices, read_only=True)
    since = serializers.DateTimeField(read_only=True, help_text="In this state since.")
    evaluated_at = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="The last cycle that looked at it."
    )
    reason = ReasonSerializer(read_only=True, allow_null=True)
    position = PositionSerializer(read_only=True, allow_null=True)
    start = StartSerializer(read_only=True, allow_null=True)
    record = RecordSerializer(read_only=True, allow_null=True)
    would_help = HelpSerializer(
        many=True,
        read_only=True,
        allow_null=True,
        help_text="Null while it is being looked for: ask again after Retry-After.",
    )
    is_complete = serializers.BooleanField(
        read_only=True, help_text="Whether the search came to its end within its time."
    )
    checked_at = serializers.DateTimeField(read_only=True, allow_null=True)
    facts = FactSerializer(many=True, read_only=True)
    stops = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="How it last made room for another job, and who made room for it: sentences.",
    )


class ArraySerializer(serializers.ModelSerializer[JobArray]):
    """A job that was submitted so many times; its tasks are jobs, found by `array`."""

    id = serializers.CharField(source="public_id", read_only=True)
    tenant = serializers.CharField(source="tenant.slug", read_only=True)
    cluster = serializers.CharField(source="cluster.slug", read_only=True)
    owner = serializers.CharField(source="owner.username", read_only=True)
    tasks = serializers.IntegerField(source="size", read_only=True)
    states = serializers.SerializerMethodField(help_text="How many tasks are in each state.")

    class Meta:
        model = JobArray
        fields = (
            "id",
            "name",
            "tenant",
            "cluster",
            "owner",
            "tasks",
            "at_once",
            "states",
            "external_id",
            "submitted_at",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.DictField(child=serializers.IntegerField()))
    def get_states(self, array: JobArray) -> dict[str, int]:
        counts = {state.value: getattr(array, f"count_{state}") for state in JobState}
        return {state: count for state, count in counts.items() if count}
