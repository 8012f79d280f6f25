from datetime import timedelta

import pytest
from django.utils import timezone

from scheduling.states import JobState
from tenants.services.tokens import TokenRequest, create_token
from tests.factories import ClusterFactory, JobFactory, UserFactory


def test_a_process_that_answers_is_alive_whatever_else_is(client):
    """No database is asked: this test has none."""
    answer = client.get("/healthz")

    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.mark.django_db
def test_it_is_ready_when_all_it_needs_is_there(client, redis_url, broker_at):
    broker_at(redis_url.replace("unix://", "redis+socket://"))

    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()) == (
        200,
        {"database": "ok", "broker": "ok", "migrations": "ok"},
    )


@pytest.mark.django_db
def test_it_is_not_ready_without_a_broker_and_says_so(client, broker_at):
    broker_at("redis://127.0.0.1:1/0")

    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()) == (
        503,
        {"database": "ok", "broker": "away", "migrations": "ok"},
    )


@pytest.fixture
def busy(db):
    """A cluster planned ten seconds ago, by a clock that runs at speed 60."""
    now = timezone.now()
    cluster = ClusterFactory(
        slug="main",
        clock_at=now,
        clock_wall_at=now,
        clock_speed=60,
        planned_at=now - timedelta(minutes=10),
    )
    for state in (JobState.QUEUED, JobState.QUEUED, JobState.RUNNING, JobState.FAILED):
        JobFactory(cluster=cluster, state=state)


def test_metrics_tell_what_waits_runs_and_how_old_the_last_cycle_is(client, busy):
    answer = client.get("/metrics")

    lines = [line for line in answer.content.decode().splitlines() if line[0] != "#"]
    ages = [line for line in lines if line.startswith("muster_cycle_age_seconds")]
    assert answer["Content-Type"].startswith("text/plain; version=")
    assert [line for line in lines if line.startswith("muster_jobs")] == [
        'muster_jobs{cluster="main",state="queued"} 2.0',
        'muster_jobs{cluster="main",state="starting"} 0.0',
        'muster_jobs{cluster="main",state="running"} 1.0',
        'muster_jobs{cluster="main",state="stopping"} 0.0',
        'muster_jobs{cluster="main",state="suspended"} 0.0',
    ]
    assert [10 <= float(line.split()[1]) < 30 for line in ages] == [True]
    assert not [line for line in lines if line.startswith("muster_cluster_seen_age")]


def scrape_from_afar(client, **headers):
    return client.get("/metrics", REMOTE_ADDR="192.0.2.7", headers=headers)


@pytest.mark.parametrize(
    ("is_operator", "scopes", "status"),
    [
        (True, ["metrics:read"], 200),
        (True, ["jobs:read"], 401),
        (False, ["metrics:read"], 401),
    ],
)
def test_from_afar_an_operators_token_is_needed(client, db, is_operator, scopes, status):
    now = timezone.now()
    request = TokenRequest(name="prometheus", scopes=scopes, expires_at=now + timedelta(days=1))
    made = create_token(request, by=UserFactory(is_operator=is_operator), at=now)

    answer = scrape_from_afar(client, Authorization=f"Bearer {made.secret}")

    assert answer.status_code == status


def test_from_afar_nobody_else_is_answered(client, db):
    assert scrape_from_afar(client).status_code == 401


def test_a_proxy_on_this_machine_does_not_make_a_stranger_local(client, db):
    answer = client.get("/metrics", headers={"X-Forwarded-For": "192.0.2.7"})

    assert answer.status_code == 401
