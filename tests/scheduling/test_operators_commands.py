"""Budgets, maintenance and blocks from the command line."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from scheduling.models import CapacityBlock
from tenants.models import Budget
from tests.scheduling.world import after, operator
from topology.models import MaintenanceWindow

SPAN = ("--from", "2026-01-01T01:00:00Z", "--until", "2026-01-01T02:00:00+00:00")


def run(name, *arguments, by=None):
    out = StringIO()
    by = by or operator().username
    call_command(name, *map(str, arguments), *SPAN, "--as", by, stdout=out)
    return out.getvalue()


def test_a_budget_is_set(world):
    run("set_budget", world.tenant.slug, world.cluster.slug, 500)

    budget = Budget.objects.get()
    assert (budget.tenant, budget.cluster, budget.gpu_hours) == (world.tenant, world.cluster, 500)
    assert (budget.from_at, budget.until_at) == (after(3600), after(7200))


def test_maintenance_is_planned(world):
    first, second = world.cluster.nodes.order_by("name")

    run("plan_maintenance", world.cluster.slug, second.name, "--note", "new firmware")

    window = MaintenanceWindow.objects.get()
    assert (list(window.nodes.all()), window.note) == ([second], "new firmware")
    assert first.maintenance_windows.count() == 0


def test_a_block_is_promised(world):
    first, second = world.cluster.nodes.order_by("name")
    parts = (f"{first.name}=8", f"{second.name}=4")

    run("promise_block", world.cluster.slug, "course", *parts, "--tenant", world.tenant.slug)

    block = CapacityBlock.objects.get()
    assert (block.name, block.tenant) == ("course", world.tenant)
    assert dict(block.parts.values_list("node__name", "gpus")) == {first.name: 8, second.name: 4}


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("set_budget", ("nobody", "CLUSTER", 5), "no tenant nobody"),
        ("set_budget", ("TENANT", "nowhere", 5), "no cluster nowhere"),
        ("plan_maintenance", ("CLUSTER", "nothing"), "has no node nothing"),
        ("promise_block", ("CLUSTER", "b", "NODE"), "is no NODE=GPUS"),
        ("promise_block", ("CLUSTER", "b", "NODE=99"), "has 8 GPUs"),
    ],
)
def test_what_is_not_there_is_named(world, name, arguments, complaint):
    names = {
        "CLUSTER": world.cluster.slug,
        "TENANT": world.tenant.slug,
        "NODE": world.cluster.nodes.first().name,
        "NODE=99": f"{world.cluster.nodes.first().name}=99",
    }

    with pytest.raises(CommandError, match=complaint):
        run(name, *(names.get(own, own) for own in arguments))


def test_who_is_no_operator_may_not(world):
    with pytest.raises(CommandError):
        run("set_budget", world.tenant.slug, world.cluster.slug, 5, by=world.researcher.username)

    assert not Budget.objects.exists()
