"""What is kept for a job is kept only while that job could still start on it."""

import pytest

from scheduling.engine.cycle import plan_cycle
from scheduling.engine.jobs import Access, Group, PendingJob, PlacedMember, Request
from scheduling.engine.plan import Start
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import HeldDevices, Snapshot

NOW = 1_000_000
FOUR = (0, 1, 2, 3)


def waiting(job, gpus):
    request = Request(kind=Access.WHOLE, count=gpus)
    return PendingJob(id=job, name=f"j{job}", tenant=0, groups=(Group(request=request),))


def started(kept, *, asked, broken=()):
    """Who starts on a node of four GPUs, of which `kept` are held for job 1 that asks `asked`."""
    held = HeldDevices(1, (PlacedMember(0, 0, 0, kept),), until=NOW + 300)
    snapshot = Snapshot.of(
        taken_at=NOW,
        node_ids=(1,),
        node_names=("n1",),
        gpu_ids=FOUR,
        gpu_node=[0] * 4,
        gpu_open=[gpu not in broken for gpu in FOUR],
        tenant_ids=(1,),
        tenant_names=("t",),
        pending=(waiting(1, asked), waiting(2, 3)),
        holds=(held,),
    )
    return [start.job for start in plan_cycle(snapshot, Policy(order="fifo")).of(Start)]


def test_a_job_starts_on_what_is_kept_for_it():
    assert started((2, 3), asked=2) == [1]


@pytest.mark.parametrize(
    ("kept", "asked", "broken"),
    [((0, 1, 2, 3), 4, (0,)), ((0, 1), 5, ())],
    ids=["a kept device broke", "the job asks for more now"],
)
def test_what_is_kept_in_vain_is_for_others(kept, asked, broken):
    assert started(kept, asked=asked, broken=broken) == [2]
