import io
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from portal.core.locks import LockSpace
from scheduling.models import Job, JobEvent
from scheduling.services import demo
from scheduling.services.feeding import feed_job
from tenants.models import Role, Tenant
from tests.factories import ClusterFactory, MembershipFactory, NodeFactory, TenantFactory

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIRESIAS = "job_id,num_gpu,submit_time,duration"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster"


@pytest.fixture
def cluster():
    """A simulated cluster of one node of 8 GPUs whose clock shows noon and stands still."""
    cluster = ClusterFactory(
        slug="sim", is_simulated=True, clock_at=NOON, clock_wall_at=NOON, clock_speed=0
    )
    NodeFactory(cluster=cluster)
    return cluster


@pytest.fixture
def vision():
    tenant = TenantFactory(slug="vision")
    MembershipFactory(tenant=tenant, user__username="first")
    MembershipFactory(tenant=tenant, user__username="looks-only", role=Role.VIEWER)
    MembershipFactory(tenant=tenant, user__username="second", role=Role.LEAD)
    return tenant


@pytest.fixture
def write(tmp_path):
    def write(*lines, name="small.csv"):
        file = tmp_path / name
        file.write_text("\n".join(lines))
        return file

    return write


def load(file, *options, kind="tiresias", cluster="sim"):
    out, err = io.StringIO(), io.StringIO()
    call_command(
        "load_trace", file, "--format", kind, "--cluster", cluster, *options, stdout=out, stderr=err
    )
    return out.getvalue(), err.getvalue()


def advance(cluster, seconds):
    cluster.clock_at += timedelta(seconds=seconds)
    cluster.save(update_fields=["clock_at"])


def submitted():
    return [
        (job.external_id, (job.submitted_at - NOON).total_seconds(), job.owner.username)
        for job in Job.objects.order_by("pk")
    ]


def test_a_trace_job_becomes_a_gang_that_runs_as_long_as_the_trace_says(cluster, vision, write):
    load(write(TIRESIAS, "a,12,0,77"), "--tenant", "vision")

    job = Job.objects.get()
    (group,) = job.groups.all()
    assert (job.tenant, job.name, job.state) == (vision, "small-a", "queued")
    assert job.annotations == {"simcluster.muster.dev/run-seconds": "77"}
    assert job.command == ["sleep", "77"]
    assert (group.min_member, group.max_member, group.gpus_per_member) == (2, 2, 6)


def test_jobs_are_submitted_at_the_times_of_the_trace_by_people_who_may(cluster, vision, write):
    file = write(TIRESIAS, "a,1,100,5", "b,1,130,5", "c,1,130,5")
    load(file, "--tenant", "vision", "--limit", "1")
    advance(cluster, 1000)

    load(file, "--tenant", "vision")

    assert submitted() == [
        ("small/a", 0, "first"),
        ("small/b", 30, "second"),
        ("small/c", 30, "first"),
    ]
    assert list(JobEvent.objects.order_by("pk").values_list("at", flat=True)) == [
        NOON,
        NOON + timedelta(seconds=30),
        NOON + timedelta(seconds=30),
    ]


def test_loading_again_submits_nothing_twice(cluster, vision, write):
    file = write(TIRESIAS, "a,1,0,5", "b,1,0,5")
    load(file, "--tenant", "vision")
    before = submitted()
    advance(cluster, 1000)

    out, _ = load(file, "--tenant", "vision")

    assert submitted() == before
    assert out == "2 of 2 jobs submitted; the cluster's clock shows 2026-01-01 12:16:40\n"


def test_another_name_replays_the_same_trace_from_now(cluster, vision, write):
    file = write(TIRESIAS, "a,1,0,5")
    load(file, "--tenant", "vision")
    advance(cluster, 1000)

    load(file, "--tenant", "vision", "--name", "again")

    assert submitted() == [("small/a", 0, "first"), ("again/a", 1000, "first")]


def test_at_once_leaves_no_time_between_jobs_and_compress_less(cluster, vision, write):
    file = write(TIRESIAS, "a,1,0,5", "b,1,1000,5")

    load(file, "--tenant", "vision", "--at-once")
    advance(cluster, 1000)
    load(file, "--tenant", "vision", "--name", "half", "--limit", "1")
    advance(cluster, 1000)
    load(file, "--tenant", "vision", "--name", "half", "--compress", "2")

    assert [(name, at) for name, at, _ in submitted()] == [
        ("small/a", 0),
        ("small/b", 0),
        ("half/a", 1000),
        ("half/b", 1500),
    ]


def test_tenants_of_the_trace_are_found_by_name_or_by_mapping(cluster, vision, write):
    speech = TenantFactory(slug="speech")
    MembershipFactory(tenant=speech)
    rows = ["2017-12-12 01:00:00,60,1,60,vision", "2017-12-12 01:00:00,60,1,60,6214e9"]

    load(write(PHILLY, *rows), "--tenant", "6214e9=speech", kind="philly")

    assert list(Job.objects.order_by("pk").values_list("tenant__slug", flat=True)) == [
        "vision",
        "speech",
    ]


def test_rows_that_are_no_jobs_are_named_and_the_others_submitted(cluster, vision, write):
    _, err = load(write(TIRESIAS, "a,none,0,5", "b,1,0,5"), "--tenant", "vision")

    assert err.splitlines() == [
        "1 jobs were not read and are left out:",
        "  line 2: num_gpu is 'none', not a number",
    ]
    assert [name for name, *_ in submitted()] == ["small/b"]


def test_jobs_that_the_cluster_refuses_are_named_and_the_others_submitted(cluster, vision, write):
    cluster.nodes.update(gpu_count=4)

    _, err = load(write(TIRESIAS, "a,8,0,5", "b,1,0,5"), "--tenant", "vision")

    assert err.splitlines() == [
        "1 jobs were refused and are left out:",
        "  job a: A member may ask for 4 GPUs at most, the most that one node here has.",
    ]
    assert [name for name, *_ in submitted()] == ["small/b"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--tenant", "nobody"], "There is no tenant nobody."),
        ([], "Whose jobs are those of the trace? Say --tenant NAME=SLUG for each, or --tenant"),
        (["--tenant", "vision", "--compress", "0"], "--compress is a whole number, 1 or more."),
        (["--tenant", "vision", "--max-gpus", "0"], "No job of that trace is left to submit."),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is(cluster, vision, write, options, why):
    with pytest.raises(CommandError) as refusal:
        load(write(TIRESIAS, "a,1,0,5"), *options)

    assert str(refusal.value).startswith(why)
    assert not Job.objects.exists()


def test_a_real_cluster_gets_no_made_up_jobs(cluster, vision, write):
    ClusterFactory(slug="real")

    with pytest.raises(CommandError, match="slug of a simulated cluster; there are: sim"):
        load(write(TIRESIAS, "a,1,0,5"), "--tenant", "vision", cluster="real")


def test_a_tenant_without_people_who_submit_is_refused(cluster, write):
    TenantFactory(slug="empty")

    with pytest.raises(CommandError, match="Nobody may submit jobs in tenant empty"):
        load(write(TIRESIAS, "a,1,0,5"), "--tenant", "empty")


@pytest.mark.django_db(transaction=True)
def test_two_feeders_of_one_cluster_do_not_run_together(cluster, vision, write):
    with closing(connection.copy()) as other, other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", [LockSpace.FEED, cluster.pk])

        with pytest.raises(CommandError, match="Another load_trace feeds sim"):
            load(write(TIRESIAS, "a,1,0,5"), "--tenant", "vision")


@pytest.fixture
def demo_cluster(cluster, write, monkeypatch):
    """A demo with a trace of three jobs, twenty hours long, on a clock that races."""
    rows = [
        "2017-12-12 01:00:00,60,1,60,ee9e8c",
        "2017-12-12 05:00:00,60,1,60,11cb48",
        "2017-12-12 21:00:00,60,1,60,6214e9",
    ]
    monkeypatch.setattr(demo, "TRACE", write(PHILLY, *rows))
    cluster.slug = demo.CLUSTER
    cluster.clock_speed = 1e9  # a round takes no time
    cluster.clock_wall_at = datetime.now(UTC)
    cluster.save()
    for slug in demo.TENANTS.values():
        MembershipFactory(tenant=TenantFactory(slug=slug))
    return cluster


def feed_demo(rounds, *options):
    call_command("load_trace", "--demo", "--rounds", str(rounds), *options, stdout=io.StringIO())


def test_the_demo_begins_a_minute_from_now_and_a_day_later_anew(demo_cluster):
    feed_demo(2)

    jobs = {job.external_id: job for job in Job.objects.select_related("tenant")}
    begun = {number: jobs[f"demo-{number}/0"].submitted_at for number in (1, 2)}
    after = {name: job.submitted_at - begun[int(name[5])] for name, job in sorted(jobs.items())}
    assert after == {
        f"demo-{number}/{row}": timedelta(hours=hours)
        for number in (1, 2)
        for row, hours in enumerate([0, 4, 20])
    }
    assert begun[2] - begun[1] >= demo.ROUND
    assert [jobs[f"demo-1/{row}"].tenant.slug for row in range(3)] == ["nlp", "vision", "speech"]


def test_jobs_of_the_demo_have_walltimes_that_leave_them_twice_their_time(demo_cluster):
    feed_demo(1)

    jobs = Job.objects.exclude(walltime_seconds=None)
    assert jobs.count() == Job.objects.count() > 0
    for job in jobs:
        assert job.walltime_seconds >= 2 * int(job.command[1])


def test_sweeps_are_fed_beside_the_trace_and_make_room(demo_cluster):
    feed_demo(1, "--sweeps")

    origin = Job.objects.get(external_id="demo-1/0").submitted_at
    fed = {job.external_id: job for job in Job.objects.select_related("tenant")}
    hours = {name: (job.submitted_at - origin) / timedelta(hours=1) for name, job in fed.items()}
    assert hours == {
        **{f"demo-1/{row}": at for row, at in enumerate([0, 4, 20])},
        **{f"sweeps-1/{row}": 2 * row for row in range(12)},
    }
    assert [name for name, job in fed.items() if not job.is_preemptible] == [
        f"demo-1/{row}" for row in range(3)
    ]
    sweep = fed["sweeps-1/0"]
    assert sweep.tenant.slug == "speech"
    assert sweep.annotations["simcluster.muster.dev/checkpoint-seconds"] == "1800"


def test_the_demo_goes_on_with_the_round_that_was_left(demo_cluster):
    feed_demo(1)
    before = submitted()
    Job.objects.get(external_id="demo-1/2").delete()

    feed_demo(1)

    assert submitted() == before


def test_a_round_that_was_slept_through_begins_now(demo_cluster):
    demo_cluster.clock_speed = 0
    first = demo.next_round(demo_cluster, at=NOON)
    for job in first.jobs:
        feed_job(first.feed, job)
    late = NOON + timedelta(days=3)

    on_time = demo.next_round(demo_cluster, at=NOON + timedelta(hours=2))
    slept = demo.next_round(demo_cluster, at=late)

    assert (on_time.number, on_time.feed.origin) == (2, NOON + demo.LEAD + demo.ROUND)
    assert (slept.number, slept.feed.origin) == (2, late + demo.LEAD)


@pytest.mark.parametrize("lacks", ["clock", "nodes", "tenant", "row"])
def test_the_demo_waits_for_what_it_needs(demo_cluster, lacks):
    assert demo.demo_cluster() == demo_cluster

    if lacks == "clock":
        demo_cluster.clock_at = None
        demo_cluster.save()
    elif lacks == "nodes":
        demo_cluster.nodes.update(gone_at=NOON)
    elif lacks == "tenant":
        Tenant.objects.filter(slug="nlp").update(slug="other")
    else:
        demo_cluster.slug = "other"
        demo_cluster.save()

    assert demo.demo_cluster() is None
