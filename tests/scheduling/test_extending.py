"""More time for a running job, as far as nobody else was promised its place."""

import pytest

from portal.core.errors import Conflict, NotAllowed, Refused
from portal.core.models import AuditEvent
from scheduling.models import Job
from scheduling.services.blocks import BlockRequest, promise_block
from scheduling.services.extending import WouldDelay, extend_job
from scheduling.services.maintenance import WindowRequest, plan_maintenance
from tenants.models import Quota, Role
from tenants.services.budgets import set_budget
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.world import World, after, operator, person

pytestmark = pytest.mark.django_db

HOUR = 3600


def a_world(*, nodes=1):
    """Nodes of eight GPUs, of which there are fewer than the tenant's quota."""
    world = World.of(nodes=nodes)
    Quota.objects.update(nominal=64)
    return world


@pytest.fixture
def world():
    return a_world()


def extend(world, job, hours, *, by=None, at=None):
    """Its longest run afterwards, in hours."""
    extend_job(job, int(hours * HOUR), by=by or world.researcher, at=at or after(60))
    return Job.objects.get(pk=job.pk).walltime_seconds / HOUR


def of_another_tenant(world, **what):
    """A waiting job of a tenant that the world's researcher does not belong to."""
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=world.flavor, nominal=8)
    other = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user
    return World(world.cluster, world.flavor, tenant, other).submit(**what)


def test_a_running_job_gets_more_time(world, sent, django_capture_on_commit_callbacks):
    job = world.running(walltime_seconds=HOUR)
    Job.objects.filter(pk=job.pk).update(warned_at=after(50))
    sent.clear()

    with django_capture_on_commit_callbacks(execute=True):
        assert extend(world, job, 3) == 3

    job.refresh_from_db()
    line = AuditEvent.objects.get(action="extend_job")
    last = job.events.order_by("pk").last()
    assert (job.warned_at, job.is_end_untold) == (None, True)
    assert (line.actor, line.before, line.after) == (
        world.researcher,
        {"walltime_seconds": HOUR},
        {"walltime_seconds": 3 * HOUR},
    )
    assert (last.reason, last.actor, last.at) == ("extended", world.researcher, after(60))
    assert sent == [
        ("scheduling.limit_job", {"job_id": job.pk, "attempt": 1}),
        ("scheduling.run_cycle", {"cluster_id": world.cluster.pk}),
    ]


def test_who_waits_for_its_place_is_not_made_to_wait_longer(world):
    job = world.running(walltime_seconds=HOUR)
    waiting = world.submit(walltime_seconds=HOUR)

    with pytest.raises(WouldDelay) as refused:
        extend(world, job, 2)

    assert refused.value.numbers == {
        "job": waiting.public_id,
        "at": after(10 + HOUR).isoformat(),
        "until": after(10 + 2 * HOUR).isoformat(),
    }
    assert waiting.public_id in str(refused.value)
    job.refresh_from_db()
    assert (job.walltime_seconds, job.is_end_untold) == (HOUR, False)
    assert not AuditEvent.objects.filter(action="extend_job").exists()


def test_another_tenants_job_is_not_named(world):
    job = world.running(walltime_seconds=HOUR)
    waiting = of_another_tenant(world, walltime_seconds=HOUR)

    with pytest.raises(WouldDelay) as refused:
        extend(world, job, 2)

    assert refused.value.numbers["job"] is None
    assert waiting.public_id not in str(refused.value)


def test_a_promise_that_can_be_kept_elsewhere_is_in_nobodys_way():
    world = a_world(nodes=2)
    first = world.running(walltime_seconds=HOUR)
    world.running(walltime_seconds=HOUR)
    world.submit(walltime_seconds=HOUR)

    assert extend(world, first, 5) == 5


def test_time_that_ends_before_a_promise_begins_is_free():
    world = a_world(nodes=2)
    short = world.running(walltime_seconds=HOUR)
    world.running(walltime_seconds=5 * HOUR)
    world.submit(members=2, walltime_seconds=HOUR)

    assert extend(world, short, 5) == 5
    with pytest.raises(WouldDelay):
        extend(world, short, 5.5)


def test_a_block_finds_its_gpus(world):
    job = world.running(gpus=4, walltime_seconds=HOUR)
    node = world.cluster.nodes.get()
    span = {"from_at": after(3 * HOUR), "until_at": after(9 * HOUR)}
    block = BlockRequest(name="course", amounts={node: 6}, **span)
    promise_block(block, cluster=world.cluster, by=operator())

    assert extend(world, job, 2) == 2
    with pytest.raises(WouldDelay, match="course") as refused:
        extend(world, job, 4)
    assert refused.value.numbers["at"] == after(3 * HOUR).isoformat()


def test_a_block_that_leaves_room_for_the_job_is_not_in_its_way(world):
    job = world.running(gpus=2, walltime_seconds=HOUR)
    node = world.cluster.nodes.get()
    span = {"from_at": after(3 * HOUR), "until_at": after(9 * HOUR)}
    block = BlockRequest(name="course", amounts={node: 6}, **span)
    promise_block(block, cluster=world.cluster, by=operator())

    assert extend(world, job, 4) == 4


def test_maintenance_finds_its_nodes_empty(world):
    job = world.running(walltime_seconds=HOUR)
    nodes = list(world.cluster.nodes.all())
    span = {"from_at": after(3 * HOUR), "until_at": after(9 * HOUR)}
    window = WindowRequest(nodes=nodes, **span)
    plan_maintenance(window, cluster=world.cluster, by=operator())

    assert extend(world, job, 2) == 2
    with pytest.raises(WouldDelay, match="maintenance"):
        extend(world, job, 4)


def test_a_budget_is_not_overdrawn(world):
    job = world.running(walltime_seconds=HOUR)
    span = {"from_at": after(-HOUR), "until_at": after(99 * HOUR)}
    set_budget(world.tenant, world.cluster, gpu_hours=20, by=operator(), **span)

    with pytest.raises(Refused, match="GPU-hours") as refused:
        extend(world, job, 3)

    assert refused.value.numbers["asked"] == 16 * HOUR
    assert extend(world, job, 2) == 2


@pytest.mark.parametrize("hours", [0, 1, 400 * 24], ids=["none", "no more", "beyond all bounds"])
def test_a_time_that_makes_no_sense_is_refused(world, hours):
    job = world.running(walltime_seconds=HOUR)

    with pytest.raises(Refused) as refused:
        extend(world, job, hours)

    assert refused.value.field == "walltime_seconds"


def test_a_job_without_a_limit_needs_none(world):
    job = world.running()

    with pytest.raises(Refused, match="without a limit"):
        extend(world, job, 2)


def test_what_does_not_run_is_not_extended(world):
    world.running(walltime_seconds=HOUR)
    waiting = world.submit(walltime_seconds=HOUR)

    with pytest.raises(Conflict, match="queued"):
        extend(world, waiting, 2)


def test_a_viewer_may_not(world):
    job = world.running(walltime_seconds=HOUR)

    with pytest.raises(NotAllowed):
        extend(world, job, 2, by=person(world.tenant, Role.VIEWER))


def test_what_a_cycle_decided_meanwhile_is_looked_at_again(world, monkeypatch):
    """A promise that is made between the look and the change counts."""
    job = world.running(walltime_seconds=HOUR)
    marks = iter([1, 2, 2, 2])
    monkeypatch.setattr("scheduling.services.extending.newest_cycle", lambda _cluster: next(marks))

    assert extend(world, job, 2) == 2
    assert next(marks, "none left") == "none left"
