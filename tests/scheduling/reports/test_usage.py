from datetime import timedelta

import pytest

from scheduling.reports.usage import TenantUsage, usage_by_tenant
from tests.factories import (
    JobFactory,
    MemberFactory,
    MembershipFactory,
    PlacementFactory,
    TenantFactory,
    UserFactory,
)
from tests.factories.scheduling import T0

DAY = {"since": T0, "until": T0 + timedelta(days=1)}


def seconds(number):
    return None if number is None else T0 + timedelta(seconds=number)


def run(tenant, *, gpus, held, ran, count=1):
    """A placement of `count` members of `gpus` each, held and run in the given seconds."""
    job = JobFactory(tenant=tenant, members=count, members__gpus=gpus)
    placement = PlacementFactory(
        job=job, member_count=count, bound_at=seconds(held[0]), released_at=seconds(held[1])
    )
    for rank in range(count):
        MemberFactory(
            placement=placement, rank=rank, started_at=seconds(ran[0]), ended_at=seconds(ran[1])
        )


@pytest.fixture
def vision(db):
    return TenantFactory(slug="vision")


@pytest.fixture
def operator(db):
    return UserFactory(is_operator=True)


def test_run_and_held_are_told_apart(vision, operator):
    run(vision, gpus=8, count=2, held=(0, 110), ran=(5, 105))

    assert usage_by_tenant(operator, **DAY) == [TenantUsage("vision", 16 * 100, 16 * 110)]


@pytest.mark.parametrize(
    ("held", "ran", "want"),
    [
        ((-50, 100), (-40, 90), (90, 100)),
        ((86_300, 86_500), (86_350, 86_450), (50, 100)),
        ((-100, 90_000), (-90, 80_000), (80_000, 86_400)),
        ((86_300, None), (86_350, None), (50, 100)),
        ((10, None), (None, None), (0, 86_390)),
    ],
)
def test_only_what_lies_inside_the_window_counts(vision, operator, held, ran, want):
    run(vision, gpus=1, held=held, ran=ran)

    assert usage_by_tenant(operator, **DAY) == [TenantUsage("vision", *want)]


@pytest.mark.parametrize("held", [(-100, 0), (86_400, 90_000), (90_000, None)])
def test_what_lies_outside_is_not_there(vision, operator, held):
    run(vision, gpus=1, held=held, ran=held)

    assert usage_by_tenant(operator, **DAY) == []


def test_most_held_comes_first_and_strangers_see_nothing_of_it(vision, operator):
    speech = TenantFactory(slug="speech")
    run(vision, gpus=1, held=(0, 100), ran=(0, 100))
    run(speech, gpus=8, held=(0, 100), ran=(0, 50))
    run(vision, gpus=2, held=(0, 100), ran=(0, 100))
    member = MembershipFactory(tenant=vision).user

    assert usage_by_tenant(operator, **DAY) == [
        TenantUsage("speech", 400, 800),
        TenantUsage("vision", 300, 300),
    ]
    assert usage_by_tenant(member, **DAY) == [TenantUsage("vision", 300, 300)]
    assert usage_by_tenant(UserFactory(), **DAY) == []


@pytest.mark.parametrize("count", [1, 3])
def test_it_costs_two_queries_for_any_number(operator, count, django_assert_num_queries):
    for tenant in TenantFactory.create_batch(count):
        run(tenant, gpus=1, held=(0, 100), ran=(0, 100))

    with django_assert_num_queries(2):
        assert len(usage_by_tenant(operator, **DAY)) == count


def test_a_member_whose_end_nobody_saw_ran_no_longer_than_it_held_its_place(vision, operator):
    run(vision, gpus=2, held=(0, 100), ran=(10, None))

    assert usage_by_tenant(operator, **DAY) == [TenantUsage("vision", 180, 200)]
