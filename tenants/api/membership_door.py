from dataclasses import fields, replace
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from portal.core.api.doors import Listing, Reading
from portal.core.api.fields import NamedField
from portal.core.api.queries import StrictSerializer
from tenants.access import require_role
from tenants.api.serializers import RoleField
from tenants.models import Membership, PriorityClass, Role, Tenant, User
from tenants.services.membership import (
    MOST,
    Caps,
    add_member,
    caps_of,
    remove_member,
    set_caps,
    set_role,
)


class UserField(NamedField):
    name_field = "username"

    def rows(self) -> QuerySet[User]:
        return User.objects.filter(is_active=True)


class MembershipSerializer(serializers.ModelSerializer[Membership]):
    """A person in a tenant, with a role, and what they may ask for at most; null is no limit."""

    user = serializers.CharField(source="user.username", read_only=True)
    name = serializers.CharField(source="user.get_full_name", read_only=True)
    role = RoleField(read_only=True)
    highest_priority = serializers.SlugRelatedField[Any](
        slug_field="name", read_only=True, allow_null=True
    )

    class Meta:
        model = Membership
        fields = ("user", "name", "role", "gpus_at_once", "job_hours", "highest_priority")
        read_only_fields = fields


class AddMemberSerializer(StrictSerializer):
    user = UserField()
    role = RoleField()


class HighestField(NamedField):
    name_field = "name"

    def rows(self) -> QuerySet[PriorityClass]:
        return PriorityClass.objects.offered()


class CapsSerializer(StrictSerializer):
    """What somebody may ask for at most; null is no limit."""

    gpus_at_once = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MOST,
        help_text="That all jobs of this person hold together, in each cluster.",
    )
    job_hours = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=MOST
    )
    highest_priority = HighestField(
        required=False, allow_null=True, help_text="The name of a class."
    )

    def caps(self, present: Caps) -> Caps:
        """`present`, but for what was said."""
        names = [field.name for field in fields(Caps) if field.name in self.validated_data]
        return replace(present, **{name: self.validated_data[name] for name in names})


class ChangeMemberSerializer(CapsSerializer):
    """What is left out stays as it is."""

    role = RoleField(required=False)


class MembershipDoor(Listing, Reading):
    """Who is in a tenant. Its leads change that; jobs of who is put out stay the tenant's."""

    scope = "tenants"
    serializer_class = MembershipSerializer
    lookup_field = "user__username"
    lookup_url_kwarg = "username"
    lookup_value_regex = r"[\w.@+-]{1,150}"

    def get_queryset(self) -> QuerySet[Membership]:
        tenants = Tenant.objects.visible_to(self.request.user)
        tenant = get_object_or_404(tenants, slug=self.kwargs["slug"])
        return Membership.objects.filter(tenant=tenant).select_related(
            "user", "tenant", "highest_priority"
        )

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.get_queryset()  # a tenant that is not the caller's is not there, whatever is asked

    @extend_schema(request=AddMemberSerializer, responses={201: MembershipSerializer})
    def create(self, request: Request, **kwargs: Any) -> Response:
        """Let somebody in who has an account. For leads."""
        tenant = Tenant.objects.get(slug=self.kwargs["slug"])
        require_role(request.user, tenant, Role.LEAD)  # before it is told who has an account
        form = AddMemberSerializer(data=request.data, context=self.get_serializer_context())
        form.is_valid(raise_exception=True)
        user, role = form.validated_data["user"], role_called(form.validated_data["role"])
        added = add_member(tenant, user, role=role, by=request.user)
        where = self.reverse_action("detail", args=[tenant.slug, user.username])
        return self.created(self.get_serializer(added).data, where)

    @extend_schema(request=ChangeMemberSerializer, responses=MembershipSerializer)
    @transaction.atomic
    def partial_update(self, request: Request, **kwargs: Any) -> Response:
        """Give a member another role, or say what they may ask for at most. For leads.

        What runs above a limit runs on, and nothing new of that person starts meanwhile.
        """
        form = ChangeMemberSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        member = self.thing
        require_role(request.user, member.tenant, Role.LEAD)
        if "role" in form.validated_data:
            set_role(member, role_called(form.validated_data["role"]), by=request.user)
        set_caps(member, form.caps(caps_of(member)), by=request.user)
        return self.one(self.get_object())

    def destroy(self, request: Request, **kwargs: Any) -> Response:
        """Put a member out. For leads."""
        remove_member(self.thing, by=request.user)
        return Response(status=status.HTTP_204_NO_CONTENT)


def role_called(name: str) -> Role:
    """The role that a RoleField names."""
    return Role[name.upper()]
