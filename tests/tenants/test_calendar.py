"""What of a flavor is promised, day by day."""

from datetime import date, timedelta

import pytest

from tenants.snapshots import Calendar, Promise, read_calendar
from tests.factories import (
    CohortFactory,
    FlavorFactory,
    NodeFactory,
    QuotaFactory,
    QuotaGrantFactory,
)

FIRST = date(2026, 1, 1)


def day(number):
    return FIRST + timedelta(days=number)


def calendar(*promises, installed=10, standing=2):
    """A calendar of (GPUs, first, last) by day numbers."""
    made = (
        Promise(request_id=n, tenant="t", gpus=gpus, first=day(first), last=day(last))
        for n, (gpus, first, last) in enumerate(promises)
    )
    flavor = FlavorFactory.build(cluster=None)
    return Calendar(flavor=flavor, installed=installed, standing=standing, promises=tuple(made))


def test_a_profile_has_a_row_for_each_day_with_a_change():
    rows = calendar((3, -5, 4), (2, 2, 7)).profile(day(0), day(9))

    assert [((at - FIRST).days, gpus) for at, gpus in rows] == [(0, 5), (2, 7), (5, 4), (8, 2)]


def test_every_row_of_a_profile_is_what_is_promised_on_its_day():
    made = calendar((3, -5, 4), (2, 2, 7), (1, 4, 4), (4, 5, 30))

    assert made.profile(day(0), day(9)) == [
        (at, made.promised_on(at)) for at, _gpus in made.profile(day(0), day(9))
    ]
    levels = dict(made.profile(day(0), day(9)))
    for number in range(10):
        known = max(at for at in levels if at <= day(number))
        assert levels[known] == made.promised_on(day(number))


def test_the_tightest_day_is_the_first_of_the_fullest():
    made = calendar((3, 0, 1), (3, 4, 6), (9, 20, 21))

    assert made.tightest(day(0), day(10)) == day(0)
    assert made.tightest(day(2), day(10)) == day(4)
    assert made.tightest(day(2), day(3)) == day(2)
    assert made.free_on(day(20)) == -1


@pytest.mark.django_db
def test_a_calendar_reads_capacity_quota_and_grants():
    node = NodeFactory(gpus=8)
    flavor = node.flavor
    node.gpus.filter(index=0).update(is_healthy=False)
    NodeFactory(cluster=node.cluster, flavor=flavor, gpus=4, is_cordoned=True)
    NodeFactory(cluster=node.cluster, flavor=flavor, gpus=4, gone_at="2026-01-01T00:00Z")
    QuotaFactory(flavor=flavor, nominal=5, granted=3)
    QuotaFactory(flavor=flavor, nominal=1, tenant=None, cohort=CohortFactory())
    QuotaFactory(nominal=7)
    for state in ("active", "scheduled", "grace", "countered", "closed"):
        QuotaGrantFactory(request__flavor=flavor, request__state=state, request__gpus=1)

    read = read_calendar(flavor)

    assert (read.installed, read.standing) == (11, 3)
    assert [promise.gpus for promise in read.promises] == [1, 1]


@pytest.mark.django_db
def test_a_grant_is_promised_up_to_the_day_before_another_takes_its_place():
    old = QuotaGrantFactory(request__state="active", request__gpus=4)
    new = QuotaGrantFactory(
        request__state="scheduled",
        request__tenant=old.request.tenant,
        request__flavor=old.flavor,
        request__replaces=old.request,
        request__gpus=6,
        request__starts_on=date(2026, 2, 1),
    )

    read = read_calendar(old.flavor)

    assert [(p.request_id, p.first, p.last) for p in read.promises] == [
        (old.request_id, date(2026, 1, 1), date(2026, 1, 31)),
        (new.request_id, date(2026, 2, 1), date(2026, 3, 31)),
    ]
    assert [p.request_id for p in read_calendar(old.flavor, without=old.request_id).promises] == [
        new.request_id
    ]
