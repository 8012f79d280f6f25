"""Jobs that ask for a part of one GPU by amounts, from the form of a request to the ledger."""

import pytest
from django.db import transaction

from portal.core.errors import Refused
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.invariants import violations
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import PARTS_PER_GPU
from scheduling.models import DeviceHold, PlacementGpu
from scheduling.reports.jobs import devices_text
from scheduling.reports.spec import spec_of
from scheduling.services.devices import DeviceGone
from scheduling.services.requests import GroupRequest
from scheduling.services.seats import take_seats
from scheduling.snapshots import take
from tests.scheduling.world import T0, World, state_of
from topology.models import Gpu, GpuMode


def of_part(milli=250, mib=10_240, *, members=1, **other):
    part = {"gpu_milli": milli, "gpu_mib": mib}
    return GroupRequest(**{"members": members, "gpus_per_member": 0, **part, **other})


@pytest.fixture
def world(db):
    """One node of two boards of 40 GiB, which HAMi hands out."""
    world = World.of(nodes=1, gpus=2)
    Gpu.objects.update(mode=GpuMode.HAMI, memory_mib=40_960)
    return world


@pytest.mark.parametrize(
    ("group", "field"),
    [
        (of_part(milli=90), "gpu_milli"),
        (of_part(milli=1010), "gpu_milli"),
        (of_part(milli=255), "gpu_milli"),
        (of_part(mib=0), "gpu_mib"),
        (of_part(milli=0), "gpu_milli"),
        (of_part(mib=-1), "gpu_mib"),
        (of_part(gpus_per_member=1), "gpus_per_member"),
        (of_part(shares_per_member=1), "gpus_per_member"),
    ],
)
def test_what_is_no_part_of_a_gpu_is_refused(world, group, field):
    with pytest.raises(Refused) as refused:
        world.submit(groups=(group,))

    assert refused.value.field == field


def test_parts_lie_on_one_gpu_as_long_as_they_fit_and_have_numbers_there(world):
    job = world.running(groups=(of_part(milli=400, mib=8_192, members=3),))

    held = PlacementGpu.objects.order_by("member__rank")
    assert [(row.label, row.milli, row.mib, row.parts) for row in held] == [
        ("0#0", 400, 8_192, PARTS_PER_GPU * 4 // 10),
        ("0#1", 400, 8_192, PARTS_PER_GPU * 4 // 10),
        ("1#0", 400, 8_192, PARTS_PER_GPU * 4 // 10),
    ]
    assert state_of(job) == "running"


def test_what_parts_hold_is_not_free_and_is_used_of_the_quota(world):
    world.running(groups=(of_part(milli=250, mib=20_480),))

    snapshot = take(world.cluster, at=T0)

    assert snapshot.gpu_free_milli.tolist() == [750, 1000]
    assert snapshot.gpu_free_memory_mib.tolist() == [20_480, 40_960]
    assert int(snapshot.quotas.usage.sum()) == PARTS_PER_GPU // 2


def test_a_plan_of_parts_keeps_the_rules(world):
    world.running(groups=(of_part(milli=700, mib=1_024),))
    for milli in (200, 200, 500, 900):
        world.submit(groups=(of_part(milli=milli, mib=1_024),))

    snapshot = take(world.cluster, at=T0)

    assert violations(snapshot, plan_cycle(snapshot, Policy())) == []


@pytest.mark.parametrize(("milli", "mib"), [(800, 1_024), (100, 36_000)])
def test_a_gpu_is_never_given_out_beyond_what_it_has(world, milli, mib):
    """Whatever a plan says that was made of an older snapshot."""
    world.running(groups=(of_part(),))
    held = PlacementGpu.objects.get()
    more = PlacementGpu(
        placement=held.placement, member=held.member, gpu=held.gpu, milli=milli, mib=mib
    )

    with transaction.atomic(), pytest.raises(DeviceGone):
        take_seats([more])


def test_a_gpu_that_somebody_holds_whole_has_no_parts_to_give(world):
    world.running(groups=(of_part(),))
    held = PlacementGpu.objects.get()
    PlacementGpu.objects.update(milli=None, mib=None, share=None)
    held.pk, held.share = None, None

    with transaction.atomic(), pytest.raises(DeviceGone):
        take_seats([held])


def test_several_parts_of_one_gpu_may_be_kept_for_a_waiting_job(world):
    job = world.submit(groups=(of_part(members=2),))
    gpu = Gpu.objects.order_by("index").first()
    kept = {"job": job, "group_index": 0, "node": gpu.node, "gpu": gpu, "milli": 250}
    DeviceHold.objects.bulk_create(
        DeviceHold(**kept, rank=rank, until=T0.replace(year=2027)) for rank in range(2)
    )

    (hold,) = take(world.cluster, at=T0).holds

    assert [member.gpus for member in hold.members] == [(0,), (0,)]


def test_a_job_is_told_and_submitted_again_in_the_words_it_came_in(world):
    job = world.submit(groups=(of_part(milli=125 * 2, mib=10_240),))

    said = spec_of(job)

    assert (said["gpu_milli"], said["gpu_mib"]) == (250, 10_240)
    assert "gpus_per_member" not in said
    assert devices_text(job.groups.get()) == "25% 10 GiB"
