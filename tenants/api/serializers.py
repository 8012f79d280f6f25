from typing import Any

from django.utils import timezone
from rest_framework import serializers

from portal.core.api.queries import StrictSerializer
from tenants.models import ApiToken, Membership, Quota, Role, Tenant, User
from tenants.services.tokens import LONGEST_LIFE, SCOPES, TokenRequest


class RoleField(serializers.ChoiceField):
    """A role by its name: viewer, researcher, lead."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=[role.name.lower() for role in Role], **kwargs)

    def to_representation(self, value: int) -> str:
        return Role(value).name.lower()


class OwnMembershipSerializer(serializers.ModelSerializer[Membership]):
    tenant = serializers.SlugRelatedField[Tenant](slug_field="slug", read_only=True)
    role = RoleField(read_only=True)

    class Meta:
        model = Membership
        fields = ("tenant", "role")
        read_only_fields = fields


class MeSerializer(serializers.ModelSerializer[User]):
    name = serializers.CharField(source="get_full_name", read_only=True)
    memberships = OwnMembershipSerializer(many=True, read_only=True)
    scopes = serializers.SerializerMethodField(help_text="Of the token; null in a session.")

    class Meta:
        model = User
        fields = (
            "username",
            "name",
            "email",
            "is_operator",
            "language",
            "time_zone",
            "memberships",
            "scopes",
        )
        read_only_fields = fields

    def get_scopes(self, user: User) -> list[str] | None:
        token = self.context["request"].auth
        return None if token is None else token.scopes


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A token without its secret."""

    id = serializers.CharField(source="prefix", read_only=True)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=SCOPES), read_only=True)

    class Meta:
        model = ApiToken
        fields = (
            "id",
            "name",
            "scopes",
            "created_at",
            "expires_at",
            "last_used_at",
            "revoked_at",
        )
        read_only_fields = fields


class NewTokenSerializer(TokenSerializer):
    """A new token: `secret` is shown this once and kept nowhere."""

    secret = serializers.CharField(read_only=True)

    class Meta(TokenSerializer.Meta):
        fields = (*TokenSerializer.Meta.fields, "secret")
        read_only_fields = fields


class CreateTokenSerializer(StrictSerializer):
    """What a new token may do. Without `expires_at` it lives for a year."""

    name = serializers.CharField(max_length=80)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=SCOPES), allow_empty=False, max_length=len(SCOPES)
    )
    expires_at = serializers.DateTimeField(required=False)

    def to_request(self) -> TokenRequest:
        values = self.validated_data
        within: ApiToken | None = self.context["request"].auth
        latest = timezone.now() + LONGEST_LIFE if within is None else within.expires_at
        return TokenRequest(
            name=values["name"],
            scopes=values["scopes"],
            expires_at=values.get("expires_at", latest),
            within=within,
        )


class TenantSerializer(serializers.ModelSerializer[Tenant]):
    cohort = serializers.SlugRelatedField[Any](slug_field="name", read_only=True, allow_null=True)
    highest_priority = serializers.SlugRelatedField[Any](
        slug_field="name", read_only=True, allow_null=True
    )

    class Meta:
        model = Tenant
        fields = (
            "slug",
            "name",
            "description",
            "cohort",
            "weight",
            "is_strict",
            "highest_priority",
            "archived_at",
        )
        read_only_fields = fields


class QuotaSerializer(serializers.ModelSerializer[Quota]):
    """GPUs that a tenant (or a cohort) may use of one flavor. A limit of null is no limit."""

    tenant = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, allow_null=True)
    cohort = serializers.SlugRelatedField[Any](slug_field="name", read_only=True, allow_null=True)
    cluster = serializers.CharField(source="flavor.cluster.slug", read_only=True)
    flavor = serializers.CharField(source="flavor.name", read_only=True)
    nominal_gpus = serializers.IntegerField(source="nominal", read_only=True)
    borrowing_limit_gpus = serializers.IntegerField(
        source="borrowing_limit", read_only=True, allow_null=True
    )
    lending_limit_gpus = serializers.IntegerField(
        source="lending_limit", read_only=True, allow_null=True
    )
    granted_gpus = serializers.IntegerField(
        source="granted", read_only=True, help_text="Of the nominal ones: from grants, with an end."
    )

    class Meta:
        model = Quota
        fields = (
            "id",
            "tenant",
            "cohort",
            "cluster",
            "flavor",
            "nominal_gpus",
            "borrowing_limit_gpus",
            "lending_limit_gpus",
            "granted_gpus",
        )
        read_only_fields = fields
