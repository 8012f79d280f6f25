"""Jobs that ask for MIG slices and for shares of GPUs, from the form of a request to the ledger."""

import pytest
from django.db import IntegrityError

from portal.core.errors import Refused
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import PARTS_PER_GPU
from scheduling.models import DeviceHold, Job, PlacementGpu
from scheduling.reports.capacity import capacity_of
from scheduling.reports.quota_use import tenants_in_use
from scheduling.services.plans import apply_plan
from scheduling.services.requests import GroupRequest
from scheduling.snapshots import take
from tests.factories import MigInstanceFactory
from tests.scheduling.world import T0, World, after, state_of
from topology.models import Gpu, GpuMode, MigInstance, Node
from topology.services.partitions import observe_slices

SLICES = (("3g.20gb", 0), ("3g.20gb", 4))


def cut(gpu, slices=SLICES):
    """Let a board of an A100 be cut into `slices`."""
    Gpu.objects.filter(pk=gpu.pk).update(mode=GpuMode.MIG, model="A100-40GB")
    offer(gpu.node, *{f"nvidia.com/mig-{name}" for name, _ in slices})
    return [MigInstanceFactory(gpu=gpu, profile=name, start=start) for name, start in slices]


def share(gpu, replicas=4):
    Gpu.objects.filter(pk=gpu.pk).update(mode=GpuMode.TIME_SLICING, replicas=replicas)
    offer(gpu.node, "nvidia.com/gpu.shared")


def offer(node, *resources):
    Node.objects.filter(pk=node.pk).update(layout_seen={"offers": dict.fromkeys(resources, 1)})


def of_slices(count=1, *, profile="3g.20gb", members=1):
    return GroupRequest(
        members=members, gpus_per_member=0, slice_profile=profile, slices_per_member=count
    )


def of_shares(count=1, *, members=1):
    return GroupRequest(members=members, gpus_per_member=0, shares_per_member=count)


@pytest.fixture
def world(db):
    """One node of two boards; the first one is cut into two slices."""
    world = World.of(nodes=1, gpus=2)
    cut(Gpu.objects.order_by("index").first())
    return world


def held(job):
    """Labels of the devices that a job holds, and what they cost of a GPU."""
    rows = PlacementGpu.objects.active().filter(placement__job=job)
    return sorted((row.label, row.parts / PARTS_PER_GPU) for row in rows)


def test_a_job_holds_the_slices_that_it_asked_for_and_costs_their_part(world):
    job = world.running(groups=(of_slices(2),))

    assert held(job) == [("0@0", 3 / 7), ("0@4", 3 / 7)]
    assert state_of(job) == "running"


def test_what_slices_cost_is_used_of_the_quota(world):
    world.running(groups=(of_slices(),))

    snapshot = take(world.cluster, at=T0)

    (use,) = tenants_in_use([world.tenant])
    assert int(snapshot.quotas.usage.sum()) == PARTS_PER_GPU * 3 // 7
    assert (use.used, use.quotas[0].free) == (0.429, 1.571)
    assert [flavor.held for flavor in capacity_of(world.cluster)] == [1]


def test_a_board_that_is_cut_is_given_to_nobody_whole(world):
    first, second = world.started(gpus=1), world.started(gpus=1)

    assert [held(first), held(second)] == [[("1", 1)], []]


def test_a_slice_is_given_to_one_job_at_a_time(world):
    jobs = [world.started(groups=(of_slices(),)) for _ in range(3)]

    assert [held(job) for job in jobs] == [[("0@0", 3 / 7)], [("0@4", 3 / 7)], []]
    assert Job.objects.get(pk=jobs[2].pk).reason == "no_room"


@pytest.mark.parametrize(
    ("profile", "reason"), [("7g.40gb", "layout_needed"), ("1g.99gb", "never_fits")]
)
def test_a_job_for_slices_that_no_board_has_waits_for_a_layout_if_one_has_them(
    world, profile, reason
):
    job = world.started(groups=(of_slices(profile=profile),))

    assert Job.objects.get(pk=job.pk).reason == reason


def test_a_slice_that_has_gone_since_the_snapshot_costs_its_own_job_alone(world):
    lost, other = world.submit(groups=(of_slices(),)), world.submit(gpus=1)
    snapshot = take(world.cluster, at=T0)
    plan = plan_cycle(snapshot, Policy())
    MigInstance.objects.update(gone_at=T0)

    applied = apply_plan(plan, snapshot, at=T0)

    assert (applied.started, applied.skipped) == (1, 1)
    assert [state_of(lost), state_of(other)] == ["queued", "starting"]
    assert held(lost) == []


def test_shares_of_a_gpu_go_to_as_many_as_it_has(db):
    world = World.of(nodes=1, gpus=1)
    share(Gpu.objects.get(), replicas=3)

    jobs = [world.started(groups=(of_shares(),)) for _ in range(4)]

    assert [held(job) for job in jobs] == [[("0#0", 1 / 3)], [("0#1", 1 / 3)], [("0#2", 1 / 3)], []]


def test_members_of_a_gang_have_slices_of_their_own(world):
    job = world.running(groups=(of_slices(members=2),))

    assert held(job) == [("0@0", 3 / 7), ("0@4", 3 / 7)]
    assert job.members.count() == 2


def test_slices_are_kept_for_the_job_that_others_make_room_for(world):
    world.running(groups=(of_slices(2),), is_preemptible=True)
    urgent = world.submit(groups=(of_slices(2),))
    Job.objects.filter(pk=urgent.pk).update(priority=50)

    world.plan(after(20))
    first = list(DeviceHold.objects.values_list("job", "instance__start").order_by("instance"))
    world.plan(after(30))

    assert first == [(urgent.pk, 0), (urgent.pk, 4)]
    assert take(world.cluster, at=after(30)).holds[0].members[0].instances == (0, 1)


@pytest.mark.parametrize("asked", [of_slices(), of_shares()], ids=["slices", "shares"])
def test_parts_that_a_node_hands_out_as_whole_gpus_are_given_to_nobody(world, asked):
    share(Gpu.objects.get(index=1))
    offer(Node.objects.get(), "nvidia.com/gpu")

    assert held(world.started(groups=(asked,))) == []


def test_what_a_job_gave_back_is_free(world):
    job = world.running(groups=(of_slices(2),))
    world.say(job, "succeeded")
    world.end(job, "complete")

    again = world.started(groups=(of_slices(2),), at=after(30))

    assert [held(job), len(held(again))] == [[], 2]


@pytest.mark.parametrize(
    ("group", "field"),
    [
        (GroupRequest(gpus_per_member=1, shares_per_member=1), "gpus_per_member"),
        (GroupRequest(gpus_per_member=0, slices_per_member=1), "slice_profile"),
        (GroupRequest(gpus_per_member=0, slice_profile="1g.10gb"), "slice_profile"),
        (of_slices(profile="large"), "slice_profile"),
        (of_slices(profile="1g.10gb\n"), "slice_profile"),
        (of_slices(-1), "slices_per_member"),
        (of_slices(513), "slices_per_member"),
        (of_shares(513), "shares_per_member"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(world, group, field):
    with pytest.raises(Refused) as refusal:
        world.submit(groups=(group,))

    assert refusal.value.field == field


@pytest.mark.parametrize("device", [{"share": 1}, {}], ids=["a share twice", "a GPU twice"])
def test_no_device_is_in_two_active_placements(world, device):
    job = world.running(gpus=1)
    row = PlacementGpu.objects.get(placement__job=job)
    PlacementGpu.objects.filter(pk=row.pk).update(**device)

    with pytest.raises(IntegrityError, match="in_one_active_placement"):
        PlacementGpu.objects.create(
            placement=row.placement, member=row.member, gpu=row.gpu, **device
        )


def test_a_slice_that_was_out_of_sight_is_still_held_by_its_job(world):
    holders = [world.running(groups=(of_slices(),)) for _ in SLICES]
    gpu = Gpu.objects.order_by("index").first()

    observe_slices([(gpu, ())], at=after(20))
    observe_slices([(gpu, SLICES)], at=after(30))
    late = world.started(groups=(of_slices(),))

    assert [held(job) for job in (*holders, late)] == [[("0@0", 3 / 7)], [("0@4", 3 / 7)], []]
    assert state_of(late) == "queued"
    assert MigInstance.objects.filter(gone_at=None).count() == len(SLICES)


def test_a_slice_of_another_profile_at_the_same_place_is_another(world):
    gpu = Gpu.objects.order_by("index").first()

    observe_slices([(gpu, (("7g.40gb", 0),))], at=after(20))
    observe_slices([(gpu, SLICES)], at=after(30))
    observe_slices([(gpu, (("7g.40gb", 0),))], at=after(40))

    rows = MigInstance.objects.order_by("start", "profile").values_list("profile", "start")
    assert list(rows) == [("3g.20gb", 0), ("7g.40gb", 0), ("3g.20gb", 4)]
    assert MigInstance.objects.get(gone_at=None).profile == "7g.40gb"
