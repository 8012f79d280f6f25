"""The watcher as a program: what it takes in, who works, and what it survives."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db import connection

from scheduling.management.commands.watch_cluster import Watchers
from simcluster.testing import running_cluster
from tests.factories import ClusterFactory
from tests.kube.polling import eventually
from topology.kube.live import connect
from topology.kube.wire import MERGE_PATCH, Request
from topology.models import Cluster, Node

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
WATCHED = """
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
END_OTHER_SESSIONS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture
def running():
    with running_cluster("2xL40S:2", frozen=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(running, tmp_path):
    path = running.write_kubeconfig(tmp_path / "kubeconfig")
    return ClusterFactory(slug="sim", kubeconfig_path=str(path), is_simulated=True)


@pytest.fixture
def watchers():
    """Makes watchers, which end with the test at the latest."""
    made = []

    def make(slug=""):
        made.append(Watchers(slug))
        made[-1].look()
        return made[-1]

    yield make
    for one in made:
        one.end()


def nodes(**facts):
    return set(Node.objects.filter(**facts).values_list("name", flat=True))


def set_cordoned(cluster, node, is_cordoned):
    body = {"spec": {"unschedulable": is_cordoned}}
    request = Request(method="PATCH", path=f"/api/v1/nodes/{node}", body=body, kind=MERGE_PATCH)
    connect(cluster.kubeconfig_path).wire.ask(request)


def query(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def test_nodes_and_clock_are_taken_in(cluster, running, watchers):
    watchers("sim")

    eventually(lambda: nodes() == {"l40s-01", "l40s-02"})
    stored = Cluster.objects.get()

    assert (stored.clock_at, stored.clock_speed) == (running.now(), 0.0)
    assert stored.cycle_asked > 0


def test_a_node_that_went_while_nobody_watched_is_gone(cluster, running, watchers):
    first = watchers("sim")
    eventually(lambda: len(nodes()) == 2)
    first.end()
    running.call("DELETE", "/api/v1/nodes/l40s-02")

    watchers("sim")

    eventually(lambda: nodes(gone_at=None) == {"l40s-01"})


def test_one_works_and_the_next_takes_over(cluster, watchers):
    first = watchers("sim")
    eventually(lambda: len(nodes()) == 2)
    second = watchers("sim")

    assert query(WATCHED) == [(1,)]

    first.end()
    set_cordoned(cluster, "l40s-01", True)  # noqa: FBT003 - as the manifest says it
    eventually(lambda: nodes(is_cordoned=True) == {"l40s-01"})
    second.end()
    assert query(WATCHED) == [(0,)]


def test_it_goes_on_after_the_database_has_ended_its_session(cluster, watchers):
    watchers("sim")
    eventually(lambda: len(nodes()) == 2)

    query(END_OTHER_SESSIONS)
    set_cordoned(cluster, "l40s-02", True)  # noqa: FBT003 - as the manifest says it

    eventually(lambda: nodes(is_cordoned=True) == {"l40s-02"}, within=20)


def test_a_cluster_that_joins_later_is_watched_too(watchers, running, tmp_path):
    everybody = watchers()
    path = running.write_kubeconfig(tmp_path / "kubeconfig")
    ClusterFactory(kubeconfig_path=str(path), is_simulated=True)

    everybody.look()

    eventually(lambda: len(nodes()) == 2)


@pytest.fixture
def program(database_url, tmp_path):
    """`manage.py watch_cluster --cluster sim` on this test's database, killed in the end."""
    command = [sys.executable, str(ROOT / "manage.py"), "watch_cluster", "--cluster", "sim"]
    server, _, socket = database_url.partition("?")
    name = connection.settings_dict["NAME"]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "portal.settings.test",
        "DATABASE_URL": f"{server.rpartition('/')[0]}/{name}?{socket}",
        "MUSTER_ALIVE_FILE": str(tmp_path / "alive"),
    }
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def test_it_shows_life_and_stops_within_two_seconds_of_being_asked(cluster, program, tmp_path):
    eventually(lambda: len(nodes()) == 2, within=60)
    assert (tmp_path / "alive").exists()

    began = time.monotonic()
    program.send_signal(signal.SIGTERM)
    _, log = program.communicate(timeout=10)

    assert time.monotonic() - began < 2
    assert program.returncode == 0
    assert "watching sim" in log
    assert log.rstrip().endswith("stopped")
