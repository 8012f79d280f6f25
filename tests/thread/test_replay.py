"""A day of a public trace through every process of the product, five of which are killed in it."""

import sys
from collections import Counter
from itertools import pairwise

import pytest

from portal.embedded import ports
from portal.embedded.supervisor import how_it_ended
from scheduling.services.demo import TENANTS, TRACE
from scheduling.simulation.trace import TraceFormat, read_trace
from tests.thread.stack import running_stack

pytestmark = pytest.mark.thread

SPEED = 600
WITHIN = 540  # seconds, from the first job to the last; two idle cores take less than half
KILLED = {15: "feeder", 60: "worker", 105: "valkey", 150: "watcher", 195: "beat", 240: "web"}
"""Who is killed when so many jobs have ended; by then others are queued, starting and running."""

JOBS = read_trace(TRACE, TraceFormat.PHILLY).jobs


@pytest.fixture(scope="module")
def stack():
    """What is left when the trace has been replayed to its end."""
    with running_stack(speed=SPEED) as stack:
        stack.manage("feeder", "load_trace", "--demo", "--rounds", "1")
        left = WITHIN
        for ended, victim in KILLED.items():
            left -= stack.wait_until(
                lambda ended=ended: ended_jobs(stack) >= ended,
                within=left,
                what=f"{ended} jobs have ended",
            )
            stack.kill(victim)
        stack.wait_until(
            lambda: ended_jobs(stack) == len(JOBS), within=left, what="all jobs have ended"
        )
        stack.wait_until(
            lambda: active_placements(stack) == 0, within=10, what="all GPUs are given back"
        )
        yield stack


def ended_jobs(stack):
    return stack.value("SELECT count(*) FROM scheduling_job WHERE ended_at IS NOT NULL")


def active_placements(stack):
    return stack.value("SELECT count(*) FROM scheduling_placement WHERE released_at IS NULL")


def by_key(stack, columns):
    """What the database says of each job, by its key in the trace. columns: SQL about job j."""
    rows = stack.rows(f"SELECT j.external_id, {columns} FROM scheduling_job j")  # noqa: S608 - ours
    return {name.removeprefix("demo-1/"): values for name, *values in rows}


def test_each_job_of_the_trace_succeeds_once(stack):
    ends = stack.rows(
        "SELECT job_id, count(*) FROM scheduling_jobevent"
        " WHERE to_state IN ('running', 'succeeded') GROUP BY job_id, to_state"
    )

    stops = stack.rows("SELECT job_id, reason FROM scheduling_jobevent WHERE to_state = 'stopping'")
    assert stops == []
    assert by_key(stack, "j.state") == {job.key: ["succeeded"] for job in JOBS}
    assert Counter(times for _, times in ends) == {1: 2 * len(JOBS)}


def test_each_job_is_submitted_when_the_trace_says(stack):
    submitted = by_key(stack, "extract(epoch FROM j.submitted_at)::int")
    origin = submitted[JOBS[0].key][0]

    assert submitted == {job.key: [origin + job.submit_seconds] for job in JOBS}


def test_each_job_runs_as_long_as_the_trace_says_to_the_second(stack):
    ran = by_key(stack, "extract(epoch FROM j.ended_at - j.started_at)")

    assert ran == {job.key: [job.duration_seconds] for job in JOBS}


def test_gpu_time_by_tenant_is_the_trace_s_and_time_held_besides_stands_apart(stack):
    ran = gpu_seconds(stack, "scheduling_member m", "m.ended_at - m.started_at")
    held = gpu_seconds(
        stack,
        "scheduling_member m JOIN scheduling_placement p ON p.id = m.placement_id",
        "p.released_at - p.bound_at",
    )
    wanted = Counter()
    for job in JOBS:
        wanted[TENANTS[job.tenant]] += job.gpus * job.duration_seconds

    assert ran == wanted
    for tenant, seconds in sorted(held.items()):
        besides = seconds - ran[tenant]
        hours = f"{ran[tenant] / 3600:.1f} GPU-hours run, {besides / 3600:.1f} held besides"
        sys.stdout.write(f"{tenant}: {hours}\n")  # shown by -rP
        assert besides > 0


def gpu_seconds(stack, members, duration):
    rows = stack.rows(
        f"SELECT t.slug, sum(extract(epoch FROM {duration}) * g.gpus_per_member)"  # noqa: S608 - ours
        f" FROM {members} JOIN scheduling_jobgroup g ON g.id = m.group_id"
        " JOIN scheduling_job j ON j.id = m.job_id JOIN tenants_tenant t ON t.id = j.tenant_id"
        " WHERE m.started_at IS NOT NULL GROUP BY t.slug"
    )
    return {slug: float(seconds) for slug, seconds in rows}


def test_no_gpu_is_ever_in_two_placements(stack):
    rows = stack.rows(
        "SELECT d.gpu_id, p.bound_at, p.released_at, d.released_at"
        " FROM scheduling_placementgpu d JOIN scheduling_placement p ON p.id = d.placement_id"
        " ORDER BY d.gpu_id, p.bound_at, d.id"
    )

    taken_early = [
        (before, after)
        for before, after in pairwise(rows)
        if before[0] == after[0] and after[1] < before[2]
    ]
    assert taken_early == []
    assert all(placement == device for _, _, placement, device in rows)
    assert {gpu for gpu, *_ in rows} <= {
        gpu for (gpu,) in stack.rows("SELECT id FROM topology_gpu")
    }
    assert len(rows) >= sum(job.gpus for job in JOBS)


def test_who_was_killed_was_started_again(stack, record_property):
    for name in KILLED.values():
        ends = [line for line in stack.said if line.startswith(f"{name} ended after")]
        killed = [line for line in ends if how_it_ended(-9) in line]
        assert len(killed) == 1, ends
        assert f"{name} is started again." in stack.said
        # One that lost its broker may give up by itself besides; that is no kill, and is told.
        record_property(f"{name} ended by itself", [line for line in ends if line not in killed])
    page = stack.options.address + "/"
    stack.wait_until(lambda: ports.answers(page), within=20, what="the web answers again")
