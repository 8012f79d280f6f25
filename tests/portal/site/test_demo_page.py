"""The demo's own page: the speed of its clock, and beginning anew; in the demo alone."""

from pathlib import Path

import pytest
from django.utils import timezone

from portal.core.models import AuditEvent
from portal.embedded import checkout
from portal.site.seed import seed
from simcluster.testing import TOKEN, running_cluster
from tenants.models import User
from tests.factories import UserFactory
from topology.models import Cluster

pytestmark = pytest.mark.django_db
PAGES = ("/demo/", "/demo/speed/", "/demo/anew/")


@pytest.fixture
def demo(settings, tmp_path):
    """The folder of a demo whose cluster does not answer."""
    settings.IS_DEMO = True
    settings.DATA_DIR = tmp_path
    settings.SIMCLUSTER_URL = "http://127.0.0.1:9"
    settings.SIMCLUSTER_TOKEN = "secret"
    (tmp_path / "postgres").mkdir()
    seed(Path("kubeconfig"), at=timezone.now())
    return tmp_path


@pytest.fixture
def operator(client, demo):
    client.force_login(User.objects.get(username="demo-operator"))
    return client


def said(response):
    return [str(message) for message in response.context["messages"]]


def test_the_page_says_how_fast_the_clock_runs_and_offers_others(operator):
    Cluster.objects.update(clock_speed=60)

    page = operator.get("/demo/").content.decode()

    assert "its clock goes 60 times as fast as yours" in page
    assert 'value="60" aria-pressed="true"' in page
    for speed in (0, 1, 10, 300):
        assert f'value="{speed}">' in page
    assert 'href="/demo/"' in operator.get("/").content.decode()


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("method", ["get", "post"])
def test_where_it_is_no_demo_there_is_no_such_page(operator, settings, path, method):
    settings.IS_DEMO = False

    assert getattr(operator, method)(path).status_code == 404
    assert b'href="/demo/"' not in operator.get("/").content


@pytest.mark.parametrize(
    ("method", "path"), [("get", "/demo/"), ("post", "/demo/speed/"), ("post", "/demo/anew/")]
)
def test_only_operators_may(client, demo, method, path):
    client.force_login(UserFactory())

    answer = getattr(client, method)(path, {"speed": "1", "sure": "yes"})

    assert answer.status_code == 403
    assert not checkout.is_reset_asked(demo)


@pytest.mark.parametrize("speed", ["", "7", "1000", "-1", "ten", "60.5"])
def test_a_speed_that_is_not_offered_is_refused(operator, speed):
    answer = operator.post("/demo/speed/", {"speed": speed}, follow=True)

    assert said(answer) == ["Choose one of the speeds that are offered."]
    assert not AuditEvent.objects.filter(action="set_demo_speed").exists()


def test_the_clock_of_the_cluster_takes_the_speed_stands_still_and_goes_on(operator, settings):
    def choose(speed):
        operator.post("/demo/speed/", {"speed": str(speed)})
        clock = cluster.call("GET", "/simcluster/clock")
        return clock["speed"], clock["frozen"]

    with running_cluster(speed=60) as cluster:
        settings.SIMCLUSTER_URL, settings.SIMCLUSTER_TOKEN = cluster.url, TOKEN
        clocks = [choose(speed) for speed in (300, 0, 10)]

    assert clocks == [(300, False), (300, True), (10, False)]
    events = AuditEvent.objects.filter(action="set_demo_speed").order_by("pk")
    assert [event.after for event in events] == [{"speed": speed} for speed in (300, 0, 10)]


def test_a_cluster_that_does_not_answer_is_named(operator):
    answer = operator.post("/demo/speed/", {"speed": "10"}, follow=True)

    assert said(answer)[0].startswith("The simulated cluster does not answer")
    assert not AuditEvent.objects.filter(action="set_demo_speed").exists()


def test_beginning_anew_is_asked_twice(operator, demo):
    assert b"Forget everything and begin anew?" in operator.get("/demo/anew/").content
    assert not checkout.is_reset_asked(demo)

    answer = operator.post("/demo/anew/", follow=True)
    assert said(answer) == ["Tick the box first: everything will be forgotten."]
    assert not checkout.is_reset_asked(demo)

    assert b"The demo begins anew" in operator.post("/demo/anew/", {"sure": "yes"}).content
    assert checkout.is_reset_asked(demo)


def test_what_lies_in_a_database_of_their_own_is_not_said_to_be_forgotten(operator, demo):
    (demo / "postgres").rmdir()

    page = operator.get("/demo/").content.decode()

    assert "bin/run --reset" in page
    assert operator.post("/demo/anew/", {"sure": "yes"}).status_code == 404
    assert not checkout.is_reset_asked(demo)
