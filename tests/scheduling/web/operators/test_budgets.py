"""GPU-hour budgets on a tenant's page: set by operators, told to all who are in it."""

from datetime import timedelta

import pytest

from portal.core.models import AuditEvent
from scheduling.models import Job
from scheduling.reports.budgets import budgets_of
from scheduling.web.operators.tags import budget_says
from tenants.models import Budget
from tests.factories import BudgetFactory
from tests.scene import NOON
from tests.scheduling.test_promises import HOUR, T0, after, used
from tests.scheduling.web.operators.test_policy import text_of
from tests.scheduling.world import World

PAGE = "/tenants/nlp/"
FORM = PAGE + "budget/"


def form(**said):
    usual = {
        "cluster": "demo",
        "gpu_hours": "500",
        "from_at": "2026-03-01T00:00",
        "until_at": "2026-03-11T00:00",
    }
    return usual | said


@pytest.fixture
def world(db):
    return World.of()


def burn(world, gpu_hours, begin=-10 * HOUR, end=30 * HOUR):
    BudgetFactory(
        tenant=world.tenant,
        cluster=world.cluster,
        gpu_hours=gpu_hours,
        from_at=after(begin),
        until_at=after(end),
    )
    (use,) = budgets_of(world.tenant, wall=T0)
    return use


def test_use_is_counted_from_the_begin_as_the_scheduler_counts_it(world):
    used(world, 8, -12 * HOUR, -5 * HOUR)  # five hours of it
    used(world, 4, -HOUR, None)
    used(world, 8, -3 * HOUR, -2 * HOUR)
    Job.objects.order_by("-pk").filter(pk=Job.objects.latest("pk").pk).update(is_standby=True)
    used(World.of(), 8, -HOUR, 0)

    use = burn(world, 88)

    assert (round(use.used, 3), round(use.left, 3)) == (44, 44)
    assert use.ends_at == after(10 * HOUR)
    assert [round(hours, 2) for _at, hours in use.course[::12]] == [0, 40, 44]
    assert budget_says(use) == (
        "44 of 88 GPU-hours used, 44 left. "
        "At this pace the hours end on 2026-01-01, before the budget does."
    )


@pytest.mark.parametrize(
    ("gpu_hours", "begin", "says"),
    [
        (400, -10 * HOUR, "40 of 400 GPU-hours used, 360 left. At this pace the hours last"),
        (30, -10 * HOUR, "40 of 30 GPU-hours used, 0 left. The hours are used up"),
        (30, HOUR, "30 GPU-hours; it has not begun."),
    ],
)
def test_the_words_say_how_long_the_rest_lasts(world, gpu_hours, begin, says):
    used(world, 8, -10 * HOUR, -5 * HOUR)

    assert budget_says(burn(world, gpu_hours, begin)).startswith(says)


def test_a_budget_that_nothing_was_used_of_does_not_end(world):
    assert "the hours will not end" in budget_says(burn(world, 5))


def test_a_budget_that_is_over_is_not_shown(world):
    BudgetFactory(tenant=world.tenant, cluster=world.cluster, from_at=after(-HOUR), until_at=T0)

    assert budgets_of(world.tenant, wall=T0) == []


def test_an_operator_sets_and_changes_a_budget_on_the_tenants_page(as_root):
    answer = as_root.post(FORM, form())
    budget = Budget.objects.get()
    shown = as_root.get(f"{FORM}?change={budget.pk}").context["form"]
    as_root.post(FORM, form(gpu_hours="600"))

    assert (answer.status_code, answer["Location"]) == (302, PAGE)
    assert (shown["gpu_hours"].value(), shown["cluster"].value()) == (500, "demo")
    assert list(Budget.objects.values_list("gpu_hours", flat=True)) == [600]
    event = AuditEvent.objects.filter(action="set_budget").latest("pk")
    assert (event.before["gpu_hours"], event.after["gpu_hours"]) == (500, 600)
    page = text_of(as_root.get(PAGE))
    assert "of 600 GPU-hours used" in page
    assert "2026-03-11 00:00 · set by root" in page


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"gpu_hours": "-1"}, "greater than or equal to 0"),
        ({"gpu_hours": ""}, "This field is required."),
        ({"until_at": "2026-03-01T00:00"}, "A budget ends after it begins."),
        ({"until_at": "2500-01-01T00:00"}, "in the years 2000 to 2199"),
        ({"cluster": "gone"}, "Select a valid choice"),
    ],
)
def test_what_is_no_budget_is_refused(as_root, said, complaint):
    answer = as_root.post(FORM, form(**said))

    assert answer.status_code == 422
    assert complaint in text_of(answer)
    assert not Budget.objects.exists()


def test_members_see_it_and_only_operators_set_it(as_person, scene):
    BudgetFactory(
        tenant=scene.language,
        cluster=scene.cluster,
        from_at=NOON - timedelta(days=1),
        until_at=NOON + timedelta(days=9),
    )

    page = as_person("omar").get(PAGE)
    statuses = {
        who: (as_person(who).get(FORM).status_code, as_person(who).post(FORM, form()).status_code)
        for who in ("mei", "omar", "newcomer")
    }

    assert "of 100 GPU-hours used" in text_of(page)
    assert FORM not in page.content.decode()
    assert statuses == {"mei": (403, 403), "omar": (403, 403), "newcomer": (404, 404)}


@pytest.mark.parametrize("count", [1, 4])
def test_it_costs_the_same_for_any_number(world, count, django_assert_num_queries):
    for number in range(count):
        used(world, 1, -HOUR * (number + 1), None)
        BudgetFactory(tenant=world.tenant, cluster=world.cluster, from_at=after(-HOUR - number))

    with django_assert_num_queries(3):
        assert len(budgets_of(world.tenant, wall=T0)) == count
