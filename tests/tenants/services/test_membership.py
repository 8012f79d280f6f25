import pytest

from portal.core.errors import Conflict, NotAllowed, Refused
from portal.core.models import AuditEvent
from tenants.models import Membership, Role
from tenants.services.membership import add_member, remove_member, set_role
from tests.factories import MembershipFactory, TenantFactory, UserFactory


@pytest.fixture
def lead(db):
    return MembershipFactory(role=Role.LEAD, user__username="lead", tenant=TenantFactory())


def audited():
    return list(AuditEvent.objects.order_by("pk").values_list("action", "before", "after"))


def roles(tenant):
    return dict(tenant.memberships.values_list("user__username", "role"))


def test_a_lead_lets_people_in_changes_their_role_and_puts_them_out(lead):
    bob = UserFactory(username="bob")

    membership = add_member(lead.tenant, bob, role=Role.VIEWER, by=lead.user)
    set_role(membership, Role.RESEARCHER, by=lead.user)
    set_role(membership, Role.RESEARCHER, by=lead.user)
    in_between = roles(lead.tenant)
    remove_member(membership, by=lead.user)

    assert in_between == {"lead": Role.LEAD, "bob": Role.RESEARCHER}
    assert roles(lead.tenant) == {"lead": Role.LEAD}
    assert audited() == [
        ("add_member", {}, {"user": "bob", "role": "viewer"}),
        ("set_role", {"user": "bob", "role": "viewer"}, {"role": "researcher"}),
        ("remove_member", {"user": "bob", "role": "researcher"}, {}),
    ]


def test_nobody_is_let_in_twice(lead):
    with pytest.raises(Conflict):
        add_member(lead.tenant, lead.user, role=Role.VIEWER, by=lead.user)

    assert roles(lead.tenant) == {"lead": Role.LEAD}


def test_below_lead_nothing_of_this_is_allowed(lead):
    researcher = MembershipFactory(tenant=lead.tenant, role=Role.RESEARCHER)

    for refused in (
        lambda: add_member(lead.tenant, UserFactory(), role=Role.VIEWER, by=researcher.user),
        lambda: set_role(researcher, Role.LEAD, by=researcher.user),
        lambda: remove_member(lead, by=researcher.user),
    ):
        with pytest.raises(NotAllowed):
            refused()

    assert Membership.objects.count() == 2
    assert audited() == []


def test_the_last_lead_stays(lead):
    for refused in (
        lambda: set_role(lead, Role.VIEWER, by=lead.user),
        lambda: remove_member(lead, by=lead.user),
    ):
        with pytest.raises(Refused):
            refused()
    MembershipFactory(tenant=lead.tenant, role=Role.LEAD)

    set_role(lead, Role.VIEWER, by=lead.user)

    assert Membership.objects.get(pk=lead.pk).role == Role.VIEWER
