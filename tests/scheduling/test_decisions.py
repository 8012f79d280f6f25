"""Decisions other than starts, carried out: made by hand here, whatever the engine would decide."""

from datetime import UTC, datetime

import pytest

from portal.core.errors import Refused
from scheduling.engine.jobs import PlacedMember
from scheduling.engine.plan import Hold, Plan, Preempt, Reason, Reserve
from scheduling.models import DeviceHold, Job, Reservation, ServiceClass
from scheduling.services.plans import Applied, apply_plan
from scheduling.services.requests import After, Wishes
from scheduling.snapshots import take
from scheduling.snapshots.times import seconds
from tests.scheduling.world import T0, after, held_gpus, state_of, story

pytestmark = pytest.mark.django_db


def carry_out(world, *decisions):
    snapshot = take(world.cluster, at=T0)
    return apply_plan(Plan(seconds(T0), decisions), snapshot, at=T0)


def test_a_victim_is_told_for_whom_and_waits_again_with_its_submit_time(world):
    victim = world.running(members=2)
    claimant = world.submit(gpus=1)

    carry_out(world, Preempt(victim.pk, on_behalf_of=claimant.pk))
    for rank in range(2):
        world.say(victim, "gone", rank=rank)

    victim.refresh_from_db()
    assert story(victim) == ["queued", "starting", "running", "stopping", "queued"]
    assert (victim.submitted_at, victim.preempted_count, victim.stopping_for) == (T0, 1, None)
    assert victim.events.get(to_state="stopping").reason == f"preempted for {claimant.public_id}"


def test_a_victim_that_ended_in_the_meantime_is_left_alone(world):
    victim = world.started(gpus=1)
    Job.objects.filter(pk=victim.pk).update(state="succeeded")

    applied = carry_out(world, Preempt(victim.pk, on_behalf_of=None))

    assert (applied, state_of(victim)) == (Applied(started=0, skipped=1, held=0), "succeeded")


def test_devices_kept_for_a_waiting_job_are_those_of_the_last_plan(world):
    waiting = world.submit(gpus=1)
    node = world.cluster.nodes.order_by("name").first()
    first, second = node.gpus.order_by("index")[:2]

    def keep(gpu):
        return Hold(
            waiting.pk,
            Reason.MAKING_ROOM,
            keeps=(PlacedMember(0, 0, 0, (gpu,)),),
            keeps_until=seconds(T0) + 60,
        )

    carry_out(world, keep(0))
    seen = take(world.cluster, at=T0).holds
    before = list(DeviceHold.objects.values_list("job_id", "gpu_id", "until"))
    carry_out(world, keep(1))

    assert [(hold.job, hold.members) for hold in seen] == [
        (waiting.pk, (PlacedMember(0, 0, 0, (0,)),))
    ]
    assert before == [(waiting.pk, first.pk, after(60))]
    assert list(DeviceHold.objects.values_list("gpu_id", flat=True)) == [second.pk]


def test_a_reservation_stays_as_promised_until_it_changes(world):
    waiting = world.submit(gpus=1)
    hold = Hold(waiting.pk, Reason.NO_ROOM, (("missing", 1),))

    def promise(start_at):
        return Reserve(waiting.pk, start_at, ((0, 1, 1),))

    carry_out(world, promise(seconds(T0) + 600), hold)
    first = Reservation.objects.get()
    carry_out(world, promise(seconds(T0) + 600), hold)
    same = Reservation.objects.get()
    carry_out(world, promise(seconds(T0) + 300), hold)
    sooner = Reservation.objects.get()
    carry_out(world, hold)

    name = world.cluster.nodes.order_by("name").first().name
    assert (first.start_at, first.amounts) == (after(600), [[name, 1, 1]])
    assert same.pk == first.pk
    assert sooner.start_at == after(300)
    assert not Reservation.objects.exists()


def test_a_job_whose_dependency_failed_has_failed_at_once(world):
    parent = world.submit(gpus=1)
    child = world.submit(gpus=1, wishes=Wishes(after=(After(job=parent),)))

    carry_out(world, Hold(child.pk, Reason.DEPENDENCY_FAILED, (("job", parent.pk),)))

    child.refresh_from_db()
    assert (child.state, child.reason_numbers) == ("failed", {"job": parent.public_id})


def test_dependencies_reach_the_snapshot_with_their_state(world):
    done, waiting = world.submit(gpus=1), world.submit(gpus=1)
    Job.objects.filter(pk=done.pk).update(state="cancelled")
    wishes = Wishes(after=(After(job=done, needs_success=False), After(job=waiting)))
    child = world.submit(gpus=1, wishes=wishes)

    pending = {job.id: job for job in take(world.cluster, at=T0).pending}

    assert [(d.job, d.needs_success, d.state) for d in pending[child.pk].after] == [
        (done.pk, False, "failed"),
        (waiting.pk, True, "waiting"),
    ]


@pytest.mark.parametrize(
    ("field", "wishes"),
    [
        ("gpu_memory_mib", {"gpu_memory_mib": -1}),
        ("grace_seconds", {"grace_seconds": 90_000}),
        ("patience_seconds", {"patience_seconds": 60}),
        ("min_total", {"min_total": 3}),
    ],
)
def test_a_wish_that_contradicts_itself_is_refused_by_name(world, field, wishes):
    with pytest.raises(Refused) as refusal:
        world.submit(members=2, wishes=Wishes(**wishes))

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("service", "what", "is_refused"),
    [
        ("latency_critical", {"gpus": 1}, False),
        ("latency_critical", {"gpus": 0}, True),
        ("latency_sensitive", {"gpus": 0}, True),
        ("latency_sensitive", {"gpus": 1, "is_standby": True}, True),
        ("offline", {"gpus": 1, "is_preemptible": False}, True),
        ("offline", {"gpus": 0}, False),
        ("training", {"gpus": 0, "is_preemptible": False}, False),
    ],
)
def test_a_request_that_its_service_class_cannot_promise_is_refused(
    world, service, what, is_refused
):
    is_standby = what.pop("is_standby", False)
    wishes = Wishes(service_class=ServiceClass(service), is_standby=is_standby)

    try:
        world.submit(wishes=wishes, **what)
        field = None
    except Refused as refusal:
        field = refusal.field

    assert field == ("service_class" if is_refused else None)


def test_a_job_of_another_tenant_cannot_be_waited_for(world):
    other = type(world).of()
    theirs = other.submit(gpus=1)

    with pytest.raises(Refused, match="There is no job"):
        world.submit(gpus=1, wishes=Wishes(after=(After(job=theirs),)))


def test_wishes_reach_the_snapshot(world):
    job = world.submit(
        wishes=Wishes(required="rack", preferred="nvl", patience_seconds=5, needs_island=True)
    )

    (pending,) = take(world.cluster, at=datetime(2026, 1, 1, tzinfo=UTC)).pending

    assert (pending.id, pending.required.name, pending.preferred.name) == (job.pk, "RACK", "NVL")
    assert (pending.patience_seconds, pending.island) == (5, True)


@pytest.mark.parametrize("first", [0, 1])
def test_a_gang_whose_members_end_one_after_the_other_is_whole_to_its_end(world, first):
    job = world.running(members=2, gpus=8)
    world.say(job, "succeeded", rank=first)
    world.cluster.nodes.update(is_cordoned=True)  # no room to make it whole, were it not

    world.plan(at=after(30))

    assert (state_of(job), len(held_gpus())) == ("running", 8)
    assert story(job) == ["queued", "starting", "running"]
