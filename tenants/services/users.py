"""People's accounts: made, changed, closed and opened again by operators."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.acting import refuse_while_acting
from portal.core.errors import Conflict, Refused
from portal.core.locks import hold_name
from tenants.access import require_operator
from tenants.models import User
from tenants.services.sign_in import make_sign_in_link, void_sign_in_links

LINK_LIFE = timedelta(days=2)  # of a link that an operator hands out
_SHOWN = ("first_name", "last_name", "email", "is_operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserWish:
    """Of an account. username: never changed later."""

    username: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    is_operator: bool = False


@transaction.atomic
def create_user(wish: UserWish, *, by: User) -> User:
    """An account without a password: its owner comes in by a link and chooses one.

    Raises NotAllowed for all but operators; Refused for a name or an address that will not do;
    Conflict for a name that is taken.
    """
    require_operator(by)
    user = new_account(wish)
    after = {"username": user.username} | _columns(wish)
    audit.record("create_user", user, by=by, after=after)
    return user


def new_account(wish: UserWish) -> User:
    """The row of an account without a password; who may make one, and its audit line, is the
    caller's to see to. Raises Refused and Conflict as `create_user`.
    """
    name = User.normalize_username(wish.username)  # as the form to sign in reads what is typed
    _check(UnicodeUsernameValidator(), name, field="username")
    _check_email(wish.email)
    hold_name(f"user:{name.casefold()}")  # until the commit: the second one finds the first's
    if User.objects.filter(username__iexact=name).exists():
        raise Conflict(_("Somebody has that user name already."), field="username")
    user = User(username=name, **_columns(wish))
    user.set_unusable_password()
    user.save()
    return user


@transaction.atomic
def change_user(user: User, wish: UserWish, *, by: User) -> None:
    """Have an account say what `wish` says. Raises as create_user does.

    Refused, too, for the last operator who would be one no longer.
    """
    require_operator(by)
    _check_email(wish.email)
    locked = _locked_with_operators(user)
    if locked.is_operator and not wish.is_operator:
        _keep_an_operator(locked)
    before = {name: getattr(locked, name) for name in _SHOWN}
    after = _columns(wish)
    if before == after:
        return
    for name, value in after.items():
        setattr(locked, name, value)
    locked.save(update_fields=[*after])
    audit.record("change_user", locked, by=by, before=before, after=after)


@transaction.atomic
def deactivate_user(user: User, *, by: User) -> None:
    """Close an account: its tokens open nothing and it can sign in no more; its jobs run on.

    Links that would let it in are void for good. Raises NotAllowed for all but operators; Refused
    for one's own and the last operator's.
    """
    require_operator(by)
    if user.pk == by.pk:
        raise Refused(_("You cannot close your own account: ask another operator."))
    locked = _locked_with_operators(user)
    if not locked.is_active:
        return
    if locked.is_operator:
        _keep_an_operator(locked)
    void_sign_in_links(locked)
    _set_active(locked, "deactivate_user", by=by, is_active=False)


@transaction.atomic
def activate_user(user: User, *, by: User) -> None:
    """Open a closed account again. Raises NotAllowed for all but operators."""
    require_operator(by)
    locked = _locked(user)
    if not locked.is_active:
        _set_active(locked, "activate_user", by=by, is_active=True)


@transaction.atomic
def reset_by_link(user: User, *, by: User, at: datetime, base_url: str) -> str:
    """The address that lets `user` in once, to choose a password.

    The old password and links from before are void at once.

    at: wall clock. Raises NotAllowed for all but operators; Refused for a closed account.
    """
    require_operator(by)
    locked = _locked(user)
    if not locked.is_active:
        raise Refused(_("This account is closed; open it first."))
    locked.set_unusable_password()
    locked.save(update_fields=["password"])
    void_sign_in_links(locked)
    audit.record("reset_password", locked, by=by, after={"by": "link"})
    return make_sign_in_link(locked, at=at, base_url=base_url, life=LINK_LIFE)


@transaction.atomic
def choose_password(user: User, password: str) -> None:
    """Give `user` the password that they chose.

    Raises Refused for one that is easily guessed, NotAllowed for who acts in their name.
    """
    refuse_while_acting()
    try:
        validate_password(password, user)
    except ValidationError as weak:
        raise Refused(" ".join(weak.messages), field="password") from weak
    locked = _locked(user)
    locked.set_password(password)
    locked.save(update_fields=["password"])
    user.password = locked.password
    audit.record("choose_password", locked, by=user)


def _set_active(user: User, action: str, *, by: User, is_active: bool) -> None:
    user.is_active = is_active
    user.save(update_fields=["is_active"])
    audit.record(action, user, by=by, before={"active": not is_active}, after={"active": is_active})


def _locked(user: User) -> User:
    """No key: who is locked may be named by audit lines of others meanwhile."""
    return User.objects.select_for_update(no_key=True).get(pk=user.pk)


def _locked_with_operators(user: User) -> User:
    """All operators are held, in the order of keys: two of them cannot put each other out."""
    held = User.objects.select_for_update(no_key=True).order_by("pk")
    return next(
        own for own in held.filter(Q(pk=user.pk) | Q(is_operator=True)) if own.pk == user.pk
    )


def _keep_an_operator(user: User) -> None:
    """Refuse to lose the last operator."""
    operators = User.objects.filter(is_operator=True, is_active=True)
    if list(operators.values_list("pk", flat=True)) == [user.pk]:
        raise Refused(_("The portal needs an operator: name another one first."))


def _columns(wish: UserWish) -> dict[str, Any]:
    return {
        "first_name": wish.first_name.strip(),
        "last_name": wish.last_name.strip(),
        "email": wish.email.strip(),
        "is_operator": wish.is_operator,
    }


def _check_email(email: str) -> None:
    if email.strip():
        _check(validate_email, email.strip(), field="email")


def _check(validate: Any, value: str, *, field: str) -> None:
    try:
        validate(value)
    except ValidationError as wrong:
        raise Refused(" ".join(wrong.messages), field=field) from wrong
