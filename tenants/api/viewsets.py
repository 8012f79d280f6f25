from typing import Any

from django.db.models import Prefetch, QuerySet, prefetch_related_objects
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from portal.core.api.doors import Door, Listing, Reading
from portal.core.api.queries import ListQuery, OneQuery
from tenants.api.quota_requests import HandBackSerializer
from tenants.api.serializers import (
    CreateTokenSerializer,
    MeSerializer,
    NewTokenSerializer,
    QuotaSerializer,
    TenantSerializer,
    TokenSerializer,
)
from tenants.models import ApiToken, Membership, Quota, Tenant
from tenants.services.quota_requests import hand_back_quota
from tenants.services.tokens import create_token, revoke_token


class QuotaQuery(ListQuery):
    tenant = serializers.ListField(
        child=serializers.SlugField(), required=False, help_text="Of these tenants; repeatable."
    )


class MeDoor(Door):
    """Who is asking: the person, their tenants, and how far this token reaches."""

    serializer_class = MeSerializer
    query_kinds = {"me": OneQuery}

    @extend_schema(operation_id="me_retrieve", responses=MeSerializer)
    def me(self, request: Request) -> Response:
        memberships = Membership.objects.select_related("tenant").order_by("tenant__slug")
        prefetch_related_objects([request.user], Prefetch("memberships", memberships))
        return self.one(request.user)


class TokenDoor(Listing, Reading):
    """The caller's own tokens. A secret is shown once, in the answer to its making."""

    scope = "tokens"
    serializer_class = TokenSerializer
    default_order = "-created_at"
    lookup_field = "prefix"
    lookup_value_regex = "[0-9a-z]+"

    def get_queryset(self) -> QuerySet[ApiToken]:
        return ApiToken.objects.filter(user=self.request.user)

    @extend_schema(request=CreateTokenSerializer, responses={201: NewTokenSerializer})
    def create(self, request: Request) -> Response:
        form = CreateTokenSerializer(data=request.data, context=self.get_serializer_context())
        form.is_valid(raise_exception=True)
        made = create_token(form.to_request(), by=request.user, at=timezone.now())
        made.token.secret = made.secret
        data = NewTokenSerializer(made.token).data
        return self.created(data, self.reverse_action("detail", args=[made.token.prefix]))

    def destroy(self, request: Request, **kwargs: Any) -> Response:
        """Revoke it: from now on it opens nothing."""
        revoke_token(self.thing, by=request.user, at=timezone.now())
        return Response(status=status.HTTP_204_NO_CONTENT)


class TenantDoor(Listing, Reading):
    """The caller's tenants."""

    scope = "tenants"
    serializer_class = TenantSerializer
    default_order = "slug"
    lookup_field = "slug"
    lookup_value_regex = "[-a-zA-Z0-9_]+"

    def get_queryset(self) -> QuerySet[Tenant]:
        tenants = Tenant.objects.visible_to(self.request.user)
        return tenants.select_related("cohort", "highest_priority")


class QuotaDoor(Listing, Reading):
    """What the caller's tenants may use."""

    scope = "quotas"
    serializer_class = QuotaSerializer
    lookup_value_regex = "[0-9]{1,18}"
    query_kinds = {"list": QuotaQuery}

    def get_queryset(self) -> QuerySet[Quota]:
        quotas = Quota.objects.visible_to(self.request.user)
        return quotas.select_related("tenant", "cohort", "flavor__cluster")

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        quotas = self.get_queryset()
        if "tenant" in self.query:
            quotas = quotas.filter(tenant__slug__in=self.query["tenant"])
        return self.page_of(quotas)

    @extend_schema(request=HandBackSerializer, responses={204: None})
    @action(detail=True, methods=["post"], url_path="hand-back")
    def hand_back(self, request: Request, **kwargs: Any) -> Response:
        """Give granted GPUs back now, of the grant that would end last first.

        Nothing is stopped by it; with the last of them a quota that only grants made is gone.
        """
        form = HandBackSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        gpus = form.validated_data["gpus"]
        hand_back_quota(self.thing, gpus, by=request.user, at=timezone.now())
        return Response(status=status.HTTP_204_NO_CONTENT)
