"""Inviting people by mail: a link that joins an account to a tenant, or makes one for it.

Whoever invites is never told whether an address has an account: the answer is the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.core.exceptions import ValidationError
from django.core.signing import BadSignature, Signer
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import QuerySet, Sum
from django.db.models.functions import Lower
from django.urls import reverse
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, Refused
from portal.core.locks import hold_name
from portal.core.queueing import send_on_commit
from tenants.access import require_role
from tenants.models import Invitation, Membership, NotificationKind, Role, Tenant, User
from tenants.services.membership import Caps, check_caps
from tenants.services.notifications import Notice, notify
from tenants.services.users import UserWish, new_account

LIFE = timedelta(days=7)
AGAIN_AFTER = timedelta(minutes=10)  # before the same address is mailed again
MOST_AT_ONCE = 100  # addresses
MOST_A_DAY = 200  # mails of one tenant
LONGEST_EMAIL = 254
_SIGNER = Signer(salt="tenants.invitation")


class Outcome(StrEnum):
    """What became of one address that was pasted."""

    INVITED = "invited"
    NO_ADDRESS = "no_address"
    TWICE = "twice"
    OPEN = "open"
    MEMBER = "member"
    TOO_MANY = "too_many"


class TooMany(Refused):
    code = "too_many"


class InvitationSpent(Refused):
    """Used, withdrawn, expired, replaced by a newer mail or never made: nobody can tell which."""


@dataclass(frozen=True, slots=True)
class Line:
    """One address as it was pasted, and what became of it."""

    text: str
    outcome: Outcome


@transaction.atomic
def invite(
    tenant: Tenant, texts: Iterable[str], *, role: Role, caps: Caps, by: User, at: datetime
) -> list[Line]:
    """Invite each address, in their order; a line that cannot be leaves the others alone.

    The mails leave when it is committed. at: wall clock. Raises NotAllowed below lead, Refused for
    caps that are no amounts and for more than MOST_AT_ONCE lines.
    """
    require_role(by, tenant, Role.LEAD)
    check_caps(caps)
    if tenant.archived_at is not None:
        raise Refused(_("Tenant %s is archived and takes nobody in.") % tenant.slug)
    lines = [text.strip() for text in texts if text.strip()]
    if not 1 <= len(lines) <= MOST_AT_ONCE:
        raise Refused(_("Give 1 to %d addresses, one a line.") % MOST_AT_ONCE, field="emails")
    hold_name(f"invitations:{tenant.pk}")  # two leads cannot both have the day's last mail
    taken = _Taken.of(tenant, left=MOST_A_DAY - _mails_of_a_day(tenant, at=at))
    fresh = []
    told = []
    for text in lines:
        outcome = taken.look_at(text)
        told.append(Line(text[:LONGEST_EMAIL], outcome))
        if outcome == Outcome.INVITED:
            fresh.append(_new(tenant, text, role=role, caps=caps, by=by, at=at))
    _announce(fresh, at=at)
    return told


@dataclass(slots=True)
class _Taken:
    """Addresses that cannot be invited again, in lower case, and how many mails are left."""

    members: set[str]
    open: set[str]
    seen: set[str]
    left: int

    @classmethod
    def of(cls, tenant: Tenant, *, left: int) -> "_Taken":
        members = tenant.memberships.values_list("user__email", flat=True)
        rows = open_invitations(tenant).values_list("email", flat=True)
        return cls({e.lower() for e in members}, {e.lower() for e in rows}, set(), left)

    def look_at(self, text: str) -> Outcome:
        address = text.lower()
        if not _is_address(text):
            return Outcome.NO_ADDRESS
        if address in self.seen:
            return Outcome.TWICE
        self.seen.add(address)
        if address in self.members:
            return Outcome.MEMBER
        if address in self.open:
            return Outcome.OPEN
        if self.left <= 0:
            return Outcome.TOO_MANY
        self.left -= 1
        return Outcome.INVITED


def open_invitations(tenant: Tenant) -> QuerySet[Invitation]:
    """Neither used nor withdrawn; one that has expired can be sent again."""
    return Invitation.objects.filter(tenant=tenant, used_at=None, withdrawn_at=None)


def _is_address(text: str) -> bool:
    try:
        validate_email(text)
    except ValidationError:
        return False
    return len(text) <= LONGEST_EMAIL


def _mails_of_a_day(tenant: Tenant, *, at: datetime) -> int:
    """At most: an invitation that was mailed again counts all of its mails."""
    rows = Invitation.objects.filter(tenant=tenant, asked_at__gt=at - timedelta(days=1))
    return rows.aggregate(n=Sum("sends"))["n"] or 0


def _new(
    tenant: Tenant, email: str, *, role: Role, caps: Caps, by: User, at: datetime
) -> Invitation:
    made = Invitation.objects.create(
        tenant=tenant,
        email=email,
        role=role,
        gpus_at_once=caps.gpus_at_once,
        job_hours=caps.job_hours,
        highest_priority=caps.highest_priority,
        invited_by=by,
        asked_at=at,
        expires_at=at + LIFE,
    )
    after = {"email": email, "role": Role(role).name.lower()}
    audit.record("invite", made, by=by, after=after)
    return made


def _announce(invitations: list[Invitation], *, at: datetime) -> None:
    """Mail each address, and tell people who have it in their inbox as well."""
    if not invitations:
        return
    by_address = {one.email.lower(): one for one in invitations}
    people = User.objects.filter(is_active=True).exclude(email="")
    found = people.annotate(address=Lower("email")).filter(address__in=sorted(by_address))
    notify([_notice(user, by_address[user.address], at=at) for user in found], at=at)
    send_on_commit("tenants.mail_invitations")


def _notice(user: User, invitation: Invitation, *, at: datetime) -> Notice:
    return Notice(
        user=user,
        kind=NotificationKind.INVITED,
        key=f"invitation:{invitation.pk}:{invitation.sends}",
        link=path_of(invitation),
        happened_at=at,
        facts={"tenant": invitation.tenant.name, "who": str(invitation.invited_by)},
        may_mail=False,  # the address is mailed, whoever has it
    )


def path_of(invitation: Invitation) -> str:
    """Where the link of its last mail leads."""
    secret = _SIGNER.sign(f"{invitation.pk}-{invitation.sends}")
    return reverse("invitation", args=[secret])


@transaction.atomic
def resend(invitation: Invitation, *, by: User, at: datetime) -> None:
    """Mail it again with a new link; the old one opens nothing. at: wall clock.

    Raises NotAllowed below lead, Conflict for one that is open no longer, TooMany so soon.
    """
    require_role(by, invitation.tenant, Role.LEAD)
    hold_name(f"invitations:{invitation.tenant_id}")
    row = _open(invitation)
    if at - row.asked_at < AGAIN_AFTER or _mails_of_a_day(row.tenant, at=at) >= MOST_A_DAY:
        raise TooMany(_("It was mailed a moment ago, or too many were today; try again later."))
    row.sends += 1
    row.asked_at, row.expires_at, row.mailed_at = at, at + LIFE, None
    row.save(update_fields=["sends", "asked_at", "expires_at", "mailed_at"])
    audit.record("resend_invitation", row, by=by, after={"email": row.email})
    _announce([row], at=at)


@transaction.atomic
def withdraw(invitation: Invitation, *, by: User, at: datetime) -> None:
    """Have its link open nothing any more. at: wall clock.

    Raises NotAllowed below lead, Conflict for one that is open no longer.
    """
    require_role(by, invitation.tenant, Role.LEAD)
    row = _open(invitation)
    row.withdrawn_at = at
    row.save(update_fields=["withdrawn_at"])
    audit.record("withdraw_invitation", row, by=by, before={"email": row.email})


def _open(invitation: Invitation) -> Invitation:
    """It, held until the commit."""
    rows = open_invitations(invitation.tenant).select_for_update(of=("self",))
    row = rows.select_related("tenant", "invited_by").filter(pk=invitation.pk).first()
    if row is None:
        raise Conflict(_("It was used or withdrawn in the meantime; look again."))
    return row


def invitation_of(secret: str, *, at: datetime) -> Invitation:
    """What the link is of. at: wall clock. Raises InvitationSpent."""
    try:
        pk, _dash, sends = _SIGNER.unsign(secret).partition("-")
    except BadSignature as error:
        raise _spent() from error
    rows = Invitation.objects.filter(used_at=None, withdrawn_at=None, expires_at__gt=at)
    rows = rows.filter(pk=pk, sends=sends, tenant__archived_at=None)
    found = rows.select_related("tenant", "invited_by", "highest_priority").first()
    if found is None:
        raise _spent()
    return found


def _spent() -> InvitationSpent:
    return InvitationSpent(
        _("This invitation was used or withdrawn, or has expired; ask for a new one.")
    )


def has_account(invitation: Invitation) -> bool:
    """Whether somebody has its address; for the bearer of its link only.

    A closed account counts: an invitation is no way around who closed it.
    """
    return User.objects.filter(email__iexact=invitation.email).exists()


@transaction.atomic
def join(secret: str, user: User, *, at: datetime) -> Membership:
    """Let `user` into the tenant, once. at: wall clock.

    Raises InvitationSpent; Conflict for who is in already, whose role stays as it is.
    """
    return _join(_used(secret, at=at), user)


@transaction.atomic
def join_anew(secret: str, wish: UserWish, *, at: datetime) -> User:
    """A new account, in the tenant, for the bearer of the link; it has no password yet.

    Its address is the one that was invited. at: wall clock. Raises InvitationSpent; Refused or
    Conflict for a user name that will not do, Conflict where somebody has the address.
    """
    invitation = _used(secret, at=at)
    if has_account(invitation):
        raise Conflict(_("Somebody has an account with this address: sign in with it."))
    user = new_account(
        UserWish(
            username=wish.username,
            first_name=wish.first_name,
            last_name=wish.last_name,
            email=invitation.email,
        )
    )
    audit.record(
        "create_user", user, by=user, after={"username": user.username, "by": "invitation"}
    )
    _join(invitation, user)
    return user


def _used(secret: str, *, at: datetime) -> Invitation:
    """What the link is of; of two callers one gets it."""
    invitation = invitation_of(secret, at=at)
    unused = Invitation.objects.filter(pk=invitation.pk, used_at=None, withdrawn_at=None)
    if not unused.filter(sends=invitation.sends).update(used_at=at):
        raise _spent()
    return invitation


def _join(invitation: Invitation, user: User) -> Membership:
    membership, is_new = Membership.objects.get_or_create(
        tenant=invitation.tenant,
        user=user,
        defaults={
            "role": invitation.role,
            "gpus_at_once": invitation.gpus_at_once,
            "job_hours": invitation.job_hours,
            "highest_priority": invitation.highest_priority,
        },
    )
    if not is_new:
        raise Conflict(_("You are in %s already.") % invitation.tenant.name)
    after = {"user": user.username, "role": Role(invitation.role).name.lower()}
    audit.record("accept_invitation", membership, by=user, after=after)
    return membership
