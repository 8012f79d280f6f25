"""The demo's past: what its file says holds together, is made as it says, and becomes rows."""

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from portal.core.models import AuditEvent
from portal.site.seed import FLAVORS, TENANTS, seed
from scheduling.models import Job, JobEvent, Placement, PlacementGpu, Preemption, StartEstimate
from scheduling.reports.budgets import budgets_of
from scheduling.reports.estimates import record_of
from scheduling.reports.usage import usage_by_tenant
from scheduling.services import demo
from scheduling.services.past import making
from scheduling.services.past.course import FILE, PastJob, Run, Seat, Told, read_past, write_past
from scheduling.services.past.loading import lacking, tell_of_the_past
from scheduling.services.past.setting import REQUESTS
from scheduling.simulation.trace import TraceJob, members_of
from scheduling.states import TRANSITIONS as OF_JOBS
from scheduling.states import JobState
from tenants.models import Notification, QuotaRequest, QuotaRequestEvent, Tenant, User
from tenants.states import FINAL, TRANSITIONS
from tests.factories import JobFactory, NodeFactory, PlacementFactory
from topology.models import Cluster

DAY = making.DAY
NOW = datetime(2026, 3, 1, 12, 34, 56, tzinfo=UTC)
END = NOW.replace(second=0)
PAST = read_past(FILE)


def run_seconds(own):
    return sum(run.end - run.start for run in own.runs)


def test_the_file_is_what_the_simulator_makes_of_its_first_days():
    until = 3 * DAY
    jobs = [own.job for own in PAST if own.job.submit_seconds < until]

    made = making.make_past(jobs, until=until)

    assert made == [own for own in PAST if own.job.submit_seconds < until and own.end <= until]
    assert len(made) > 80
    assert any(own.told for own in made)


def test_the_file_is_small_and_tells_of_thirty_days():
    days = {own.job.submit_seconds // DAY for own in PAST}

    assert FILE.stat().st_size < 400_000
    assert days == set(range(making.DAYS))
    assert max(own.end for own in PAST) <= making.DAYS * DAY


def test_every_job_ran_as_long_as_the_trace_says_on_as_many_gpus():
    """Up to what it takes to save: the end may come while it does, and is seen when it goes on."""
    assert sum(len(own.runs) > 1 for own in PAST) > 50
    for own in PAST:
        most = making.SAVE_SECONDS * (len(own.runs) - 1)
        assert 0 <= run_seconds(own) - own.job.duration_seconds <= most
        assert own.runs[0].start >= own.job.submit_seconds
        for run in own.runs:
            members, gpus = members_of(own.job.gpus)
            assert [len(seat.gpus) for seat in run.seats] == [gpus] * members


def test_no_gpu_is_in_two_runs_at_once():
    held = defaultdict(list)
    for own in PAST:
        for run in own.runs:
            for seat in run.seats:
                for gpu in seat.gpus:
                    held[seat.node, gpu].append((run.start, run.end))

    assert len(held) == 96
    for stays in held.values():
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(stays)))


def test_the_past_is_of_the_demo_s_tenants_nodes_and_quotas():
    quotas = {
        tenant.slug: ",".join(f"{name}:{gpus}" for name, gpus in tenant.quota.items())
        for tenant in TENANTS
    }

    assert {demo.TENANTS[name]: quota for name, quota in making.QUOTAS.items()} == quotas
    assert {model for model, _ in making.NODES.values()} == set(FLAVORS)
    assert {own.job.tenant for own in PAST} == set(making.QUOTAS)


def test_a_file_comes_back_as_it_was_written(tmp_path):
    file = tmp_path / "past.csv.gz"

    write_past(file, PAST[:200])
    first = file.read_bytes()
    write_past(file, PAST[:200])

    assert read_past(file) == PAST[:200]
    assert file.read_bytes() == first


def test_the_jobs_of_a_trace_are_chosen_by_day_tenant_width_and_length(tmp_path):
    rows = [
        "timestamp,duration,num_gpus,gpu_time,cluster",
        "2017-11-11 23:59:59,3600,1,3600,ee9e8c",
        "2017-11-12 00:00:00,3600,2,7200,ee9e8c",
        "2017-11-12 01:00:00,1799,2,1799,ee9e8c",
        "2017-11-12 01:30:00,3600,1,3600,ee9e8c",
        "2017-11-12 01:40:00,3600,1,3600,ee9e8c",
        "2017-11-12 02:00:00,3600,33,1,ee9e8c",
        "2017-11-12 03:00:00,86401,2,1,ee9e8c",
        "2017-11-12 04:00:00,3600,2,7200,ffffff",
        "2017-11-13 00:00:00,3600,2,7200,ee9e8c",
    ]
    file = tmp_path / "trace.csv"
    file.write_text("\n".join(rows))

    jobs = making.jobs_of_the_past(file, days=1)

    assert [job.key for job in jobs if job.tenant == "ee9e8c"] == ["1", "3"]
    assert [job.submit_seconds for job in jobs if job.gpus == 16] == [n * 7200 for n in range(12)]
    assert [job.row for job in jobs] == list(range(14))


def test_a_trace_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CommandError, match=r"nothing\.csv cannot be read"):
        call_command("make_demo_past", tmp_path / "nothing.csv")


def past_job(key, tenant, gpus, *runs, told=None):
    """Submitted an hour before its first run."""
    seconds = sum(run.end - run.start for run in runs)
    job = TraceJob(key, 0, runs[0].start - 3600, seconds, gpus, tenant)
    return PastJob(job, runs, told)


def on(start, end, *seats, stopped_for=""):
    return Run(start, end, tuple(Seat(node, tuple(gpus)) for node, gpus in seats), stopped_for)


WIDE = [("h100-sxm-01", range(8)), ("h100-sxm-02", range(8))]
SMALL = [
    past_job("1", "ee9e8c", 16, on(90_000, 93_600, *WIDE), told=Told(86_400, 90_000, 90_060)),
    past_job(
        "sweep-0",
        "6214e9",
        16,
        on(80_000, 90_000, *WIDE, stopped_for="1"),
        on(93_600, 97_200, *WIDE),
    ),
    past_job("2", "11cb48", 1, on(DAY * 30 - 60, DAY * 30, ("h100-sxm-01", [3]))),
]


@pytest.fixture
def cluster(db):
    """The demo as it is seeded, with two of its nodes."""
    seed(Path("kubeconfig"), at=timezone.now())
    cluster = Cluster.objects.get(slug=demo.CLUSTER)
    for number in (1, 2):
        NodeFactory(cluster=cluster, name=f"h100-sxm-0{number}")
    return cluster


def tell(cluster, past=SMALL):
    return tell_of_the_past(cluster, past, at=NOW, wall=NOW)


def at(seconds):
    return END - timedelta(days=30) + timedelta(seconds=seconds)


def test_jobs_of_the_past_have_ended_where_and_when_they_did(cluster):
    tell(cluster)

    job = Job.objects.get(external_id="past/sweep-0")
    assert (job.state, job.attempt, job.preempted_count) == ("succeeded", 2, 1)
    assert (job.tenant.slug, job.owner.username) == ("speech", "samuel-okafor")
    assert (job.submitted_at, job.started_at, job.ended_at) == (
        at(76_400),
        at(93_600),
        at(97_200),
    )
    assert [
        (place.attempt, place.node.name, place.member_count, place.bound_at, place.released_at)
        for place in job.placements.order_by("attempt", "node__name")
    ] == [
        (attempt, node, 1, at(since), at(until))
        for attempt, since, until in ((1, 80_000, 90_000), (2, 93_600, 97_200))
        for node in ("h100-sxm-01", "h100-sxm-02")
    ]
    assert Counter(
        PlacementGpu.objects.filter(placement__job=job).values_list("gpu__node__name", flat=True)
    ) == {"h100-sxm-01": 16, "h100-sxm-02": 16}


def test_every_step_of_theirs_is_one_that_jobs_take(cluster):
    tell(cluster)

    steps = defaultdict(list)
    for event in JobEvent.objects.order_by("pk"):
        steps[event.job.external_id].append((event.from_state, event.to_state))
    for own in steps.values():
        assert own[0] == ("", JobState.QUEUED)
        for (_, became), (was, after) in pairwise(own):
            assert became == was
            assert after in OF_JOBS[JobState(was)]
    assert len(steps["past/sweep-0"]) == 8


def test_it_says_where_it_comes_from(cluster, client):
    tell(cluster)
    client.force_login(User.objects.get(username="demo-operator"))

    job = Job.objects.get(external_id="past/1")
    page = client.get(f"/jobs/{job.public_id}/").content.decode()
    other = client.get(f"/jobs/{JobFactory(cluster=cluster).public_id}/").content.decode()

    assert 'id="of-the-past"' in page
    assert "replayed by Muster&#x27;s simulator from the Philly trace" in page
    assert 'id="of-the-past"' not in other
    assert AuditEvent.objects.get(action="tell_demo_past").after == {"jobs": 3}


def test_the_accounts_are_those_of_the_runs(cluster):
    tell(cluster)

    operator = User.objects.get(username="demo-operator")
    rows = usage_by_tenant(operator, since=at(0), until=NOW)

    held = {row.tenant: row.held_gpu_seconds for row in rows}
    assert held == {"nlp": 16 * 3600, "speech": 16 * (10_000 + 3600), "vision": 60}
    assert {row.tenant: row.run_gpu_seconds for row in rows} == held


def test_stops_and_estimates_are_on_record(cluster):
    tell(cluster)

    stop = Preemption.objects.get()
    assert (stop.job.name, stop.claimant.name, stop.gone_at) == (
        "past-sweep-0",
        "past-1",
        at(90_000),
    )
    assert [(row.job.name, row.held) for row in StartEstimate.objects.all()] == [("past-1", True)]
    record = record_of(cluster)
    assert (record.told, record.held) == (1, 1)


@pytest.mark.parametrize(
    ("earliest", "latest", "settled"), [(90_060, 90_120, 90_000), (86_400, 89_940, 89_940)]
)
def test_an_estimate_that_was_off_has_missed(cluster, earliest, latest, settled):
    wrong = replace(SMALL[0], told=Told(86_400, earliest, latest))

    tell(cluster, [wrong])

    row = StartEstimate.objects.get()
    assert (row.held, row.settled_at) == (False, at(settled))


def test_told_again_it_changes_nothing(cluster):
    assert tell(cluster) == 3
    before = list(Job.objects.order_by("pk").values())

    assert tell(cluster) == 0
    assert list(Job.objects.order_by("pk").values()) == before


def test_it_ends_before_anything_was_placed(cluster):
    first = END - timedelta(hours=2)
    PlacementFactory(job=JobFactory(cluster=cluster), bound_at=first)

    tell(cluster)

    ends = Placement.objects.filter(job__external_id__startswith="past/").values_list("released_at")
    assert max(ends) == (first,)


def test_nobody_gets_a_message_about_it(cluster):
    already = set(QuotaRequestEvent.objects.filter(is_told=False).values_list("pk", flat=True))

    tell(cluster)

    assert not JobEvent.objects.filter(is_told=False).exists()
    untold = QuotaRequestEvent.objects.filter(is_told=False).values_list("pk", flat=True)
    assert set(untold) == already
    assert not Notification.objects.exists()


def test_requests_of_the_past_took_steps_that_requests_take_and_are_over(cluster):
    quotas = list(Tenant.objects.order_by("pk").values("quotas__nominal", "quotas__granted"))

    tell(cluster)

    ended = QuotaRequest.objects.exclude(tenant__slug="speech")
    assert ended.count() == len(REQUESTS) == 3
    for request in ended:
        steps = list(request.events.order_by("pk").values_list("from_state", "to_state", "at"))
        for (_, became, earlier), (was, after, later) in pairwise(steps):
            assert became == was
            assert after in TRANSITIONS[became]
            assert earlier <= later
        assert steps[-1][1] == request.state in FINAL
    assert (
        list(Tenant.objects.order_by("pk").values("quotas__nominal", "quotas__granted")) == quotas
    )


def test_budgets_are_partly_used(cluster):
    cluster.clock_at = cluster.clock_wall_at = NOW
    cluster.clock_speed = 0
    cluster.save()

    tell(cluster)

    (use,) = budgets_of(Tenant.objects.get(slug="vision"), wall=NOW)
    assert use.used == pytest.approx(60 / 3600)
    assert use.budget.from_at == at(0)


def test_it_waits_for_its_nodes(cluster):
    assert lacking(cluster, SMALL) == set()

    cluster.nodes.filter(name="h100-sxm-02").update(gone_at=NOW)

    assert lacking(cluster, SMALL) == {"h100-sxm-02"}
