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
from tenants.access import require_role
from tenants.api.membership_door import CapsSerializer, role_called
from tenants.api.serializers import RoleField
from tenants.models import Invitation, Role, Tenant
from tenants.services.invitations import (
    MOST_AT_ONCE,
    Outcome,
    invite,
    open_invitations,
    resend,
    withdraw,
)
from tenants.services.membership import Caps


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    """An address that was asked into a tenant; whether it has an account is not told."""

    role = RoleField(read_only=True)
    invited_by = serializers.CharField(source="invited_by.username", read_only=True)
    highest_priority = serializers.SlugRelatedField[Any](
        slug_field="name", read_only=True, allow_null=True
    )

    class Meta:
        model = Invitation
        fields = (
            "id",
            "email",
            "role",
            "gpus_at_once",
            "job_hours",
            "highest_priority",
            "invited_by",
            "asked_at",
            "expires_at",
            "mailed_at",
        )
        read_only_fields = fields


class InviteSerializer(CapsSerializer):
    emails = serializers.ListField(
        child=serializers.CharField(max_length=1000), allow_empty=False, max_length=MOST_AT_ONCE
    )
    role = RoleField()


class InvitedSerializer(serializers.Serializer[Any]):
    """What became of one address."""

    email = serializers.CharField(source="text")
    outcome = serializers.ChoiceField(choices=[outcome.value for outcome in Outcome])


class InvitedListSerializer(serializers.Serializer[Any]):
    items = InvitedSerializer(many=True)


class InvitationDoor(Listing, Reading):
    """Open invitations into a tenant, for its leads."""

    scope = "tenants"
    serializer_class = InvitationSerializer
    lookup_url_kwarg = "invited"
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Invitation]:
        tenant = self._tenant()
        require_role(self.request.user, tenant, Role.LEAD)
        rows = open_invitations(tenant)
        return rows.select_related("tenant", "invited_by", "highest_priority")

    def _tenant(self) -> Tenant:
        tenants = Tenant.objects.visible_to(self.request.user)
        return get_object_or_404(tenants, slug=self.kwargs["slug"])

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.get_queryset()  # a tenant that is not the caller's is not there, whatever is asked

    @extend_schema(request=InviteSerializer, responses={200: InvitedListSerializer})
    def create(self, request: Request, **kwargs: Any) -> Response:
        """Invite addresses by mail, and say of each what became of it."""
        form = InviteSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        lines = invite(
            self._tenant(),
            form.validated_data["emails"],
            role=role_called(form.validated_data["role"]),
            caps=form.caps(Caps()),
            by=request.user,
            at=timezone.now(),
        )
        return Response(InvitedListSerializer({"items": lines}).data)

    def destroy(self, request: Request, **kwargs: Any) -> Response:
        """Withdraw it: its link opens nothing any more."""
        withdraw(self.thing, by=request.user, at=timezone.now())
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None, responses=InvitationSerializer)
    @action(detail=True, methods=["post"])
    def resend(self, request: Request, **kwargs: Any) -> Response:
        """Mail it again with a new link, not before ten minutes have passed."""
        resend(self.thing, by=request.user, at=timezone.now())
        return self.one(self.get_object())
