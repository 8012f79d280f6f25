from typing import Any

from django.utils.translation import gettext as _
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from portal.core.errors import NotAllowed


class HasScope(BasePermission):
    """Whether a token reaches this far: `<scope>:read` to look, `<scope>:write` to change.

    A session is its user and has every scope; a view without a scope takes any token.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        token: Any = request.auth
        if token is None or not view.scope:
            return True
        verb = "read" if request.method in SAFE_METHODS else "write"
        wanted = f"{view.scope}:{verb}"
        if wanted not in token.scopes:
            message = _("This token lacks the scope %s; make one that has it.")
            raise NotAllowed(message % wanted)
        return True
