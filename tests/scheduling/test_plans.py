import pytest

from scheduling.engine.cycle import plan_cycle
from scheduling.engine.jobs import PlacedMember
from scheduling.engine.plan import Hold, Plan, Reason, Start
from scheduling.engine.snapshot import PARTS_PER_GPU
from scheduling.models import Job, Member, Placement, PlacementGpu
from scheduling.services.lifecycle import cancel_job
from scheduling.services.plans import Applied, apply_plan
from scheduling.services.policies import DEFAULT
from scheduling.services.verdicts import readable
from scheduling.snapshots import take
from tests.scheduling.world import T0, after, held_gpus, state_of, story

NUMBERS = {7: "j-000007", 8: "j-000008"}


def planned(world, at=T0):
    """What the cluster looks like, and what to do about it."""
    snapshot = take(world.cluster, at=at)
    return snapshot, plan_cycle(snapshot, DEFAULT)


def test_a_start_writes_the_whole_ledger(world, sent, django_capture_on_commit_callbacks):
    job = world.submit(members=3, gpus=4)
    snapshot, plan = planned(world, at=after(5))

    with django_capture_on_commit_callbacks(execute=True):
        applied = apply_plan(plan, snapshot, at=after(5))

    job.refresh_from_db()
    members = job.members.order_by("rank")
    assert applied == Applied(started=1, skipped=0, held=0)
    assert (job.state, job.attempt) == ("starting", 1)
    assert job.release_by is not None
    assert sorted(
        Placement.objects.values_list("attempt", "member_count", "bound_at", "released_at")
    ) == [(1, 1, after(5), None), (1, 2, after(5), None)]
    assert [(m.rank, m.attempt, m.phase, m.devices.count()) for m in members] == [
        (rank, 1, "expected", 4) for rank in range(3)
    ]
    assert all(
        device.placement_id == member.placement_id
        and device.gpu.node_id == device.placement.node_id
        for member in members
        for device in member.devices.all()
    )
    assert sent == [("scheduling.bind_job", {"job_id": job.pk, "attempt": 1})]


def test_a_start_that_meets_a_cancelled_job_is_lost_alone(world):
    first, second = world.submit(), world.submit()
    snapshot, plan = planned(world)
    cancel_job(first, by=world.researcher, at=T0)

    applied = apply_plan(plan, snapshot, at=T0)

    assert applied == Applied(started=1, skipped=1, held=0)
    assert (state_of(first), state_of(second)) == ("cancelled", "starting")
    assert story(first) == ["queued", "cancelled"]
    assert set(Placement.objects.values_list("job_id", flat=True)) == {second.pk}


def test_a_job_put_on_hold_meanwhile_does_not_start(world):
    job = world.submit()
    snapshot, plan = planned(world)
    Job.objects.filter(pk=job.pk).update(is_held=True)

    applied = apply_plan(plan, snapshot, at=T0)

    assert (applied, state_of(job)) == (Applied(started=0, skipped=1, held=0), "queued")


def test_a_device_taken_meanwhile_loses_its_start_alone(
    world, sent, django_capture_on_commit_callbacks
):
    first, second = world.submit(), world.submit()
    snapshot, plan = planned(world)
    intruder = world.submit(gpus=0)
    theft = Plan(snapshot.taken_at, (Start(intruder.pk, (PlacedMember(0, 0, 0, (0,)),)),))
    with django_capture_on_commit_callbacks():  # whatever it sends is not of interest
        apply_plan(theft, snapshot, at=T0)

    with django_capture_on_commit_callbacks(execute=True):
        applied = apply_plan(plan, snapshot, at=T0)

    states = sorted([state_of(first), state_of(second)])
    assert (applied, states) == (Applied(started=1, skipped=1, held=0), ["queued", "starting"])
    assert len(held_gpus()) == len(set(held_gpus())) == 9
    assert [name for name, _ in sent] == ["scheduling.bind_job"]
    waiting = Job.objects.get(state="queued")
    assert (waiting.attempt, story(waiting), waiting.members.count()) == (0, ["queued"], 0)


def test_a_plan_carried_out_twice_starts_nothing_twice(world):
    world.submit()
    snapshot, plan = planned(world)
    apply_plan(plan, snapshot, at=T0)

    applied = apply_plan(plan, snapshot, at=T0)

    assert applied == Applied(started=0, skipped=1, held=0)
    assert (Placement.objects.count(), Member.objects.count()) == (1, 1)


def test_no_placement_begins_before_its_devices_were_given_back(world):
    before = world.running(members=2)
    for rank in range(2):
        world.say(before, "succeeded", rank=rank, ended_at=after(60), at=after(60))
    world.submit(at=after(20))

    world.plan(at=after(30))

    placement = Placement.objects.active().get()
    assert placement.bound_at == after(60)


def test_a_job_started_again_gets_rows_of_its_own(world):
    job = world.running()
    Job.objects.filter(pk=job.pk).update(state="stopping", stopping_to="queued")
    world.say(job, "gone")

    world.plan(at=after(60))

    assert list(job.members.order_by("attempt").values_list("attempt", "rank", "phase")) == [
        (1, 0, "gone"),
        (2, 0, "expected"),
    ]
    assert PlacementGpu.objects.active().count() == 8


def test_a_hold_notes_why_and_is_written_only_when_it_changed(world):
    job = world.submit(members=3)
    snapshot, plan = planned(world)
    first = apply_plan(plan, snapshot, at=T0)
    noted = Job.objects.get(pk=job.pk)

    second = apply_plan(plan, snapshot, at=after(10))

    unchanged = Job.objects.get(pk=job.pk)
    assert (first.held, second.held) == (1, 0)
    assert (noted.reason, noted.reason_at, noted.version) == ("never_fits", T0, 1)
    assert (unchanged.reason_at, unchanged.version) == (T0, 1)


def test_a_reason_with_other_numbers_is_written_again(world):
    world.started(members=1)
    job = world.submit(members=2, gpus=5)
    world.plan()
    before = Job.objects.get(pk=job.pk)
    world.started(members=1, gpus=1)

    world.plan(at=after(10))

    changed = Job.objects.get(pk=job.pk)
    assert (before.reason, before.reason_numbers) != (changed.reason, changed.reason_numbers)
    assert changed.reason_at == after(10)


def test_a_hold_that_meets_a_cancelled_job_is_not_written(world):
    job = world.submit(members=3)
    snapshot, plan = planned(world)
    cancel_job(job, by=world.researcher, at=T0)

    applied = apply_plan(plan, snapshot, at=T0)

    assert applied.held == 0
    assert Job.objects.get(pk=job.pk).reason == ""


def test_many_holds_of_one_reason_are_one_query(world, django_assert_max_num_queries):
    world.started(members=2)
    for _ in range(10):
        world.submit(gpus=1)
    snapshot, plan = planned(world)

    # Holds: savepoint, known, change, kept devices, savepoint; reservations: three.
    with django_assert_max_num_queries(8):
        applied = apply_plan(plan, snapshot, at=T0)

    assert applied.held == 10


@pytest.mark.parametrize(
    ("reason", "numbers", "shown"),
    [
        (
            Reason.QUOTA_EXHAUSTED,
            (("at", "vision"), ("free", 0), ("asked", 2 * PARTS_PER_GPU)),
            {"at": "vision", "free": 0, "asked": 2},
        ),
        (
            Reason.OVER_CEILING,
            (("limit", PARTS_PER_GPU // 2), ("asked", PARTS_PER_GPU)),
            {"limit": 0.5, "asked": 1},
        ),
        (Reason.NOT_BEFORE, (("at", 1_767_225_600),), {"at": "2026-01-01T00:00:00+00:00"}),
        (
            Reason.MAKING_ROOM,
            (("victims", (7, 8)), ("until", 1_767_225_600)),
            {"victims": ["j-000007", "j-000008"], "until": "2026-01-01T00:00:00+00:00"},
        ),
        (Reason.WAITING_FOR_DEPENDENCY, (("waits_for", 7),), {"waits_for": "j-000007"}),
        (Reason.NO_ROOM, (("missing", 3),), {"missing": 3}),
    ],
)
def test_numbers_are_kept_as_people_read_them(reason, numbers, shown):
    assert readable(Hold(1, reason, numbers), NUMBERS) == shown
