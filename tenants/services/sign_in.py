"""One-time links that sign a person in: for the first minute of a demo and a lost password."""

import secrets
from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Refused
from tenants.models import SignInLink, User
from tenants.services.tokens import digest_of

LIFE = timedelta(minutes=15)
PATH = "/sign-in/link/{secret}/"


class LinkSpent(Refused):
    """Used, expired or never made: the caller cannot tell which."""

    code = "link_spent"


@transaction.atomic
def make_sign_in_link(user: User, *, at: datetime, base_url: str, life: timedelta = LIFE) -> str:
    """The full URL that signs `user` in, once, until `life` is over. at: wall clock."""
    secret = secrets.token_urlsafe(24)
    link = SignInLink.objects.create(user=user, digest=digest_of(secret), expires_at=at + life)
    audit.record("make_sign_in_link", link, by=None, after={"user": user.username})
    return base_url.rstrip("/") + PATH.format(secret=secret)


def void_sign_in_links(user: User) -> None:
    """Links of `user` that nobody has used yet open nothing any more."""
    SignInLink.objects.filter(user=user, used_at=None).delete()


@transaction.atomic
def use_sign_in_link(secret: str, *, at: datetime) -> User:
    """The person whom the link signs in; of two callers one gets it. Raises LinkSpent."""
    digest = digest_of(secret)
    # No other table: conditions in a subquery are not looked at again after waiting for the row.
    unused = SignInLink.objects.filter(digest=digest, used_at=None, expires_at__gt=at)
    is_ours = bool(unused.update(used_at=at))
    link = SignInLink.objects.select_related("user").get(digest=digest) if is_ours else None
    if link is None or not link.user.is_active:
        raise LinkSpent(_("This link has been used or has expired; ask for a new one."))
    audit.record("use_sign_in_link", link, by=link.user)
    return link.user
