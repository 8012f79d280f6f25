"""Tokens of programs: `mst_<prefix>_<secret>`. The prefix finds the row, the secret proves it."""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.acting import refuse_while_acting
from portal.core.errors import NotAllowed, Refused
from tenants.models import ApiToken, User

SCOPES = (
    "jobs:read",
    "jobs:write",
    "nodes:read",
    "tenants:read",
    "tenants:write",
    "quotas:read",
    "quotas:write",
    "quota-requests:read",
    "quota-requests:write",
    "tokens:read",
    "tokens:write",
    "metrics:read",
)
LONGEST_LIFE = timedelta(days=365)
USE_NOTED_EVERY = timedelta(minutes=1)
_PREFIX_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_PREFIX_LENGTH = 8
_SHAPE = re.compile(r"mst_([0-9a-z]{1,12})_([0-9a-f]{40})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A token to be. within: the token that asks for it, which can hand on no more than it has."""

    name: str
    scopes: Sequence[str]
    expires_at: datetime
    within: ApiToken | None = None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token and its secret, which nobody can ever read again."""

    token: ApiToken
    secret: str


@transaction.atomic
def create_token(request: TokenRequest, *, by: User, at: datetime) -> NewToken:
    """A token that acts for `by`. Raises Refused, NotAllowed. at: wall clock."""
    refuse_while_acting()
    _check(request, at=at)
    prefix = "".join(secrets.choice(_PREFIX_LETTERS) for _letter in range(_PREFIX_LENGTH))
    secret = secrets.token_hex(20)
    token = ApiToken.objects.create(
        user=by,
        name=request.name,
        prefix=prefix,
        digest=digest_of(secret),
        scopes=sorted(set(request.scopes)),
        created_at=at,
        expires_at=request.expires_at,
    )
    after = {"name": token.name, "scopes": token.scopes, "expires_at": token.expires_at.isoformat()}
    audit.record("create_token", token, by=by, after=after)
    return NewToken(token, f"mst_{prefix}_{secret}")


def _check(request: TokenRequest, *, at: datetime) -> None:
    if not request.name.strip():
        raise Refused(_("Name the token after what will use it."), field="name")
    unknown = sorted(set(request.scopes) - set(SCOPES))
    if unknown or not request.scopes:
        raise Refused(_("Choose one or more of the scopes %s.") % ", ".join(SCOPES), field="scopes")
    if not at < request.expires_at <= at + LONGEST_LIFE:
        raise Refused(_("A token lives for a year at most."), field="expires_at")
    if request.within is not None:
        _check_within(request, request.within)


def _check_within(request: TokenRequest, within: ApiToken) -> None:
    more = sorted(set(request.scopes) - set(within.scopes))
    if more or request.expires_at > within.expires_at:
        raise NotAllowed(
            _("A token can make no token that reaches further or lives longer than itself."),
            field="scopes" if more else "expires_at",
        )


@transaction.atomic
def revoke_token(token: ApiToken, *, by: User, at: datetime) -> None:
    """End `token` now. Revoked twice it stays as it was. Raises NotAllowed for another's token."""
    if token.user_id != by.pk and not by.is_operator:
        raise NotAllowed(_("Only its owner or an operator may revoke a token."))
    if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=at):
        token.revoked_at = at
        audit.record("revoke_token", token, by=by, before={"name": token.name})


def user_of_token(text: str, *, at: datetime) -> ApiToken | None:
    """The living token that `text` spells, its user loaded; None for any other text.

    Notes the use, but once a minute at most: a busy program is not a write per request.
    """
    parts = _SHAPE.fullmatch(text)
    if parts is None:
        return None
    prefix, secret = parts.groups()
    token = ApiToken.objects.select_related("user").filter(prefix=prefix).first()
    # Compared also where there is no row, so that the time taken says nothing about prefixes.
    known = token.digest if token is not None else digest_of("")
    is_right = secrets.compare_digest(digest_of(secret), known)
    if token is None or not is_right or not _is_alive(token, at=at):
        return None
    _note_use(token, at=at)
    return token


def _is_alive(token: ApiToken, *, at: datetime) -> bool:
    return token.revoked_at is None and token.expires_at > at and token.user.is_active


def _note_use(token: ApiToken, *, at: datetime) -> None:
    if token.last_used_at is not None and at - token.last_used_at < USE_NOTED_EVERY:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lte=at - USE_NOTED_EVERY)
    ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=at)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
