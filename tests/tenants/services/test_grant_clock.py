"""What time does to a grant, whether the beat comes often, twice at once or not for months."""

from datetime import UTC, date, datetime, timedelta

import pytest

from tenants.models import Quota
from tenants.services.grant_clock import GRACE_DAYS, advance_grants, due_state, rung_of
from tenants.services.grants import derive_quota, lock_flavor
from tenants.states import RequestState
from tenants.tasks import advance_grants_now
from tests.factories import QuotaFactory, QuotaGrantFactory, QuotaRequestFactory

MORNING = datetime(2026, 1, 1, 6, 0, tzinfo=UTC)
FIRST, LAST = date(2026, 2, 1), date(2026, 4, 30)


@pytest.fixture
def grant(db):
    """Eight GPUs, two of them more to borrow, from February to April; scheduled."""
    request = QuotaRequestFactory(
        state=RequestState.SCHEDULED,
        borrowing_gpus=2,
        starts_on=FIRST,
        ends_on=LAST,
        flavor__name="h100",
    )
    return QuotaGrantFactory(request=request)


def on(day):
    """The morning of that day."""
    return MORNING + (day - MORNING.date())


def story(grant):
    return list(grant.request.events.order_by("pk").values_list("action", "to_state"))


def quota():
    return list(Quota.objects.values_list("nominal", "borrowing_limit"))


def test_a_grant_lives_day_by_day(grant):
    day, numbers = date(2026, 1, 31), {}
    while day <= LAST + timedelta(days=GRACE_DAYS + 1):
        advance_grants(at=on(day))
        numbers[day] = quota()
        day += timedelta(days=1)

    assert story(grant) == [
        ("start", "active"),
        *[("remind", "expiring")] * 4,
        ("end", "grace"),
        ("close", "closed"),
    ]
    assert numbers[date(2026, 1, 31)] == []
    assert numbers[FIRST] == numbers[LAST] == [(8, 2)]
    # In grace nothing is guaranteed; the GPUs may still be borrowed.
    assert numbers[date(2026, 5, 1)] == numbers[date(2026, 5, 14)] == [(0, 10)]
    assert numbers[date(2026, 5, 15)] == []


def test_reminders_come_30_14_7_and_1_days_before(grant):
    grant.request.state = RequestState.ACTIVE
    grant.request.save()
    for days in range(40, -1, -1):
        advance_grants(at=on(LAST - timedelta(days=days)))

    reminders = grant.request.events.filter(action="remind").order_by("pk")
    assert [event.numbers["days"] for event in reminders] == [30, 14, 7, 1]
    assert [(LAST - event.at.date()).days for event in reminders] == [30, 14, 7, 1]


def test_a_beat_that_comes_twice_does_nothing_the_second_time(grant):
    for day in (FIRST, LAST - timedelta(days=7), LAST + timedelta(days=1)):
        assert advance_grants(at=on(day)) == 1
        before = story(grant)

        assert advance_grants(at=on(day)) == 0
        assert story(grant) == before


def test_a_beat_that_did_not_come_for_months_is_made_up_for(grant):
    advance_grants(at=on(date(2026, 12, 1)))

    assert story(grant) == [("start", "active"), ("close", "closed")]
    assert quota() == []


def test_rungs_that_nobody_climbed_are_left_out(grant):
    advance_grants(at=on(LAST - timedelta(days=3)))

    reminders = grant.request.events.filter(action="remind")
    assert [event.numbers["days"] for event in reminders] == [7]


def test_a_short_grant_has_no_reminder_from_before_its_first_day(grant):
    grant.ends_on = grant.starts_on + timedelta(days=9)

    rungs = [rung_of(grant, grant.starts_on + timedelta(days=day)) for day in range(10)]

    assert rungs == [None, None, 7, 7, 7, 7, 7, 7, 1, 1]


def test_the_days_are_those_of_the_clusters_own_clock(grant):
    cluster = grant.request.cluster
    cluster.clock_at, cluster.clock_wall_at = on(FIRST), on(date(2025, 1, 1))
    cluster.clock_speed = 0
    cluster.save()

    advance_grants(at=on(date(2025, 1, 1)))

    assert story(grant) == [("start", "active")]


def test_a_later_grant_ends_the_one_it_replaces_when_it_starts(grant):
    advance_grants(at=on(FIRST))
    more = QuotaGrantFactory(
        request__tenant=grant.request.tenant,
        request__flavor=grant.flavor,
        request__replaces=grant.request,
        request__state=RequestState.SCHEDULED,
        request__gpus=12,
        request__starts_on=date(2026, 3, 1),
        request__ends_on=date(2026, 12, 31),
    )

    advance_grants(at=on(date(2026, 2, 28)))
    assert quota() == [(8, 2)]
    advance_grants(at=on(date(2026, 3, 1)))

    assert quota() == [(12, 0)]
    assert story(grant)[-1] == ("replace", "closed")
    assert story(more) == [("start", "active")]


def test_a_renewal_carries_on_without_a_day_between(grant):
    advance_grants(at=on(FIRST))
    QuotaGrantFactory(
        request__tenant=grant.request.tenant,
        request__flavor=grant.flavor,
        request__replaces=grant.request,
        request__state=RequestState.SCHEDULED,
        request__starts_on=LAST + timedelta(days=1),
        request__ends_on=date(2026, 12, 31),
    )

    advance_grants(at=on(LAST + timedelta(days=1)))

    assert [nominal for nominal, _borrowing in quota()] == [8]
    grant.request.refresh_from_db()
    assert grant.request.state == RequestState.CLOSED


def test_the_task_is_the_same_door(grant):
    advance_grants_now()  # the wall clock is long past the grant

    grant.request.refresh_from_db()
    assert grant.request.state == RequestState.CLOSED


def test_quota_that_has_drifted_is_mended_when_it_is_derived(grant):
    advance_grants(at=on(FIRST))
    Quota.objects.update(granted=1, nominal=1)

    derive_quota(grant.request.tenant, lock_flavor(grant.flavor_id), by=None, reason="test")

    assert quota() == [(8, 2)]


def test_a_row_of_the_operators_outlives_the_grant(grant):
    QuotaFactory(tenant=grant.request.tenant, flavor=grant.flavor, nominal=4, borrowing_limit=1)

    advance_grants(at=on(FIRST))
    during = quota()
    advance_grants(at=on(date(2026, 12, 1)))

    assert (during, quota()) == ([(12, 3)], [(4, 1)])


@pytest.mark.parametrize(
    ("day", "state"),
    [
        (FIRST - timedelta(days=1), "scheduled"),
        (FIRST, "active"),
        (LAST - timedelta(days=31), "active"),
        (LAST - timedelta(days=30), "expiring"),
        (LAST, "expiring"),
        (LAST + timedelta(days=1), "grace"),
        (LAST + timedelta(days=GRACE_DAYS), "grace"),
        (LAST + timedelta(days=GRACE_DAYS + 1), "closed"),
    ],
)
def test_the_dates_alone_say_where_a_grant_is(grant, day, state):
    assert due_state(grant, day) == state


def test_a_beat_with_nothing_to_do_asks_once_however_many_grants_there_are(
    grant, django_assert_num_queries
):
    QuotaGrantFactory.create_batch(3, request__state=RequestState.ACTIVE)

    with django_assert_num_queries(1):
        advance_grants(at=MORNING)
