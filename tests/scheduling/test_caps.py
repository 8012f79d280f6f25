"""What one person may do in a tenant: refused at submission, waited for, and changed live."""

import pytest

from portal.core.errors import NotAllowed, Refused
from portal.core.models import AuditEvent
from scheduling import snapshots
from scheduling.engine.explain import ChangeKind
from scheduling.models import Job
from scheduling.reports.explanation import reasoning
from scheduling.reports.reasons import facts
from scheduling.services.arrays import submit_array
from scheduling.services.caps import Over, change_caps
from scheduling.services.changing import JobChange, change_waiting_job
from scheduling.services.extending import extend_job
from scheduling.services.requests import After, ArrayRequest, GroupRequest, Wishes
from scheduling.services.trial import try_job
from tenants.models import Membership, Role
from tenants.services.membership import Caps
from tests.factories import MembershipFactory, PriorityClassFactory
from tests.scheduling.world import T0, after, held_gpus, person, state_of

HOUR = 3600


@pytest.fixture
def own(world):
    """The researcher's membership, in a cluster of two nodes of eight GPUs."""
    return Membership.objects.get(user=world.researcher)


@pytest.fixture
def lead(world):
    return person(world.tenant, Role.LEAD)


def cap(own, **caps):
    Membership.objects.filter(pk=own.pk).update(**caps)


def why(job):
    job = Job.objects.get(pk=job.pk)
    reason = reasoning(job)
    return reason.code, reason.text, {fact.code: fact.value for fact in facts(job)}


def states(*jobs):
    return [state_of(job) for job in jobs]


def end(world, job):
    job.refresh_from_db()
    world.say(job, "succeeded")
    world.end(job, "complete")


def test_a_job_larger_than_the_cap_is_refused_with_what_to_do(world, own):
    cap(own, gpus_at_once=8)

    with pytest.raises(Refused) as refusal:
        world.submit(members=2, gpus=8)

    assert refusal.value.field == "gpus_per_member"
    assert refusal.value.numbers == {"limit": 8, "asked": 16}
    assert "ask for less, or ask a lead" in str(refusal.value)
    assert not Job.objects.exists()
    assert world.submit(gpus=8).pk


def test_a_gang_counts_as_large_as_it_may_grow(world, own):
    cap(own, gpus_at_once=8)
    grows = GroupRequest(members=1, min_member=1, max_member=2, gpus_per_member=8)

    with pytest.raises(Refused):
        world.submit(groups=(grows,))


def test_parts_of_gpus_count_one_each_as_they_do_while_they_run(world, own):
    cap(own, gpus_at_once=1)
    parts = GroupRequest(members=2, gpus_per_member=0, gpu_milli=500, gpu_mib=1024)

    with pytest.raises(Refused) as refusal:
        world.submit(groups=(parts,))

    assert refusal.value.numbers == {"limit": 1, "asked": 2}


@pytest.mark.parametrize("seconds", [None, 2 * HOUR + 1])
def test_a_run_longer_than_the_cap_is_refused(world, own, seconds):
    cap(own, job_hours=2)

    with pytest.raises(Refused) as refusal:
        world.submit(walltime_seconds=seconds)

    assert refusal.value.field == "walltime_seconds"
    assert world.submit(walltime_seconds=2 * HOUR).pk


def test_a_priority_above_the_cap_is_refused_the_default_too(world, own):
    low, high = PriorityClassFactory(value=5), PriorityClassFactory(value=9, is_default=True)
    cap(own, highest_priority=low)

    for asked in (high, None):
        with pytest.raises(Refused) as refusal:
            world.submit(priority_class=asked)
        assert refusal.value.field == "priority"
    assert world.submit(priority_class=low).priority == 5


def test_an_array_and_a_trial_are_refused_the_same(world, own):
    cap(own, gpus_at_once=4)
    request = world.request(groups=(GroupRequest(gpus_per_member=8),))
    told = {"tenant": world.tenant, "by": world.researcher, "at": T0}

    for asks in (
        lambda: submit_array(ArrayRequest(job=request, tasks=2), **told),
        lambda: try_job(request, **told),
    ):
        with pytest.raises(Refused) as refusal:
            asks()
        assert refusal.value.field == "gpus_per_member"


def test_another_tenant_and_another_person_have_no_such_cap(world, own):
    cap(own, gpus_at_once=1)
    world.researcher = MembershipFactory(tenant=world.tenant, role=Role.RESEARCHER).user

    assert world.submit(gpus=8).pk


def test_jobs_above_the_cap_wait_for_the_owners_own_and_say_so(world, own):
    cap(own, gpus_at_once=8)
    first, second, third = (world.submit(gpus=4, at=after(n)) for n in range(3))

    world.plan(after(5))
    world.plan(after(6))

    assert states(first, second, third) == ["starting", "starting", "queued"]
    assert why(third) == (
        "own_cap",
        "It waits for its owner's own jobs: they hold 8 of at most 8 GPUs at once; it asks for 4.",
        {"at_most": 8, "held": 8, "asked": 4},
    )
    assert len(held_gpus()) == 8  # and the rest of both nodes is free: nothing else keeps it back
    cap(own, gpus_at_once=None)
    world.plan(after(7))
    assert state_of(third) == "starting"


def test_its_turn_comes_when_one_has_ended(world, own):
    cap(own, gpus_at_once=8)
    first, second = world.submit(gpus=8), world.submit(gpus=8, at=after(1))
    world.plan(after(2))
    end(world, first)

    world.plan(after(30))

    assert states(first, second) == ["succeeded", "starting"]


def test_what_goes_before_it_is_counted_while_nothing_holds_a_gpu(world, own):
    cap(own, gpus_at_once=8)
    other = MembershipFactory(tenant=world.tenant, role=Role.RESEARCHER).user
    mine, world.researcher = world.researcher, other
    world.submit(members=2, gpus=8)
    world.plan()
    world.researcher = mine
    world.submit(gpus=8, at=after(1))
    behind = world.submit(gpus=4, at=after(2))

    world.plan(after(3))

    assert why(behind)[1] == (
        "It waits for its owner's own jobs: they hold 0 of at most 8 GPUs at once,"
        " and those before it ask for 8; it asks for 4."
    )


def test_a_small_job_takes_what_a_large_one_cannot(world, own):
    cap(own, gpus_at_once=8)
    first, large, small = (world.submit(gpus=gpus, at=after(n)) for n, gpus in enumerate((4, 8, 2)))

    world.plan(after(5))

    assert states(first, large, small) == ["starting", "queued", "starting"]


def test_a_job_that_may_not_start_anyway_takes_nobodys_turn_and_says_why(world, own):
    cap(own, gpus_at_once=8)
    late = world.submit(gpus=8, wishes=Wishes(not_before=after(500)))
    blocked = world.submit(gpus=8, at=after(1), wishes=Wishes(after=(After(job=late),)))
    free = world.submit(gpus=8, at=after(2))

    world.plan(after(3))

    assert states(late, blocked, free) == ["queued", "queued", "starting"]
    assert [why(late)[0], why(blocked)[0]] == ["not_before", "waiting_for_dependency"]


def test_a_job_of_no_gpus_waits_for_none(world, own):
    cap(own, gpus_at_once=1)
    world.submit(gpus=1)
    on_cpus = GroupRequest(gpus_per_member=0, cpu_milli=1000)
    job = world.submit(groups=(on_cpus,), at=after(1))
    world.plan(after(2))

    assert state_of(job) == "starting"


def test_a_waiting_job_larger_than_a_new_cap_says_what_to_do(world, own):
    job = world.submit(gpus=8)
    cap(own, gpus_at_once=4)

    world.plan()

    code, text, numbers = why(job)
    assert (code, numbers) == ("own_cap", {"limit": 4, "asked": 8})
    assert "ask a lead for a higher limit" in text


def test_the_live_verdict_says_it_too(world, own):
    cap(own, gpus_at_once=8)
    world.started(gpus=8)
    request = world.request(groups=(GroupRequest(gpus_per_member=4),))

    trial = try_job(request, tenant=world.tenant, by=world.researcher, at=after(5))

    assert (trial.starts_on, trial.job.reason) == ((), "own_cap")
    assert trial.job.reason_numbers == {"at_most": 8, "held": 8, "asked": 4}


def test_a_change_of_the_cap_is_seen_by_a_process_that_knows_the_job(world, own):
    cap(own, gpus_at_once=4)
    world.submit(gpus=4)
    job = world.submit(gpus=4, at=after(1))

    def kept():
        waiting = snapshots.take(world.cluster, at=after(2)).pending
        return next(each.held for each in waiting if each.id == job.pk)

    before = kept()
    cap(own, gpus_at_once=8)

    assert (before, kept()) == (True, False)


def test_the_longest_run_is_capped_when_it_is_changed_and_extended(world, own):
    waiting = world.submit(gpus=8, walltime_seconds=None)
    running = world.running(gpus=8, walltime_seconds=HOUR, at=after(1))
    waiting.refresh_from_db()
    Job.objects.filter(pk=waiting.pk).update(state="queued")
    cap(own, job_hours=2)
    change = JobChange(ChangeKind.WALLTIME, str(3 * HOUR))

    with pytest.raises(Refused):
        extend_job(running, 3 * HOUR, by=world.researcher, at=after(20))
    with pytest.raises(Refused) as refusal:
        change_waiting_job(waiting, change, by=world.researcher, seen=waiting.version)

    assert "may run for 2 h at most" in str(refusal.value)


@pytest.mark.parametrize(
    ("over", "stopped", "then"),
    [(Over.LEAVE, 0, ["running", "running"]), (Over.STOP, 1, ["running", "stopping"])],
)
def test_a_lower_cap_leaves_or_stops_the_newest(world, own, lead, over, stopped, then):
    first, second = world.running(gpus=8), world.running(gpus=8, at=after(1))

    count = change_caps(own, Caps(gpus_at_once=8), over, by=lead, at=after(30))

    assert (count, states(first, second)) == (stopped, then)
    lines = list(AuditEvent.objects.order_by("pk").values_list("action", "actor__username"))
    assert lines[-1] == ("set_caps", lead.username)
    assert (("stop_above_cap", lead.username) in lines) is bool(stopped)


def test_below_lead_no_cap_is_changed_and_nothing_stopped(world, own):
    job = world.running(gpus=8)

    with pytest.raises(NotAllowed):
        change_caps(own, Caps(gpus_at_once=1), Over.STOP, by=world.researcher, at=after(30))

    own.refresh_from_db()
    assert (own.gpus_at_once, state_of(job)) == (None, "running")
