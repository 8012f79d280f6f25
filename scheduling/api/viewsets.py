from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from portal.core import clock
from portal.core.api.doors import Listing, Reading
from portal.core.api.idempotency import IDEMPOTENCY_KEY, once
from portal.core.api.queries import ListQuery, OneQuery
from scheduling.api.serializers import (
    ExplanationSerializer,
    ExtendSerializer,
    HoldSerializer,
    JobEventSerializer,
    JobRowSerializer,
    JobSerializer,
    MemberSerializer,
)
from scheduling.api.submission import SubmitJobSerializer
from scheduling.models import Job, JobEvent
from scheduling.reports.devices_given import placed_members
from scheduling.reports.estimates import estimate_of
from scheduling.reports.explanation import Known, explained
from scheduling.reports.search import JobSearch, jobs_seen_by
from scheduling.services.advice import fresh_advice
from scheduling.services.extending import extend_job
from scheduling.services.holding import hold_job, release_job
from scheduling.services.lifecycle import cancel_job
from scheduling.services.submission import submit_job
from scheduling.states import JobState

ORDERS = ("submitted_at", "-submitted_at", "priority", "-priority", "name", "-name")
RETRY_AFTER = "2"  # seconds: what would help is looked for meanwhile


class JobQuery(ListQuery):
    state = serializers.ListField(
        child=serializers.ChoiceField(choices=JobState.choices),
        required=False,
        help_text="In one of these states; repeatable.",
    )
    tenant = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Of these tenants; repeatable."
    )
    q = serializers.CharField(
        required=False, max_length=200, help_text="In the name, the id or the owner's name."
    )
    array = serializers.CharField(
        required=False, max_length=12, help_text="The tasks of this array."
    )
    submitted_after = serializers.DateTimeField(required=False)
    order = serializers.ChoiceField(choices=ORDERS, required=False, default="-submitted_at")


class JobDoor(Listing, Reading):
    """Jobs of the caller's tenants."""

    scope = "jobs"
    serializer_class = JobSerializer
    serializer_classes = {
        "list": JobRowSerializer,
        "events": JobEventSerializer,
        "explanation": ExplanationSerializer,
        "members": MemberSerializer,
    }
    query_kinds = {
        "list": JobQuery,
        "events": ListQuery,
        "explanation": OneQuery,
        "members": ListQuery,
    }
    default_order = "-submitted_at"
    lookup_field = "public_id"
    lookup_value_regex = "j-[0-9a-z]{1,10}"

    def get_queryset(self) -> QuerySet[Job]:
        return jobs_seen_by(self.request.user)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        asked = JobSearch(
            states=tuple(self.query.get("state", ())),
            tenants=tuple(self.query.get("tenant", ())),
            text=self.query.get("q", ""),
            array=self.query.get("array", ""),
            submitted_after=self.query.get("submitted_after"),
        )
        return self.page_of(asked.narrow(self.get_queryset()))

    @extend_schema(
        parameters=[IDEMPOTENCY_KEY], request=SubmitJobSerializer, responses={201: JobSerializer}
    )
    def create(self, request: Request) -> Response:
        """Put a job in its tenant's queue."""
        return once(request, lambda: self._submit(request))

    def _submit(self, request: Request) -> Response:
        form = SubmitJobSerializer(data=request.data, context=self.get_serializer_context())
        form.is_valid(raise_exception=True)
        tenant, asked = form.to_request()
        job = submit_job(asked, tenant=tenant, by=request.user, at=clock.now(asked.cluster))
        data = self.get_serializer(self.get_queryset().get(pk=job.pk)).data
        return self.created(data, self.reverse_action("detail", args=[job.public_id]))

    @extend_schema(request=None, responses=JobSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, **kwargs: Any) -> Response:
        """End the job: at once while it waits, else as soon as its members are gone."""
        cancel_job(self.thing, by=request.user, at=clock.now(self.thing.cluster))
        return self.one(self.get_object())

    @extend_schema(request=HoldSerializer, responses=JobSerializer)
    @action(detail=True, methods=["post"])
    def hold(self, request: Request, **kwargs: Any) -> Response:
        """Keep a waiting job from being started; it keeps its place in the queue."""
        form = HoldSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        hold_job(self.thing, by=request.user, why=form.validated_data["because"])
        return self.one(self.get_object())

    @extend_schema(request=None, responses=JobSerializer)
    @action(detail=True, methods=["post"])
    def release(self, request: Request, **kwargs: Any) -> Response:
        """Let a job that is on hold be started."""
        release_job(self.thing, by=request.user)
        return self.one(self.get_object())

    @extend_schema(request=ExtendSerializer, responses=JobSerializer)
    @action(detail=True, methods=["post"])
    def extend(self, request: Request, **kwargs: Any) -> Response:
        """Let a running job run longer, where nobody was promised its place meanwhile."""
        form = ExtendSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        job, asked = self.thing, form.validated_data["walltime_seconds"]
        extend_job(job, asked, by=request.user, at=clock.now(job.cluster))
        return self.one(self.get_object())

    @extend_schema(responses=JobEventSerializer(many=True))
    @action(detail=True)
    def events(self, request: Request, **kwargs: Any) -> Response:
        """What happened to the job, oldest first."""
        events = JobEvent.objects.filter(job=self.thing).select_related("actor")
        return self.page_of(events, order="id")

    @extend_schema(responses=MemberSerializer(many=True))
    @action(detail=True)
    def members(self, request: Request, **kwargs: Any) -> Response:
        """The members of the present attempt: where each is, on which devices, and as planned."""
        return self.page_of(placed_members(self.thing), order="id")

    @extend_schema(responses=ExplanationSerializer)
    @action(detail=True)
    def explanation(self, request: Request, **kwargs: Any) -> Response:
        """Why the job waits: a reason, numbers, its place, a likely start, and what would help."""
        job = self.thing
        known = Known(fresh_advice(job, wall=timezone.now()), estimate_of(job))
        told = explained(job, known, reader=request.user, at=clock.now(job.cluster))
        answer = self.one(told)
        if told.reason is not None and told.would_help is None:
            answer["Retry-After"] = RETRY_AFTER
        return answer
