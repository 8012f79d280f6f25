"""How a grant's GPU-hours are spent, and what a tenant has held."""

from datetime import UTC, date, datetime, timedelta

import pytest

from scheduling.reports.quota_record import burn_of, record_of
from tests.factories import JobFactory, NodeFactory, PlacementFactory, QuotaGrantFactory

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def grant(db):
    """1,000 GPU-hours of eight GPUs, for 90 days from the first of January."""
    node = NodeFactory(flavor__name="h100")
    grant = QuotaGrantFactory(
        request__flavor=node.flavor, request__gpu_hours=1000, request__ends_on=date(2026, 3, 31)
    )
    grant.node = node
    return grant


def hold(grant, hours, *, gpus=4, begin=START):
    """Have the tenant hold `gpus` GPUs for so long."""
    job = JobFactory(tenant=grant.request.tenant, cluster=grant.node.cluster, members__gpus=gpus)
    PlacementFactory(
        job=job,
        node=grant.node,
        bound_at=begin,
        released_at=begin + timedelta(hours=hours),
    )


def test_the_pace_so_far_says_when_the_hours_end(grant):
    hold(grant, 100)  # 400 GPU-hours in the first ten days: the rest lasts fifteen more

    burn = burn_of(grant, wall=START + timedelta(days=10))

    assert burn.used_hours == 400
    assert burn.left_hours == 600
    assert burn.ends_on == date(2026, 1, 26)
    assert burn.days_early == 64


def test_hours_that_last_are_not_early(grant):
    hold(grant, 10)

    burn = burn_of(grant, wall=START + timedelta(days=10))

    assert burn.ends_on == date(2026, 9, 8)
    assert burn.days_early < 0


def test_who_has_used_nothing_has_no_pace(grant):
    assert burn_of(grant, wall=START + timedelta(days=10)).ends_on is None


def test_without_hours_or_before_the_first_day_there_is_nothing_to_burn(grant):
    before = burn_of(grant, wall=START - timedelta(days=1))
    grant.gpu_hours = None

    assert (before, burn_of(grant, wall=START + timedelta(days=10))) == (None, None)


def test_a_record_is_what_was_held_in_90_days(grant):
    hold(grant, 24)
    hold(grant, 24, begin=START - timedelta(days=300))

    record = record_of(grant.request.tenant, grant.node.cluster, wall=START + timedelta(days=30))

    (held,) = record.held
    assert (held.flavor, held.gpu_seconds) == ("h100", 4 * 24 * 3600)
    assert held.mean_gpus == pytest.approx(4 / 90)
