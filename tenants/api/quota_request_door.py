from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from portal.core.api.doors import Listing, Reading
from portal.core.api.idempotency import IDEMPOTENCY_KEY, once
from portal.core.api.queries import ListQuery
from tenants.api.quota_requests import (
    ApproveSerializer,
    CounterSerializer,
    HandBackSerializer,
    PatchQuotaRequestSerializer,
    QuotaRequestEventSerializer,
    QuotaRequestSerializer,
    StepSerializer,
    WriteQuotaRequestSerializer,
    as_written,
    counter_of,
    offer_of,
)
from tenants.models import QuotaRequest, QuotaRequestEvent
from tenants.services import quota_decisions as operators_do
from tenants.services import quota_requests as tenants_do
from tenants.services.quota_decisions import Decider
from tenants.states import RequestState


class QuotaRequestQuery(ListQuery):
    state = serializers.ListField(
        child=serializers.ChoiceField(choices=RequestState.choices),
        required=False,
        help_text="In one of these states; repeatable.",
    )
    tenant = serializers.ListField(
        child=serializers.SlugField(), required=False, help_text="Of these tenants; repeatable."
    )


class QuotaRequestDoor(Listing, Reading):
    """Requests for quota of the caller's tenants."""

    scope = "quota-requests"
    serializer_class = QuotaRequestSerializer
    serializer_classes = {"events": QuotaRequestEventSerializer}
    query_kinds = {"list": QuotaRequestQuery, "events": ListQuery}
    default_order = "-id"
    lookup_url_kwarg = "request_id"
    lookup_value_regex = "Q-[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[QuotaRequest]:
        return QuotaRequest.objects.visible_to(self.request.user).select_related(
            "tenant", "cluster", "flavor", "requested_by", "replaces", "grant__flavor"
        )

    def get_object(self) -> QuotaRequest:
        return get_object_or_404(self.get_queryset(), pk=int(self.kwargs["request_id"][2:]))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        rows = self.get_queryset()
        if "state" in self.query:
            rows = rows.filter(state__in=self.query["state"])
        if "tenant" in self.query:
            rows = rows.filter(tenant__slug__in=self.query["tenant"])
        return self.page_of(rows)

    @extend_schema(
        parameters=[IDEMPOTENCY_KEY],
        request=WriteQuotaRequestSerializer,
        responses={201: QuotaRequestSerializer},
    )
    def create(self, request: Request) -> Response:
        """Write a draft; `submit` sends it to the operators."""
        return once(request, lambda: self._draft(request))

    def _draft(self, request: Request) -> Response:
        form = self._read(WriteQuotaRequestSerializer)
        tenant = form.validated_data["tenant"]
        draft = tenants_do.draft_request(
            form.wish(), tenant=tenant, by=request.user, at=timezone.now()
        )
        data = self.get_serializer(self.get_queryset().get(pk=draft.pk)).data
        return self.created(data, self.reverse_action("detail", args=[draft.public_id]))

    @extend_schema(request=PatchQuotaRequestSerializer, responses=QuotaRequestSerializer)
    def partial_update(self, request: Request, **kwargs: Any) -> Response:
        """Change a draft; what is not named stays as it is."""
        patch = self._read(PatchQuotaRequestSerializer).initial_data
        form = self._read(WriteQuotaRequestSerializer, as_written(self.thing) | patch)
        tenants_do.change_draft(self.thing, form.wish(), by=request.user)
        return self.one(self.get_object())

    def destroy(self, request: Request, **kwargs: Any) -> Response:
        """Withdraw it, as long as nothing is granted. It stays to be read."""
        tenants_do.withdraw_request(self.thing, by=request.user, at=timezone.now())
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=StepSerializer, responses=QuotaRequestSerializer)
    @action(detail=True, methods=["post"])
    def submit(self, request: Request, **kwargs: Any) -> Response:
        """Send a draft to the operators."""
        seen = self._read(StepSerializer).validated_data["version"]
        tenants_do.submit_request(self.thing, by=request.user, at=timezone.now(), seen=seen)
        return self.one(self.get_object())

    @extend_schema(request=StepSerializer, responses=QuotaRequestSerializer)
    @action(detail=True, methods=["post"])
    def answer(self, request: Request, **kwargs: Any) -> Response:
        """Answer an operator's question, in `note`."""
        said = self._read(StepSerializer).validated_data
        tenants_do.answer_question(
            self.thing, said["note"], by=request.user, at=timezone.now(), seen=said["version"]
        )
        return self.one(self.get_object())

    @extend_schema(request=StepSerializer, responses=QuotaRequestSerializer)
    @action(detail=True, methods=["post"])
    def accept(self, request: Request, **kwargs: Any) -> Response:
        """Take a counter-offer."""
        seen = self._read(StepSerializer).validated_data["version"]
        tenants_do.accept_offer(self.thing, by=request.user, at=timezone.now(), seen=seen)
        return self.one(self.get_object())

    @extend_schema(request=StepSerializer, responses=QuotaRequestSerializer)
    @action(detail=True, methods=["post"])
    def decline(self, request: Request, **kwargs: Any) -> Response:
        """Turn a counter-offer down, which ends the request."""
        said = self._read(StepSerializer).validated_data
        tenants_do.decline_offer(
            self.thing, said["note"], by=request.user, at=timezone.now(), seen=said["version"]
        )
        return self.one(self.get_object())

    @extend_schema(
        parameters=[IDEMPOTENCY_KEY], request=ApproveSerializer, responses=QuotaRequestSerializer
    )
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, **kwargs: Any) -> Response:
        """Grant what was asked for, if it is left to guarantee. For operators."""
        return once(request, self._approve)

    def _approve(self) -> Response:
        form = self._read(ApproveSerializer)
        operators_do.approve_request(
            self.thing,
            offer_of(self.thing, form),
            self._decider(form),
            overcommit=form.validated_data["overcommit"],
        )
        return self.one(self.get_object())

    @extend_schema(request=CounterSerializer, responses=QuotaRequestSerializer)
    @action(detail=True, methods=["post"])
    def counter(self, request: Request, **kwargs: Any) -> Response:
        """Offer other terms, which the tenant takes or leaves. For operators."""
        form = self._read(CounterSerializer)
        operators_do.counter_offer(self.thing, counter_of(self.thing, form), self._decider(form))
        return self.one(self.get_object())

    @extend_schema(request=StepSerializer, responses=QuotaRequestSerializer)
    @action(detail=True, methods=["post"])
    def ask(self, request: Request, **kwargs: Any) -> Response:
        """Ask the tenant something first, in `note`. For operators."""
        operators_do.ask_question(self.thing, self._decider(self._read(StepSerializer)))
        return self.one(self.get_object())

    @extend_schema(request=StepSerializer, responses=QuotaRequestSerializer)
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, **kwargs: Any) -> Response:
        """Say no, and why, in `note`. For operators."""
        operators_do.reject_request(self.thing, self._decider(self._read(StepSerializer)))
        return self.one(self.get_object())

    @extend_schema(request=StepSerializer, responses=QuotaRequestSerializer)
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, **kwargs: Any) -> Response:
        """Take a grant back before its end, and say why, in `note`. For operators."""
        operators_do.revoke_grant(self.thing, self._decider(self._read(StepSerializer)))
        return self.one(self.get_object())

    @extend_schema(request=HandBackSerializer, responses=QuotaRequestSerializer)
    @action(detail=True, methods=["post"], url_path="hand-back")
    def hand_back(self, request: Request, **kwargs: Any) -> Response:
        """Give GPUs of a grant back now. Nothing is stopped by it."""
        gpus = self._read(HandBackSerializer).validated_data["gpus"]
        tenants_do.hand_back(self.thing, gpus, by=request.user, at=timezone.now())
        return self.one(self.get_object())

    @extend_schema(responses=QuotaRequestEventSerializer(many=True))
    @action(detail=True)
    def events(self, request: Request, **kwargs: Any) -> Response:
        """Who did what, when and why, oldest first."""
        events = QuotaRequestEvent.objects.filter(request=self.thing).select_related("actor")
        return self.page_of(events, order="id")

    def _read(self, kind: type[Any], body: Any = None) -> Any:
        """The body, or `body`, as `kind` understands it; raises ValidationError."""
        data = self.request.data if body is None else body
        form = kind(data=data, context=self.get_serializer_context())
        form.is_valid(raise_exception=True)
        return form

    def _decider(self, form: StepSerializer) -> Decider:
        said = form.validated_data
        return Decider(
            by=self.request.user, at=timezone.now(), seen=said["version"], note=said["note"]
        )
