"""The system page: operators see whether the portal itself is well, and try its mail."""

from datetime import timedelta

import pytest
from django.core import mail
from django.test import Client
from django.utils import timezone

from portal.core.locks import LockSpace, advisory_lock, held_of
from portal.core.models import AuditEvent
from scheduling.models import JobEvent
from scheduling.reports.system import system_health
from scheduling.states import JobState
from tests.factories import (
    ClusterFactory,
    CycleFactory,
    JobFactory,
    MembershipFactory,
    PlacementFactory,
    TenancyFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db

PAGE = "/admin/system/"
MAIL = "/admin/system/mail/"


@pytest.fixture
def operator(client):
    client.force_login(UserFactory(username="root", is_operator=True, email="root@example.org"))
    return client


def health():
    (one,) = system_health(wall=timezone.now())
    return one


def test_a_lock_is_held_while_its_session_holds_it():
    keys = [7, 8, 2**31 + 7]
    before = held_of(LockSpace.WATCH, keys)
    with advisory_lock(LockSpace.WATCH, 7), advisory_lock(LockSpace.JOB, 8):
        during = held_of(LockSpace.WATCH, keys)

    assert (before, during, held_of(LockSpace.WATCH, keys)) == (set(), {7}, set())


def test_rows_that_contradict_others_are_counted():
    cluster = ClusterFactory()
    long_ago = timezone.now() - timedelta(hours=1)
    JobFactory(cluster=cluster, state=JobState.RUNNING)  # and nothing placed
    PlacementFactory(job=JobFactory(cluster=cluster, state=JobState.SUCCEEDED))
    slow, quick = (
        JobFactory(cluster=cluster, state=JobState.STOPPING, stopping_to="queued") for _ in "ab"
    )
    JobEvent.objects.create(job=slow, to_state="stopping", at=long_ago)
    JobEvent.objects.create(job=quick, to_state="stopping", at=timezone.now())
    TenancyFactory(cluster=cluster)
    TenancyFactory(cluster=cluster, drift=["Namespace nlp: labels"])
    PlacementFactory(job=JobFactory(cluster=cluster, state=JobState.RUNNING))

    drift = health().drift

    assert (drift.without_gpus, drift.kept, drift.unconfirmed, drift.tenancies) == (1, 1, 1, 1)
    assert drift.total == 4


def test_the_pace_is_that_of_the_newest_cycles():
    cluster = ClusterFactory()
    for seconds in (0.1, 0.2, 0.9):
        CycleFactory(cluster=cluster, seconds=seconds, starts=2, skipped=1)

    pace = health().pace

    assert (pace.count, pace.median_seconds, pace.slowest_seconds) == (3, 0.2, 0.9)
    assert (pace.starts, pace.skipped) == (6, 3)


def test_each_cluster_has_its_own_numbers():
    now = timezone.now()
    quick, slow, new = (ClusterFactory(slug=slug) for slug in ("a", "b", "c"))
    CycleFactory(cluster=quick, seconds=0.1)
    CycleFactory(cluster=slow, seconds=0.9)
    JobFactory(cluster=quick, state=JobState.RUNNING)
    PlacementFactory(job=JobFactory(cluster=slow, state=JobState.SUCCEEDED))
    TenancyFactory(cluster=new, drift=["Namespace nlp: labels"])

    told = system_health(wall=now)

    assert [own.pace and own.pace.slowest_seconds for own in told] == [0.1, 0.9, None]
    drifts = [(own.drift.without_gpus, own.drift.kept, own.drift.tenancies) for own in told]
    assert drifts == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]


def test_without_a_cluster_nothing_is_told():
    assert system_health(wall=timezone.now()) == []


@pytest.mark.parametrize("count", [1, 3])
def test_many_clusters_cost_as_few_queries_as_one(
    operator, broker_at, count, django_assert_num_queries
):
    broker_at("redis://127.0.0.1:1/0")
    for cluster in ClusterFactory.create_batch(count):
        CycleFactory(cluster=cluster)

    with django_assert_num_queries(13):
        operator.get(PAGE)


def test_the_page_says_what_is_wrong(operator, broker_at):
    broker_at("redis://127.0.0.1:1/0")
    ClusterFactory(slug="main", planned_at=timezone.now() - timedelta(hours=1))

    page = operator.get(PAGE).content.decode()

    assert "Something needs a look" in page
    assert "The broker does not answer" in page
    assert "No watcher is at work on it" in page


def test_the_queue_is_counted_and_missing_workers_are_noticed(operator, broker_at, redis_url):
    broker_at(redis_url.replace("unix://", "redis+socket://"))

    page = operator.get(PAGE).content.decode()

    assert "0 tasks wait for a worker." in page
    assert "No worker has answered" in page


@pytest.mark.parametrize(("method", "address"), [("get", PAGE), ("post", MAIL)])
def test_only_operators_come_in(method, address):
    client = Client()
    client.force_login(MembershipFactory(role=3).user)

    assert getattr(client, method)(address).status_code == 403


def test_a_test_mail_goes_to_who_asks_and_is_on_record(operator, settings):
    settings.SENDS_MAIL = True

    page = operator.post(MAIL, follow=True).content.decode()

    assert [message.to for message in mail.outbox] == [["root@example.org"]]
    assert "A mail is on its way to root@example.org." in page
    assert AuditEvent.objects.get(action="send_test_mail").after == {"to": "root@example.org"}


def test_without_a_mail_server_it_says_what_to_set(operator, settings):
    settings.SENDS_MAIL = False

    page = operator.post(MAIL, follow=True).content.decode()

    assert mail.outbox == []
    assert "set MUSTER_MAIL_URL" in page


def test_a_mail_server_that_refuses_is_quoted(operator, settings):
    settings.SENDS_MAIL = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1

    page = operator.post(MAIL, follow=True).content.decode()

    assert "The mail server did not take it" in page
    assert not AuditEvent.objects.filter(action="send_test_mail").exists()
