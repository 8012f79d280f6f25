from datetime import timedelta

import pytest
from django.utils import timezone

from scheduling.states import JobState
from tests.factories import (
    AdviceFactory,
    JobEventFactory,
    JobFactory,
    JobFlavorFactory,
    PreemptionFactory,
    PriorityClassFactory,
    StartEstimateFactory,
)
from tests.factories.scheduling import T0

JOBS = "/api/v1/jobs"
NO_WISHES = {
    "on_hold": False,
    "limit_end_at": None,
    "warned_at": None,
    "topology": {"required": "", "preferred": "", "patience_seconds": None, "island": False},
    "after": [],
    "service_class": "training",
    "standby": False,
    "not_before": None,
    "failed_starts": 0,
    "start_again_at": None,
    "grace_seconds": None,
    "checkpoint_at": None,
    "saved_seconds": 0,
    "preempted_count": 0,
    "min_total": None,
}


def test_a_job_is_told_in_full(api, member, cluster):
    PriorityClassFactory(name="high", value=100)
    job = JobFactory(
        public_id="j-7k3m2q",
        tenant=member.tenant,
        cluster=cluster,
        owner=member.user,
        name="bert",
        priority=100,
        walltime_seconds=3600,
        image="train:1",
        command=["python", "train.py"],
        environment={"SEED": "1"},
        annotations={"team/run": "7"},
        members=2,
        members__gpus=8,
        reason="no_room",
        reason_numbers={"missing": 2},
        reason_at=T0,
    )
    JobFlavorFactory(job=job, flavor=cluster.flavors.get(name="h100-sxm"))

    answer = api.get(f"{JOBS}/j-7k3m2q")

    assert answer.status_code == 200
    assert answer.json() == {
        "id": "j-7k3m2q",
        "name": "bert",
        "tenant": "vision",
        "cluster": "main",
        "owner": "ada",
        "state": "queued",
        "reason": {"code": "no_room", "text": "There is no room for 2 of its members."},
        "version": 0,
        "priority": "high",
        "priority_value": 100,
        "preemptible": True,
        "min_gpus": 16,
        "groups": [
            {
                "name": "main",
                "min_member": 2,
                "max_member": 2,
                "gpus_per_member": 8,
                "slice_profile": "",
                "slices_per_member": 0,
                "shares_per_member": 0,
                "gpu_milli": 0,
                "gpu_mib": 0,
                "cpu_milli": 0,
                "memory_mib": 0,
            }
        ],
        "flavors": ["h100-sxm"],
        "array": None,
        "walltime_seconds": 3600,
        "external_id": "",
        "submitted_at": "2026-01-01T00:00:00Z",
        "started_at": None,
        "ended_at": None,
        "image": "train:1",
        "command": ["python", "train.py"],
        "environment": {"SEED": "1"},
        "annotations": {"team/run": "7"},
        **NO_WISHES,
    }


def test_what_has_not_changed_is_not_sent_again(api, member):
    job = JobFactory(tenant=member.tenant)
    url = f"{JOBS}/{job.public_id}"
    tag = api.get(url)["ETag"]

    again = api.get(url, headers={"If-None-Match": tag})
    job.name = "renamed"
    job.save()
    changed = api.get(url, headers={"If-None-Match": tag})

    assert (again.status_code, again.content, again["ETag"]) == (304, b"", tag)
    assert (changed.status_code, changed["ETag"] == tag) == (200, False)


def test_a_job_of_another_tenant_answers_as_one_that_is_not_there(stranger, member):
    job = JobFactory(tenant=member.tenant)

    theirs = stranger.get(f"{JOBS}/{job.public_id}")
    missing = stranger.get(f"{JOBS}/j-zzzzzz")

    varying = ("instance", "request_id")
    bodies = [
        {k: v for k, v in answer.json().items() if k not in varying} for answer in (theirs, missing)
    ]
    assert bodies[0] == bodies[1]
    assert theirs["Content-Type"] == missing["Content-Type"] == "application/problem+json"
    assert bodies[0] == {
        "type": "/help/errors/not-found",
        "title": "Not Found",
        "status": 404,
        "code": "not_found",
        "detail": "Not found.",
        "errors": [],
    }


@pytest.mark.parametrize("count", [1, 3])
def test_a_list_costs_the_same_for_any_number_of_jobs(
    api, member, count, django_assert_num_queries
):
    for job in JobFactory.create_batch(count, tenant=member.tenant):
        JobFlavorFactory(job=job)

    with django_assert_num_queries(6):  # session, user, count, jobs, groups, flavors
        body = api.get(JOBS).json()

    assert body["count"] == {"value": count, "exact": True}
    assert len(body["items"]) == count


def test_a_list_shows_what_the_caller_may_see_newest_first(api, member):
    for hours, name in ((1, "old"), (3, "new"), (2, "between")):
        JobFactory(tenant=member.tenant, name=name, submitted_at=T0 + timedelta(hours=hours))
    JobFactory(name="not-mine")

    body = api.get(JOBS, {"fields": "name,state"}).json()

    assert body == {
        "items": [
            {"name": "new", "state": "queued"},
            {"name": "between", "state": "queued"},
            {"name": "old", "state": "queued"},
        ],
        "next": None,
        "count": {"value": 3, "exact": True},
    }


def names_of(answer):
    return [job["name"] for job in answer.json()["items"]]


@pytest.fixture
def assorted(member):
    """Jobs in three states, an hour apart, the second of another owner."""
    kinds = [("bert", "queued"), ("gpt", "running"), ("resnet", "failed"), ("bert-2", "running")]
    return [
        JobFactory(
            tenant=member.tenant,
            name=name,
            state=state,
            owner__username=f"owner-of-{name}",
            submitted_at=T0 + timedelta(hours=hours),
            priority=hours % 2,
        )
        for hours, (name, state) in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ("state=queued&state=failed", ["resnet", "bert"]),
        ("tenant=vision", ["bert-2", "resnet", "gpt", "bert"]),
        ("tenant=speech", []),
        ("q=BERT", ["bert-2", "bert"]),
        ("q=owner-of-gpt", ["gpt"]),
        ("submitted_after=2026-01-01T01:00:00Z", ["bert-2", "resnet"]),
        ("submitted_after=2026-01-01T09:30:00%2B08:00", ["bert-2", "resnet"]),
        ("state=running&q=bert&tenant=vision", ["bert-2"]),
        ("order=submitted_at", ["bert", "gpt", "resnet", "bert-2"]),
        ("order=-name", ["resnet", "gpt", "bert-2", "bert"]),
        ("order=-priority", ["bert-2", "gpt", "resnet", "bert"]),
    ],
)
def test_a_list_is_narrowed_and_ordered(api, assorted, query, want):
    assert names_of(api.get(f"{JOBS}?{query}")) == want


def test_a_public_id_is_found_by_its_whole(api, assorted):
    found = api.get(JOBS, {"q": assorted[1].public_id})

    assert names_of(found) == ["gpt"]


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("stat=queued", ("/stat", "unknown")),
        ("state=sleeping", ("/state/0", "invalid_choice")),
        ("limit=201", ("/limit", "max_value")),
        ("limit=0", ("/limit", "min_value")),
        ("limit=5&limit=6", ("/limit", "repeated")),
        ("order=owner", ("/order", "invalid_choice")),
        ("fields=id,secret", ("/fields", "unknown")),
        ("cursor=guessed", ("/cursor", "invalid")),
        ("submitted_after=yesterday", ("/submitted_after", "invalid")),
        ("q=%00", ("/q", "null_characters_not_allowed")),
    ],
)
def test_what_a_query_cannot_mean_is_refused(api, assorted, query, error):
    answer = api.get(f"{JOBS}?{query}")

    body = answer.json()
    assert (answer.status_code, body["code"]) == (400, "invalid")
    assert [(each["pointer"], each["code"]) for each in body["errors"]] == [error]


@pytest.mark.parametrize("order", ["-submitted_at", "submitted_at", "name", "-priority"])
def test_pages_hold_every_job_once_however_many_share_an_instant(api, member, order):
    for number in range(7):
        JobFactory(tenant=member.tenant, name=f"n{number}", submitted_at=T0)
    query = {"limit": 3, "order": order}
    seen, sizes = [], []

    url = JOBS
    while url:
        answer = api.get(url, query)
        seen += names_of(answer)
        sizes.append(len(answer.json()["items"]))
        url = answer["Link"].split(">")[0][1:] if "Link" in answer else None
        query = None

    assert sizes == [3, 3, 1]
    assert sorted(seen) == [f"n{number}" for number in range(7)]


def test_a_job_that_comes_while_pages_are_turned_moves_nothing(api, member):
    for hours in range(4):
        JobFactory(tenant=member.tenant, name=f"h{hours}", submitted_at=T0 + timedelta(hours=hours))
    first = api.get(JOBS, {"limit": 2}).json()
    JobFactory(tenant=member.tenant, name="late", submitted_at=T0 + timedelta(hours=9))

    second = api.get(JOBS, {"limit": 2, "cursor": first["next"]})

    assert names_of(second) == ["h1", "h0"]


def test_a_cursor_of_another_order_is_refused(api, assorted):
    cursor = api.get(JOBS, {"limit": 1}).json()["next"]

    answer = api.get(JOBS, {"limit": 1, "cursor": cursor, "order": "name"})

    assert answer.json()["errors"] == [
        {
            "pointer": "/cursor",
            "code": "invalid",
            "detail": "This cursor belongs to another list; start again without one.",
        }
    ]


def test_events_are_told_in_order(api, member):
    job = JobFactory(tenant=member.tenant)
    JobEventFactory(job=job, to_state="queued", reason="submitted", actor=member.user)
    JobEventFactory(job=job, from_state="queued", to_state="starting", at=T0 + timedelta(seconds=5))
    JobEventFactory(reason="of another job")

    body = api.get(f"{JOBS}/{job.public_id}/events").json()

    assert body == {
        "items": [
            {
                "at": "2026-01-01T00:00:00Z",
                "from_state": "",
                "to_state": "queued",
                "reason": "submitted",
                "actor": "ada",
            },
            {
                "at": "2026-01-01T00:00:05Z",
                "from_state": "queued",
                "to_state": "starting",
                "reason": "",
                "actor": None,
            },
        ],
        "next": None,
        "count": {"value": 2, "exact": True},
    }


@pytest.mark.parametrize("count", [1, 3])
def test_events_cost_the_same_for_any_number(api, member, count, django_assert_num_queries):
    job = JobFactory(tenant=member.tenant)
    JobEventFactory.create_batch(count, job=job, actor=member.user)

    with django_assert_num_queries(7):  # session, user, job, groups, flavors; count, events
        body = api.get(f"{JOBS}/{job.public_id}/events").json()

    assert len(body["items"]) == count


def test_an_explanation_says_why_with_numbers_and_place(api, member, cluster):
    cluster.planned_at = T0 + timedelta(minutes=3)
    cluster.save()
    JobFactory(cluster=cluster, priority=5, members=2, members__gpus=8)  # another tenant's, ahead
    JobFactory(cluster=cluster, submitted_at=T0 + timedelta(hours=1))  # behind
    JobFactory(cluster=cluster, priority=9, state=JobState.RUNNING)  # waits no more
    job = JobFactory(
        tenant=member.tenant,
        cluster=cluster,
        reason="fragmented",
        reason_numbers={"free": 2, "largest": 1, "level": "rack", "waits_for": "j-000001"},
        reason_at=T0 + timedelta(minutes=1),
    )

    body = api.get(f"{JOBS}/{job.public_id}/explanation").json()

    facts = {fact["code"]: fact["value"] for fact in body.pop("facts")}
    assert body == {
        "state": "queued",
        "since": "2026-01-01T00:00:00Z",
        "evaluated_at": "2026-01-01T00:03:00Z",
        "reason": {
            "code": "fragmented",
            "text": "There is room for 2 of its members, but in one rack for 1.",
        },
        "position": {"rank": 2, "of": 3, "jobs_ahead": 1, "gpus_ahead": 16},
        "start": {
            "p10": None,
            "p90": None,
            "percent": 0,
            "unknown": "not_yet",
            "text": "When it starts is not known, because it has not been looked at yet.",
            "promised_at": None,
            "made_at": None,
        },
        "record": {"told": 0, "held": 0},
        "would_help": None,
        "is_complete": False,
        "checked_at": None,
        "stops": [],
    }
    assert facts == {"free": 2, "largest": 1, "level": "rack"}


def test_a_job_that_runs_needs_no_explanation(api, member):
    job = JobFactory(tenant=member.tenant, state=JobState.RUNNING, reason="no_room")

    body = api.get(f"{JOBS}/{job.public_id}/explanation").json()

    assert body == {
        "state": "running",
        "since": "2026-01-01T00:00:00Z",
        "evaluated_at": None,
        "reason": None,
        "position": None,
        "start": None,
        "record": None,
        "would_help": None,
        "is_complete": False,
        "checked_at": None,
        "facts": [],
        "stops": [],
    }


def test_an_explanation_says_who_made_room_for_whom(api, member, cluster):
    victim = JobFactory(tenant=member.tenant, cluster=cluster)
    claimant = JobFactory(tenant=member.tenant, cluster=cluster, state=JobState.RUNNING)
    PreemptionFactory(job=victim, claimant=claimant, gone_at=T0, checkpoint_at=T0)

    told = [
        api.get(f"{JOBS}/{job.public_id}/explanation").json()["stops"] for job in (victim, claimant)
    ]

    assert [len(sentences) for sentences in told] == [1, 1]
    assert "goes on from its checkpoint" in told[0][0]
    assert "was stopped for it" in told[1][0]


def test_times_are_utc_whatever_zone_the_caller_lives_in(api, member):
    member.user.time_zone = "Asia/Shanghai"
    member.user.save()
    job = JobFactory(tenant=member.tenant)

    body = api.get(f"{JOBS}/{job.public_id}").json()

    assert body["submitted_at"] == "2026-01-01T00:00:00Z"


def test_an_explanation_says_when_it_may_start_and_what_would_help(api, member, cluster):
    job = JobFactory(tenant=member.tenant, cluster=cluster, members=2, reason="no_room")
    StartEstimateFactory(
        job=job,
        earliest=T0 + timedelta(days=9000),
        latest=T0 + timedelta(days=9000, minutes=20),
        percent=80,
    )
    StartEstimateFactory(job=JobFactory(cluster=cluster), held=True, settled_at=T0)
    found = [{"kind": "members", "value": 1, "effect": "starts_now"}]
    AdviceFactory(job=job, found=found, checked_wall_at=timezone.now())

    answer = api.get(f"{JOBS}/{job.public_id}/explanation")

    body = answer.json()
    assert "Retry-After" not in answer
    assert (body["start"]["p10"], body["start"]["p90"], body["start"]["percent"]) == (
        "2050-08-23T00:00:00Z",
        "2050-08-23T00:20:00Z",
        80,
    )
    assert body["record"] == {"told": 1, "held": 1}
    assert body["would_help"] == [
        {
            "change": {"members": 1},
            "effect": "starts_now",
            "text": "With 1 member: it starts now.",
        }
    ]


def test_what_would_help_is_asked_for_again_while_it_is_looked_for(api, member):
    job = JobFactory(tenant=member.tenant, reason="no_room")

    answer = api.get(f"{JOBS}/{job.public_id}/explanation")

    assert (answer.json()["would_help"], answer["Retry-After"]) == (None, "2")


def test_another_tenants_explanation_is_not_there(stranger, member):
    job = JobFactory(tenant=member.tenant)

    assert stranger.get(f"{JOBS}/{job.public_id}/explanation").status_code == 404
