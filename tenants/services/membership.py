from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, Refused
from tenants.access import require_role
from tenants.models import Membership, PriorityClass, Role, Tenant, User
from topology.models import Cluster
from topology.services.cycle_request import ask_for_cycle

MOST = 10**6  # GPUs, or hours: beyond any cluster and any job


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most that a member may ask for; None is no limit of their own.

    gpus_at_once: that their jobs hold together, in each cluster. job_hours: that one job may run.
    """

    gpus_at_once: int | None = None
    job_hours: int | None = None
    highest_priority: PriorityClass | None = None


def caps_of(membership: Membership) -> Caps:
    return Caps(
        gpus_at_once=membership.gpus_at_once,
        job_hours=membership.job_hours,
        highest_priority=membership.highest_priority,
    )


@transaction.atomic
def add_member(tenant: Tenant, user: User, *, role: Role, by: User) -> Membership:
    """Let `user` into `tenant`. Raises NotAllowed below lead, Conflict for who is in already."""
    require_role(by, tenant, Role.LEAD)
    membership, is_new = Membership.objects.get_or_create(
        tenant=tenant, user=user, defaults={"role": role}
    )
    if not is_new:
        raise Conflict(
            _("%(user)s is in %(tenant)s already; change the role instead.")
            % {"user": user.username, "tenant": tenant.slug},
            field="user",
        )
    after = {"user": user.username, "role": Role(role).name.lower()}
    audit.record("add_member", membership, by=by, after=after)
    return membership


@transaction.atomic
def set_role(membership: Membership, role: Role, *, by: User) -> None:
    """Give a member another role. Raises NotAllowed below lead, Refused for the last lead."""
    require_role(by, membership.tenant, Role.LEAD)
    locked = _lock_members(membership)
    if role < Role.LEAD:
        _keep_a_lead(membership, locked)
    before = Role(membership.role)
    if before == role:
        return
    Membership.objects.filter(pk=membership.pk).update(role=role)
    membership.role = role
    audit.record(
        "set_role",
        membership,
        by=by,
        before={"user": membership.user.username, "role": before.name.lower()},
        after={"role": Role(role).name.lower()},
    )


@transaction.atomic
def set_caps(membership: Membership, caps: Caps, *, by: User) -> None:
    """Say what a member may ask for at most; what runs runs on, and what waits heeds it at once.

    Raises NotAllowed below lead, Refused for what is no amount.
    """
    require_role(by, membership.tenant, Role.LEAD)
    check_caps(caps)
    row = Membership.objects.select_for_update(of=("self",)).get(pk=membership.pk)
    before = caps_of(row)
    row.gpus_at_once, row.job_hours = caps.gpus_at_once, caps.job_hours
    row.highest_priority = caps.highest_priority
    row.save(update_fields=["gpus_at_once", "job_hours", "highest_priority"])
    if before == caps:
        return
    told = {"user": membership.user.username}
    audit.record("set_caps", membership, by=by, before=told | _plain(before), after=_plain(caps))
    theirs = Q(jobs__owner=membership.user_id, jobs__tenant=membership.tenant_id)
    clusters = Cluster.objects.filter(theirs).order_by("pk").distinct()
    for cluster_id in clusters.values_list("pk", flat=True):
        ask_for_cycle(cluster_id)


def check_caps(caps: Caps) -> None:
    """Refuse with Refused what is no amount."""
    for field in ("gpus_at_once", "job_hours"):
        amount = getattr(caps, field)
        if amount is not None and not 1 <= amount <= MOST:
            text = _("Give a whole number from 1 to %(most)d, or leave it out for no limit.")
            raise Refused(text % {"most": MOST}, field=field)


def _plain(caps: Caps) -> dict[str, Any]:
    highest = caps.highest_priority
    return {
        "gpus_at_once": caps.gpus_at_once,
        "job_hours": caps.job_hours,
        "highest_priority": highest and highest.name,
    }


@transaction.atomic
def remove_member(membership: Membership, *, by: User) -> None:
    """Put a member out; the jobs stay the tenant's. Raises NotAllowed, Refused as `set_role`."""
    require_role(by, membership.tenant, Role.LEAD)
    _keep_a_lead(membership, _lock_members(membership))
    before = {"user": membership.user.username, "role": Role(membership.role).name.lower()}
    audit.record("remove_member", membership, by=by, before=before)
    membership.delete()


def _lock_members(membership: Membership) -> list[Membership]:
    """The tenant's members, held until the commit: two leads cannot both be the other's last."""
    members = Membership.objects.select_for_update().filter(tenant=membership.tenant_id)
    return list(members.order_by("pk"))


def _keep_a_lead(membership: Membership, members: list[Membership]) -> None:
    leads = [member.pk for member in members if member.role == Role.LEAD]
    if leads == [membership.pk]:
        raise Refused(_("A tenant needs a lead: name another one first."), field="role")
