from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, Refused
from tenants.access import require_role
from tenants.models import Membership, Role, Tenant, User


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
