from collections.abc import Callable

from django.db.models import OuterRef, Subquery, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from portal.core.errors import NotAllowed
from tenants.models import Membership, Role, Tenant, User


def role_of(user: User, tenant: Tenant) -> int:
    """The role of `user` in `tenant`, 0 without one; operators have the highest."""
    if user.is_operator:
        return Role.LEAD
    rows = Membership.objects.filter(user=user, tenant=tenant).values_list("role", flat=True)
    return rows.first() or 0


def role_in(user: User) -> Combinable:
    """What `role_of` says of the tenant of each row, for a query of rows that have one."""
    if user.is_operator:
        return Value(int(Role.LEAD))
    rows = Membership.objects.filter(user=user, tenant=OuterRef("tenant"))
    return Coalesce(Subquery(rows.values("role")), Value(0))


def sees(user: User) -> Callable[[int], bool]:
    """Whether a tenant, by its key, is the business of `user`. One query, none for operators."""
    return (lambda _tenant: True) if user.is_operator else seen_tenants(user).__contains__


def seen_tenants(user: User) -> set[int]:
    """Keys of the tenants that are the business of `user`. One query."""
    return set(Tenant.objects.visible_to(user).values_list("pk", flat=True))


def has_role(user: User, tenant: Tenant, at_least: Role) -> bool:
    """Whether `user` holds a role of `at_least` in `tenant`; an operator holds them all."""
    return role_of(user, tenant) >= at_least


def require_role(user: User, tenant: Tenant, at_least: Role) -> None:
    """Refuse with NotAllowed unless `user` holds a role of `at_least` in `tenant`."""
    if not has_role(user, tenant, at_least):
        raise NotAllowed(
            _("This belongs to tenant %(tenant)s and needs the role of %(role)s there; ask a lead.")
            % {"tenant": tenant.slug, "role": at_least.label}
        )


def require_operator(user: User) -> None:
    """Refuse with NotAllowed unless `user` is an operator."""
    if not user.is_operator:
        raise NotAllowed(_("Only an operator may do this."))
