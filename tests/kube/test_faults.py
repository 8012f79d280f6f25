"""What the gateway and the watch do while a cluster is slow, busy, forgetful or gone."""

import threading
import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import pytest

from portal.core.errors import ClusterAway
from simcluster.testing import running_cluster
from tests.kube.polling import eventually
from topology.kube.gateway import RefusedByCluster
from topology.kube.live import connect
from topology.kube.values import ClockSeen, Listed, NodeSeen, TenancySpec
from topology.kube.watch import ClusterWatch
from topology.kube.wire import MERGE_PATCH, Backoff, Request


@pytest.fixture
def cluster():
    with running_cluster("2xL40S:2", frozen=True) as running:
        yield running


@pytest.fixture
def kubeconfig(cluster, tmp_path):
    return cluster.write_kubeconfig(tmp_path / "kubeconfig")


@pytest.fixture
def gateway(kubeconfig):
    return connect(str(kubeconfig))


@contextmanager
def watching(kubeconfig):
    """A list that fills with what the watch tells while the block lasts."""
    heard, stop = [], threading.Event()
    watch = ClusterWatch(
        lambda: connect(str(kubeconfig)).wire,
        wall=lambda: datetime.now(UTC),
        stop=stop,
        has_clock=True,
    )

    def listen():
        with watch:
            heard.extend(watch)

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        yield heard
    finally:
        stop.set()
        listener.join()


def lists_of(heard, kind):
    return [seen for seen in heard if isinstance(seen, Listed) and seen.kind == kind]


def cordoned(heard):
    return {seen.name for seen in heard if isinstance(seen, NodeSeen) and seen.is_cordoned}


def cordon(gateway, node):
    body = {"spec": {"unschedulable": True}}
    path = f"/api/v1/nodes/{node}"
    gateway.wire.ask(Request(method="PATCH", path=path, body=body, kind=MERGE_PATCH))


@pytest.mark.parametrize("status", [429, 500, 503, 504])
def test_a_busy_cluster_is_asked_again(cluster, gateway, status):
    cluster.fault("error", path="/namespaces", status=status, next=2)

    gateway.keep_tenancy(TenancySpec(tenant="a", namespace="muster-a", gpus=None))

    assert cluster.call("GET", "/api/v1/namespaces/muster-a")["metadata"]["name"] == "muster-a"


def test_a_cluster_that_stays_busy_is_away(cluster, gateway):
    cluster.fault("error", path="/nodes", status=503)

    with pytest.raises(ClusterAway, match="come back later"):
        gateway.nodes()


def test_a_refused_token_is_said_at_once(cluster, gateway):
    cluster.fault("error", path="/nodes", status=401, next=1)

    with pytest.raises(RefusedByCluster):
        gateway.nodes()


def test_nobody_at_the_address_is_a_cluster_away(tmp_path):
    with running_cluster("1xT4:1") as running:
        path = running.write_kubeconfig(tmp_path / "kubeconfig")

    with pytest.raises(ClusterAway, match="does not answer"):
        connect(str(path)).nodes()


@pytest.mark.parametrize("text", [None, "{}"], ids=["missing", "empty"])
def test_a_kubeconfig_that_leads_nowhere_is_a_cluster_away(tmp_path, text):
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)

    with pytest.raises(ClusterAway):
        connect(str(path))


def test_one_gateway_serves_a_process_until_its_kubeconfig_changes(kubeconfig, cluster):
    first = connect(str(kubeconfig))
    again = connect(str(kubeconfig))
    cluster.write_kubeconfig(kubeconfig)

    assert again is first
    assert connect(str(kubeconfig)) is not first


def test_a_watch_that_drops_goes_on_without_listing_again(cluster, gateway, kubeconfig):
    with watching(kubeconfig) as heard:
        eventually(lambda: lists_of(heard, "nodes"))
        cluster.fault("drop-watches")
        for node in ("l40s-02", "l40s-01"):
            cordon(gateway, node)
            eventually(lambda node=node: node in cordoned(heard))

    assert len(lists_of(heard, "nodes")) == 1


@pytest.mark.parametrize("torn", [b'{"type":"MODIFIED","obj', b"6G\xd2\xa6", b"7", b"{}"])
def test_a_torn_line_ends_a_watch_and_not_the_watching(
    cluster, gateway, kubeconfig, torn, monkeypatch
):
    tears = iter([torn])
    take = ClusterWatch._take  # noqa: SLF001 - lines come from nowhere else
    monkeypatch.setattr(
        ClusterWatch, "_take", lambda self, kind, line: take(self, kind, next(tears, line))
    )

    with watching(kubeconfig) as heard:
        eventually(lambda: lists_of(heard, "nodes"))
        for node in ("l40s-02", "l40s-01"):
            cordon(gateway, node)
        eventually(lambda: len(lists_of(heard, "nodes")) == 1 and not next(tears, None))
        eventually(lambda: {"l40s-01", "l40s-02"} <= cordoned(heard))


def test_a_version_that_the_cluster_has_forgotten_leads_to_a_new_list(cluster, kubeconfig):
    with watching(kubeconfig) as heard:
        eventually(lambda: lists_of(heard, "nodes"))
        cluster.fault("error", path="^/api/v1/nodes$", status=410, next=1)
        cluster.fault("drop-watches", resource="nodes")
        eventually(lambda: len(lists_of(heard, "nodes")) == 2)

    assert lists_of(heard, "nodes")[1].keys == {"l40s-01", "l40s-02"}


def test_a_cluster_that_comes_back_as_another_is_listed_anew(tmp_path):
    path = tmp_path / "kubeconfig"
    with ExitStack() as throughout:
        with running_cluster("2xL40S:2", frozen=True) as first:
            first.write_kubeconfig(path)
            heard = throughout.enter_context(watching(path))
            eventually(lambda: lists_of(heard, "nodes"))
        with running_cluster("1xA10:1", frozen=True) as second:
            second.write_kubeconfig(path)
            eventually(lambda: len(lists_of(heard, "nodes")) == 2, within=30)

    assert [seen.keys for seen in lists_of(heard, "nodes")] == [
        {"l40s-01", "l40s-02"},
        {"a10-01"},
    ]


def test_a_report_that_makes_no_sense_does_not_stop_the_others(gateway, kubeconfig, caplog):
    body = {"metadata": {"annotations": {"muster.dev/gpus": "eight"}}}
    path = "/api/v1/nodes/l40s-01"
    gateway.wire.ask(Request(method="PATCH", path=path, body=body, kind=MERGE_PATCH))

    with watching(kubeconfig) as heard:
        eventually(lambda: lists_of(heard, "nodes"))

    assert [seen.name for seen in heard if isinstance(seen, NodeSeen)] == ["l40s-02"]
    assert "nodes l40s-01 is not understood" in caplog.text


def test_the_clock_comes_first(cluster, kubeconfig):
    with watching(kubeconfig) as heard:
        eventually(lambda: len(heard) > 1)

    assert isinstance(heard[0], ClockSeen)
    assert (heard[0].at, heard[0].speed) == (cluster.now(), 0.0)


def test_a_watch_ends_within_a_second(kubeconfig):
    with watching(kubeconfig) as heard:
        eventually(lambda: len(lists_of(heard, "members") + lists_of(heard, "nodes")) == 2)
        began = time.monotonic()

    assert time.monotonic() - began < 1


def test_waits_double_up_to_a_ceiling_and_are_spread():
    backoff = Backoff(first=1.0, most=4.0)

    waits = [backoff.seconds() for _ in range(4)]
    backoff.reset()
    after = backoff.seconds()

    ceilings = [1.0, 2.0, 4.0, 4.0, 1.0]
    assert all(c / 2 <= w <= c for w, c in zip([*waits, after], ceilings, strict=True))
