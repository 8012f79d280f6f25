"""The tree of cohorts: what operators may do with it, and what two of them at once may not."""

from functools import partial

import pytest
from django.db import connection

from portal.core.errors import Conflict, NotAllowed, PortalError, Refused
from portal.core.models import AuditEvent
from tenants.models import Cohort, Quota, Tenant
from tenants.services.cohorts import (
    CohortWish,
    carry_out,
    change_cohort,
    foresee,
    make_cohort,
    move_tenant,
    remove_cohort,
    set_cohort_quota,
)
from tenants.services.quota import QuotaAmounts
from tests.factories import (
    CohortFactory,
    FlavorFactory,
    MembershipFactory,
    QuotaFactory,
    TenantFactory,
    UserFactory,
)
from tests.tenants.services.test_quota_races import at_once

pytestmark = pytest.mark.django_db


@pytest.fixture
def root():
    return UserFactory(username="root", is_operator=True)


def lines():
    rows = AuditEvent.objects.order_by("pk")
    return list(rows.values_list("action", "before", "after"))


def hang(cohort, parent, by):
    change_cohort(cohort, CohortWish(name=cohort.name, parent=parent), by=by)


def test_a_cohort_is_made_renamed_hung_elsewhere_and_taken_away_each_on_record(root):
    top = CohortFactory(name="top")

    made = make_cohort(CohortWish(name="lab"), by=root)
    change_cohort(made, CohortWish(name="labs", parent=top, weight=3), by=root)
    remove_cohort(made, by=root)

    lab = {"name": "lab", "parent": None, "weight": 1}
    labs = {"name": "labs", "parent": "top", "weight": 3}
    assert lines() == [
        ("make_cohort", {}, lab),
        ("change_cohort", lab, labs),
        ("remove_cohort", labs, {}),
    ]
    assert list(Cohort.objects.values_list("name", flat=True)) == ["top"]


def test_a_tenant_moves_and_what_it_has_goes_with_it(
    root, django_capture_on_commit_callbacks, monkeypatch
):
    flavor, to = FlavorFactory(), CohortFactory(name="lab")
    tenant = QuotaFactory(flavor=flavor, tenant__slug="vision").tenant
    asked = flavor.cluster.cycle_asked

    move_tenant(tenant, to, by=root)
    move_tenant(tenant, to, by=root)

    tenant.refresh_from_db()
    flavor.cluster.refresh_from_db()
    assert tenant.cohort == to
    assert lines() == [
        ("move_tenant", {"tenant": "vision", "cohort": None}, {"tenant": "vision", "cohort": "lab"})
    ]
    assert flavor.cluster.cycle_asked == asked + 1


def test_only_operators_change_the_tree(root):
    lead = MembershipFactory(role=3)
    cohort, flavor = CohortFactory(), FlavorFactory()
    works = [
        partial(make_cohort, CohortWish(name="mine"), by=lead.user),
        partial(change_cohort, cohort, CohortWish(name="mine"), by=lead.user),
        partial(remove_cohort, cohort, by=lead.user),
        partial(move_tenant, lead.tenant, cohort, by=lead.user),
        partial(set_cohort_quota, None, cohort=cohort, flavor=flavor, by=lead.user),
    ]

    for work in works:
        with pytest.raises(NotAllowed):
            work()

    assert lines() == []


def test_no_cohort_hangs_in_itself_however_far_down(root):
    top = CohortFactory(name="top")
    middle = CohortFactory(name="middle", parent=top)
    low = CohortFactory(name="low", parent=middle)

    for parent in (top, middle, low):
        with pytest.raises(Refused) as refused:
            hang(top, parent, root)
        assert refused.value.field == "parent"

    assert Cohort.objects.get(name="top").parent is None


def test_a_tree_is_at_most_eight_deep_with_what_hangs_below(root):
    chain = [CohortFactory()]
    for _level in range(5):
        chain.append(CohortFactory(parent=chain[-1]))
    above = [CohortFactory()]
    above.append(CohortFactory(parent=above[0]))
    above.append(CohortFactory(parent=above[1]))

    hang(chain[0], above[1], root)
    with pytest.raises(Refused, match="8 deep"):
        hang(chain[0], above[2], root)


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        (CohortWish(name="two words"), "name"),
        (CohortWish(name=""), "name"),
        (CohortWish(name="x" * 65), "name"),
        (CohortWish(name="taken"), "name"),
        (CohortWish(name="ok", weight=0), "weight"),
        (CohortWish(name="ok", weight=1001), "weight"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(root, wish, field):
    CohortFactory(name="taken")

    with pytest.raises(Refused) as refused:
        make_cohort(wish, by=root)

    assert refused.value.field == field


def test_a_cohort_with_members_or_limits_of_its_own_stays(root):
    with_tenant = TenantFactory(cohort=CohortFactory()).cohort
    with_child = CohortFactory(parent=CohortFactory()).parent
    with_quota = QuotaFactory(tenant=None, cohort=CohortFactory()).cohort

    for cohort in (with_tenant, with_child, with_quota):
        with pytest.raises(Refused):
            remove_cohort(cohort, by=root)

    assert Cohort.objects.count() == 4


def test_a_cohorts_limits_are_set_and_taken_away_on_record(root):
    cohort, flavor = CohortFactory(), FlavorFactory(name="h100")

    set_cohort_quota(QuotaAmounts(4, 2, 1), cohort=cohort, flavor=flavor, by=root)
    with pytest.raises(Refused):
        set_cohort_quota(QuotaAmounts(4, None, 5), cohort=cohort, flavor=flavor, by=root)
    stored = Quota.objects.values_list("cohort", "nominal", "borrowing_limit", "lending_limit")
    assert list(stored) == [(cohort.pk, 4, 2, 1)]
    set_cohort_quota(None, cohort=cohort, flavor=flavor, by=root)
    set_cohort_quota(None, cohort=cohort, flavor=flavor, by=root)

    assert not Quota.objects.exists()
    said = [
        (action, before.get("nominal"), after.get("nominal")) for action, before, after in lines()
    ]
    assert said == [("set_cohort_quota", None, 4), ("set_cohort_quota", 4, None)]


def test_what_is_foreseen_is_not_kept_and_then_done_as_it_was_seen(root):
    tenant, cohort = TenantFactory(), CohortFactory()
    change = partial(move_tenant, tenant, cohort, by=root)

    seen = foresee(change)

    assert (Tenant.objects.get().cohort, lines()) == (None, [])
    assert [row.cohort for row in seen.after.tenants] == [cohort.pk]
    carry_out(change, seen=seen.mark)
    assert Tenant.objects.get().cohort == cohort


def test_what_would_come_to_something_else_by_now_is_not_done(root):
    tenant, cohort, other = TenantFactory(), CohortFactory(), CohortFactory()
    change = partial(move_tenant, tenant, cohort, by=root)
    seen = foresee(change)

    with pytest.raises(Conflict):  # another change than the one that was seen
        carry_out(partial(move_tenant, tenant, other, by=root), seen=seen.mark)
    QuotaFactory(tenant=tenant)
    with pytest.raises(Conflict):
        carry_out(change, seen=seen.mark)

    assert (Tenant.objects.get().cohort, lines()) == (None, [])


def test_who_comes_to_a_cohort_that_is_gone_is_told(root):
    tenant, cohort = TenantFactory(), CohortFactory()
    stale = Cohort.objects.get()
    remove_cohort(cohort, by=root)

    for work in (
        partial(remove_cohort, stale, by=root),
        partial(move_tenant, tenant, stale, by=root),
        partial(hang, stale, None, root),
        partial(make_cohort, CohortWish(name="new", parent=stale), by=root),
    ):
        with pytest.raises(Conflict):
            work()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("round_", range(5))
def test_two_moves_at_once_close_no_circle(root, round_):
    """Each is sound alone; the second sees the first."""
    one, two = CohortFactory(), CohortFactory()

    came_to = at_once(partial(hang, one, two, root), partial(hang, two, one, root))

    assert [type(error) for error in came_to if error is not None] == [Refused]
    assert Cohort.objects.filter(parent__isnull=True).count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("round_", range(5))
def test_a_cohort_is_filled_or_taken_away_and_never_both(root, round_):
    tenant, cohort = TenantFactory(), CohortFactory()

    came_to = at_once(
        partial(move_tenant, tenant, cohort, by=root), partial(remove_cohort, cohort, by=root)
    )

    tenant.refresh_from_db()
    refused = [error for error in came_to if error is not None]
    assert [isinstance(error, PortalError) for error in refused] == [True]
    assert (tenant.cohort_id is not None) == Cohort.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_who_save_what_they_saw_the_second_looks_again(root):
    tenant, to = TenantFactory(), [CohortFactory(), CohortFactory()]
    changes = [partial(move_tenant, tenant, cohort, by=root) for cohort in to]
    marks = [foresee(change).mark for change in changes]

    came_to = at_once(
        *(
            partial(carry_out, change, seen=mark)
            for change, mark in zip(changes, marks, strict=True)
        )
    )

    assert [type(error) for error in came_to if error is not None] == [Conflict]
    assert AuditEvent.objects.filter(action="move_tenant").count() == 1
    connection.close()
