from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from tenants.models import ApiToken, User
from tenants.services.tokens import user_of_token


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer mst_…`: the request is its user's, within the token's scopes."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _space, text = get_authorization_header(request).partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        token = user_of_token(text.decode("latin-1").strip(), at=timezone.now())
        if token is None:
            raise AuthenticationFailed(_("This token is unknown, expired or revoked."))
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class TokenScheme(OpenApiAuthenticationExtension):
    """How the OpenAPI document names it."""

    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "mst_<prefix>_<secret>"}
