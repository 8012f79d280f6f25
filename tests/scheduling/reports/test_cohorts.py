"""What a change of the tree does to whom: the engine's own numbers, before and after."""

import pytest

from scheduling.reports.cohorts import branches_of, effects_of
from tenants.models import Cohort, Quota, Tenant
from tenants.snapshots import read_tree
from tests.factories import CohortFactory, FlavorFactory, QuotaFactory, TenantFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def flavor():
    return FlavorFactory(name="h100")


def tenant(slug, cohort=None, **quota):
    row = TenantFactory(slug=slug, cohort=cohort)
    QuotaFactory(tenant=row, **quota)
    return row


def changed(change):
    before = read_tree()
    change()
    return [
        (each.name, each.is_cohort, each.flavor, each.guaranteed, each.borrowable)
        for each in effects_of(before, read_tree())
    ]


def test_who_joins_may_borrow_and_lends_and_keeps_what_is_guaranteed(flavor):
    lab = CohortFactory(name="lab")
    tenant("inside", lab, flavor=flavor, nominal=8)
    joins = tenant("joins", flavor=flavor, nominal=4)

    found = changed(lambda: Tenant.objects.filter(pk=joins.pk).update(cohort=lab))

    assert found == [
        ("inside", False, "h100", (8, 8), (0, 4)),
        ("joins", False, "h100", (4, 4), (0, 8)),
        ("lab", True, "h100", (8, 12), (0, 0)),
    ]


def test_a_lower_lending_limit_takes_from_those_who_may_borrow(flavor):
    lab = CohortFactory(name="lab")
    lender = tenant("lender", lab, flavor=flavor, nominal=8)
    tenant("borrower", lab, flavor=flavor, nominal=2)

    found = changed(lambda: Quota.objects.filter(tenant=lender).update(lending_limit=3))

    assert found == [
        ("borrower", False, "h100", (2, 2), (8, 3)),
        ("lab", True, "h100", (10, 5), (0, 0)),
    ]


def test_a_rename_and_a_weight_meet_nobody(flavor):
    lab = CohortFactory(name="lab")
    tenant("inside", lab, flavor=flavor)

    assert changed(lambda: Cohort.objects.update(name="labs", weight=2)) == []


def test_the_tree_is_read_as_it_hangs_in_four_queries(flavor, django_assert_num_queries):
    top = CohortFactory(name="top")
    low = CohortFactory(name="low", parent=top)
    tenant("deep", low, flavor=flavor, nominal=3, lending_limit=1)
    tenant("alone", flavor=flavor)

    with django_assert_num_queries(4):  # cohorts, tenants, quotas, flavors
        roots, alone = branches_of(read_tree())

    (branch,) = roots
    (inner,) = branch.branches
    (leaf,) = inner.leaves
    (has,) = leaf.has
    assert (branch.cohort.name, inner.cohort.name, leaf.tenant.slug) == ("top", "low", "deep")
    assert (has.flavor_name, has.nominal, has.borrowing_limit, has.lending_limit) == (
        "h100",
        3,
        None,
        1,
    )
    assert [each.tenant.slug for each in alone] == ["alone"]
