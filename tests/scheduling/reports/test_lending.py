"""Who holds what a tenant lends, and how fast it comes back."""

import pytest

from scheduling.models import PlacementGpu
from scheduling.reports.lending import loans_of, shares
from scheduling.states import JobState
from tests.factories import (
    CohortFactory,
    JobFactory,
    MemberFactory,
    NodeFactory,
    PlacementFactory,
    QuotaFactory,
    TenantFactory,
)


@pytest.fixture
def node(db):
    return NodeFactory(flavor__name="h100", gpus=32)


@pytest.fixture
def cohort(db):
    return CohortFactory()


def tenant(cohort, node, slug, *, nominal, holds=0, **job):
    """A tenant of `cohort` with so many GPUs guaranteed, and a job on so many."""
    made = TenantFactory(slug=slug, cohort=cohort)
    QuotaFactory(tenant=made, flavor=node.flavor, nominal=nominal)
    if holds:
        running = JobFactory(
            tenant=made, cluster=node.cluster, state=JobState.RUNNING, attempt=1, **job
        )
        placement = PlacementFactory(job=running, node=node)
        member = MemberFactory(placement=placement)
        free = node.gpus.exclude(held_by__isnull=False).order_by("index")[:holds]
        for gpu in free:
            PlacementGpu.objects.create(placement=placement, member=member, gpu=gpu)
    return made


def told(lender):
    return {
        flavor: (loan.lent, [(h.tenant.slug, h.gpus, h.back_seconds) for h in loan.holders])
        for flavor, loan in loans_of(lender).items()
    }


def test_what_others_use_above_their_own_is_lent(cohort, node):
    nlp = tenant(cohort, node, "nlp", nominal=16, holds=9)
    tenant(cohort, node, "vision", nominal=4, holds=9, grace_seconds=240)

    assert told(nlp) == {"h100": (5, [("vision", 5, 240)])}


def test_a_job_that_says_nothing_is_back_after_the_usual_grace(cohort, node):
    nlp = tenant(cohort, node, "nlp", nominal=16)
    tenant(cohort, node, "vision", nominal=0, holds=2)

    assert told(nlp) == {"h100": (2, [("vision", 2, 30)])}


def test_jobs_that_nobody_may_stop_come_back_as_they_end(cohort, node):
    nlp = tenant(cohort, node, "nlp", nominal=16)
    tenant(cohort, node, "vision", nominal=0, holds=2, is_preemptible=False)

    assert told(nlp) == {"h100": (2, [("vision", 2, None)])}


def test_lenders_share_what_is_borrowed_by_what_each_leaves_idle(cohort, node):
    nlp = tenant(cohort, node, "nlp", nominal=9)
    speech = tenant(cohort, node, "speech", nominal=3)
    tenant(cohort, node, "vision", nominal=0, holds=4)

    assert (told(nlp), told(speech)) == (
        {"h100": (3, [("vision", 3, 30)])},
        {"h100": (1, [("vision", 1, 30)])},
    )


def test_who_uses_it_all_lends_nothing(cohort, node):
    nlp = tenant(cohort, node, "nlp", nominal=8, holds=8)
    tenant(cohort, node, "vision", nominal=0, holds=2)

    assert told(nlp) == {}


def test_a_cohort_further_up_lends_too(cohort, node):
    nlp = tenant(CohortFactory(parent=cohort), node, "nlp", nominal=8)
    tenant(CohortFactory(parent=cohort), node, "vision", nominal=0, holds=2)

    assert told(nlp) == {"h100": (2, [("vision", 2, 30)])}


def test_strangers_borrow_nothing_from_each_other(cohort, node):
    nlp = tenant(cohort, node, "nlp", nominal=8)
    tenant(CohortFactory(), node, "vision", nominal=0, holds=2)
    alone = tenant(None, node, "alone", nominal=8)

    assert (told(nlp), told(alone)) == ({}, {})


def test_standby_jobs_are_not_charged_and_borrow_nothing(cohort, node):
    nlp = tenant(cohort, node, "nlp", nominal=8)
    tenant(cohort, node, "vision", nominal=0, holds=2, is_standby=True)

    assert told(nlp) == {}


def test_who_may_lend_nothing_lends_nothing(cohort, node):
    nlp = tenant(cohort, node, "nlp", nominal=8)
    nlp.quotas.update(lending_limit=0)
    tenant(cohort, node, "vision", nominal=0, holds=2)

    assert told(nlp) == {}


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [
        (4, [9, 3], [3, 1]),
        (5, [1, 1], [1, 1]),
        (2, [1, 1, 1], [1, 1, 0]),
        (0, [3], [0]),
        (3, [], []),
        (3, [0, 0], [0, 0]),
        (7, [5, 5, 5], [3, 2, 2]),
    ],
)
def test_whole_parts_add_up(total, weights, parts):
    assert shares(total, weights) == parts


def test_it_costs_the_same_for_any_number_of_tenants(cohort, node, django_assert_num_queries):
    nlp = tenant(cohort, node, "nlp", nominal=8)
    for number in range(4):
        tenant(cohort, node, f"t{number}", nominal=0, holds=1)

    with django_assert_num_queries(4):  # cohorts, tenants, quotas, what is held
        loans_of(nlp)
