"""What the database itself refuses, whoever writes: a row of quota, of a request, of a grant."""

from datetime import date

import pytest
from django.db import IntegrityError

from tests.factories import (
    CohortFactory,
    QuotaFactory,
    QuotaGrantFactory,
    QuotaRequestFactory,
    StarterRuleFactory,
)

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ({"nominal": 4, "granted": 5}, "quota_includes_its_grants"),
        (
            {"nominal": 4, "borrowing_limit": 1, "granted_borrowing": 2},
            "quota_borrows_what_its_grants_say",
        ),
        (
            {"nominal": 4, "granted": 2, "borrowing_limit": 0, "is_of_grants": True},
            "quota_of_grants_is_all_granted",
        ),
    ],
)
def test_a_quota_includes_what_its_grants_give(said, rule):
    with pytest.raises(IntegrityError, match=rule):
        QuotaFactory(**said)


def test_no_limit_includes_every_grant():
    QuotaFactory(nominal=8, granted=8, borrowing_limit=None, granted_borrowing=99)


def test_grants_are_tenants_and_no_cohorts():
    with pytest.raises(IntegrityError, match="quota_granted_to_tenants"):
        QuotaFactory(tenant=None, cohort=CohortFactory(), nominal=8, granted=8)


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ({"ends_on": date(2025, 12, 31)}, "quotarequest_ends_after_its_start"),
        ({"state": "lost"}, "quota_request_state_known"),
        ({"gpu_memory_mib": 40_960}, "quota_request_for_a_model_or_a_memory"),
    ],
)
def test_a_request_contradicts_itself_in_no_way(said, rule):
    with pytest.raises(IntegrityError, match=rule):
        QuotaRequestFactory(**said)


def test_a_grant_ends_after_its_start():
    with pytest.raises(IntegrityError, match="quotagrant_ends_after_its_start"):
        QuotaGrantFactory(ends_on=date(2025, 12, 31))


def test_a_grant_is_replaced_by_one_request_at_a_time():
    old = QuotaRequestFactory(state="active")
    for state in ("rejected", "closed", "active", "draft"):
        QuotaRequestFactory(replaces=old, state=state)

    with pytest.raises(IntegrityError, match="quota_request_replaced_by_one"):
        QuotaRequestFactory(replaces=old, state="submitted")


def test_a_starter_rule_gives_something():
    with pytest.raises(IntegrityError, match="starter_rule_gives_something"):
        StarterRuleFactory(most_gpus=0)
