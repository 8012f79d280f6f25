"""What a cluster has and lets us do: asked, noted, and said."""

import pytest
from django.core.management import CommandError, call_command

from simcluster.testing import running_cluster
from tests.factories import ClusterCheckFactory, ClusterFactory
from tests.factories.topology import T0
from topology import tasks
from topology.kube.wire import ApiError
from topology.models import Cluster, ClusterCheck
from topology.reports.stack import PARTS, stack_rows
from topology.services.check import ask_for_check, check_cluster, note_check
from topology.services.pod_groups import note_refusal
from topology.services.reach import gateway_to

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with running_cluster("2xH100-SXM:8", frozen=True) as simulated:
        yield str(simulated.write_kubeconfig(tmp_path_factory.mktemp("sim") / "kubeconfig"))


@pytest.fixture
def cluster(kubeconfig):
    return ClusterFactory(slug="lab", kubeconfig_path=kubeconfig, is_writable=False)


def seen(key, *, is_there, nodes=None, versions=()):
    return {"key": key, "is_there": is_there, "nodes": nodes, "versions": list(versions)}


def test_the_task_notes_what_a_cluster_has(cluster):
    tasks.check_clusters()
    tasks.check_one_cluster(cluster_id=cluster.pk)

    row = ClusterCheck.objects.get(cluster=cluster)
    there = [part["key"] for part in row.parts if part["is_there"]]
    assert (row.gpu_nodes, row.trouble, row.knows_rights) == (2, "", True)
    assert there == ["driver", "device_plugin", "gfd", "agent"]
    assert (row.lacks_to_look, row.lacks_to_manage, row.closed) == ([], [], [])


def test_a_cluster_that_is_away_keeps_what_was_known(cluster):
    tasks.check_one_cluster(cluster_id=cluster.pk)
    cluster.kubeconfig_path = "/nowhere"
    cluster.save()

    tasks.check_one_cluster(cluster_id=cluster.pk)

    row = ClusterCheck.objects.get(cluster=cluster)
    assert (row.gpu_nodes, "/nowhere cannot be read" in row.trouble) == (2, True)


def test_a_refusal_is_noted_in_the_clusters_words():
    class Closed:
        def ask(self, _request):
            raise ApiError(401, reason="Unauthorized", message="the token has expired")

    row = check_cluster(ClusterFactory(), Closed(), at=T0)

    assert (row.trouble, row.checked_at, row.parts) == ("the token has expired", T0, [])


def test_a_cluster_that_tells_no_rights_is_looked_at_all_the_same(cluster):
    class NoReviews:
        def __init__(self, wire):
            self.wire = wire

        def ask(self, request):
            if request.method == "POST":
                raise ApiError(404, reason="NotFound", message="no such path")
            return self.wire.ask(request)

    row = check_cluster(cluster, NoReviews(gateway_to(cluster).wire), at=T0)

    assert (row.knows_rights, row.gpu_nodes) == (False, 2)


def pod_groups(*, is_there=True, lacks=()):
    return {"parts": [seen("pod_groups", is_there=is_there)], "lacks_to_manage": list(lacks)}


@pytest.mark.parametrize(
    ("found", "are_had"),
    [
        (pod_groups(), True),
        (pod_groups(lacks=["create jobs.batch"]), True),
        (pod_groups(lacks=["patch podgroups.scheduling.k8s.io"]), False),
        (pod_groups(is_there=False), False),
        (pod_groups(is_there=None), False),
    ],
)
def test_pod_groups_are_used_where_they_are_there_and_may_be_made(found, are_had):
    cluster = ClusterFactory(has_pod_groups=not are_had)

    note_check(cluster, found, at=T0)

    assert Cluster.objects.get().has_pod_groups is are_had


def test_a_cluster_that_is_away_is_taken_to_have_the_pod_groups_it_had():
    note_check(ClusterFactory(has_pod_groups=True), {"trouble": "away"}, at=T0)

    assert Cluster.objects.get().has_pod_groups


def test_a_refusal_of_pod_groups_is_said_once(caplog):
    cluster = ClusterFactory(slug="lab", has_pod_groups=True)

    note_refusal(cluster, "no such kind")
    note_refusal(cluster, "no such kind")

    assert caplog.messages == ["gangs start without PodGroups in lab: no such kind"]
    assert not Cluster.objects.get().has_pod_groups


def test_it_can_be_asked_for(cluster, sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        ask_for_check(cluster)

    assert sent == [("topology.check_cluster", {"cluster_id": cluster.pk})]


@pytest.mark.parametrize(
    ("part", "state", "says_something"),
    [
        (seen("gfd", is_there=True, nodes=4), "there", False),
        (seen("gfd", is_there=True, nodes=3), "partly", True),
        (seen("gfd", is_there=False), "missing", True),
        (seen("gfd", is_there=None), "unknown", True),
        (seen("gpu_operator", is_there=True), "there", False),
        (seen("kueue", is_there=True), "there", True),
        (seen("kueue", is_there=False), "missing", True),
    ],
)
def test_a_part_is_there_on_all_nodes_or_says_what_is_lost(part, state, says_something):
    (row,) = stack_rows(ClusterCheckFactory(gpu_nodes=4, parts=[part]))

    assert (row.state, bool(row.says)) == (state, says_something)


def test_who_places_pods_too_is_to_be_kept_apart():
    check = ClusterCheckFactory(parts=[seen("kai", is_there=True), seen("kueue", is_there=False)])

    kueue, kai = stack_rows(check)

    assert "of its own" in str(kai.says)
    assert "Nothing is lost" in str(kueue.says)


def test_every_part_that_is_looked_for_has_its_words(cluster):
    tasks.check_one_cluster(cluster_id=cluster.pk)

    found = ClusterCheck.objects.get(cluster=cluster).parts
    assert {part["key"] for part in found} == set(PARTS)


def test_the_command_says_it_in_lines(cluster, capsys):
    call_command("stack_check", "lab")

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("2 nodes, 2 with GPUs")
    assert "NVIDIA device plugin: there (2 nodes)" in lines
    assert "DCGM exporter: not found. Use of GPUs is not measured" in "\n".join(lines)


@pytest.mark.parametrize("slug", ["nobody", "away"])
def test_the_command_says_what_is_wrong(slug):
    ClusterFactory(slug="away", kubeconfig_path="/nowhere")

    with pytest.raises(CommandError, match=r"there is no cluster nobody|/nowhere cannot be read"):
        call_command("stack_check", slug)
