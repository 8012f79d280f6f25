"""Namespaces that others made, taken over and given back, against simcluster."""

from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from urllib.error import HTTPError

import pytest
from django.core.management import call_command
from django.db import connection

from portal.core.errors import Conflict, NotAllowed, Refused
from portal.core.models import AuditEvent
from scheduling.services.connecting import only_look_at
from simcluster.testing import running_cluster
from tenants import tasks
from tenants.models import AdoptedNamespace
from tenants.reports.adoption import namespace_rows
from tenants.services.adoption import adopt_namespace, give_back_namespace, keep_adoption
from tests.factories import (
    AdoptedNamespaceFactory,
    ClusterFactory,
    NodeFactory,
    TenantFactory,
    UserFactory,
)
from tests.factories.topology import T0
from topology.kube.wire import MERGE_PATCH, Request, Wire
from topology.services.reach import gateway_to
from topology.tasks import check_one_cluster

pytestmark = pytest.mark.django_db
GATE = {"name": "muster.dev/gate"}
FOREIGN = {"name": "team.example/budget"}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with running_cluster("1xH100-SXM:8", frozen=True) as simulated:
        path = simulated.write_kubeconfig(tmp_path_factory.mktemp("sim") / "kubeconfig")
        yield simulated, str(path)


@pytest.fixture
def cluster(running):
    """With the policies, and a namespace `team-a` that somebody has made and works in."""
    simulated, path = running
    cluster = ClusterFactory(slug="lab", kubeconfig_path=path)
    call_command("cluster_objects", "--account", "muster", "--apply", "lab")
    simulated.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team-a"}})
    yield cluster
    simulated.call("DELETE", "/api/v1/namespaces/team-a")
    simulated.step(60)


@pytest.fixture
def kube(running):
    return running[0]


@pytest.fixture
def root():
    return UserFactory(is_operator=True)


@pytest.fixture
def nlp():
    return TenantFactory(slug="nlp")


def pod(name, *, gpus=1, gates=(), labels=None):
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    spec = {"containers": [{"name": "main", "image": "a", "resources": limits}]}
    if gates:
        spec["schedulingGates"] = list(gates)
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def make(kube, *pods):
    for one in pods:
        kube.call("POST", "/api/v1/namespaces/team-a/pods", one)


def label(kube):
    found = kube.call("GET", "/api/v1/namespaces/team-a")["metadata"]
    return found.get("labels", {}).get("muster.dev/tenant")


def gates(kube, name):
    spec = kube.call("GET", f"/api/v1/namespaces/team-a/pods/{name}")["spec"]
    return spec.get("schedulingGates", [])


def adopt(cluster, tenant, by, name="team-a"):
    """Take it over, as the task does it."""
    check_one_cluster(cluster_id=cluster.pk)
    row = adopt_namespace(cluster, name, tenant, by=by, at=T0)
    tasks.keep_adoption(adoption_id=row.pk)
    row.refresh_from_db()
    return row


def give_back(row, by):
    give_back_namespace(row, by=by, at=T0)
    for _ in range(2):  # the second finds that nothing is left at the gate
        tasks.keep_adoption(adoption_id=row.pk)
    row.refresh_from_db()
    return row


def row_of(cluster, name="team-a"):
    check_one_cluster(cluster_id=cluster.pk)
    return next(row for row in namespace_rows(cluster) if row.name == name)


def test_a_namespace_is_its_tenants_by_its_label(cluster, kube, nlp, root):
    row = adopt(cluster, nlp, root)

    event = AuditEvent.objects.get(action="adopt_namespace")
    assert (label(kube), row.refusal, row.taken_at is None) == ("nlp", "", False)
    assert (event.actor, event.tenant_slug) == (root, "nlp")
    assert event.after == {"cluster": "lab", "namespace": "team-a", "tenant": "nlp"}


def test_what_is_in_it_is_told_first_with_what_becomes_of_it(cluster, kube):
    NodeFactory(
        cluster=cluster,
        name="h100-sxm-01",
        others=[
            {"name": "", "gpus": 0, "cpu_milli": 100, "memory_mib": 1, "scheduler": ""},
            {"name": "team-a/train", "gpus": 4, "cpu_milli": 1, "memory_mib": 1, "scheduler": ""},
        ],
    )
    make(
        kube,
        pod("held", gates=[GATE]),
        pod("waits", gpus=2, gates=[FOREIGN]),
        pod("no-gpu", gpus=0, gates=[FOREIGN]),
        pod("ours", gates=[GATE], labels={"muster.dev/job": "j-1"}),
    )
    template = {"spec": {**pod("x", gpus=2)["spec"], "restartPolicy": "Never"}}
    for name, suspend in (("sweep", True), ("nightly", False)):
        spec = {"parallelism": 3, "completions": 3, "suspend": suspend, "template": template}
        if not suspend:
            spec["template"] = {"spec": {**template["spec"], "nodeSelector": {"a": "b"}}}
        body = {"metadata": {"name": name}, "spec": spec}
        kube.call("POST", "/apis/batch/v1/namespaces/team-a/jobs", body)

    row = row_of(cluster)

    told = [(work.kind, work.name, work.state, work.gpus) for work in row.work]
    named = [each for each in told if not each[1].startswith("nightly-")]
    assert named == [
        ("pod", "train", "running", 4),
        ("job", "nightly", "active", 6),
        ("job", "sweep", "suspended", 6),
        ("pod", "held", "held", 1),
        ("pod", "waits", "waiting", 2),
    ]
    assert (row.running_gpus, row.held_count, row.adoption) == (4, 1, None)
    assert "counts as used" in str(row.work[0].fate)


def test_looking_changes_nothing_and_lists_no_namespace_of_the_clusters(cluster, kube):
    before = kube.call("GET", "/api/v1/nodes")["metadata"]["resourceVersion"]

    check_one_cluster(cluster_id=cluster.pk)

    listed = [row.name for row in namespace_rows(cluster)]
    assert "team-a" in listed
    assert "kube-system" not in listed
    assert kube.call("GET", "/api/v1/nodes")["metadata"]["resourceVersion"] == before


def test_given_back_it_is_nobodys_and_our_gate_is_opened(cluster, kube, nlp, root):
    row = adopt(cluster, nlp, root)
    make(kube, pod("held", gates=[FOREIGN, GATE]), pod("theirs", gates=[FOREIGN]))

    row = give_back(row, root)

    assert (label(kube), row.returned_at is None) == (None, False)
    assert (gates(kube, "held"), gates(kube, "theirs")) == ([FOREIGN], [FOREIGN])
    assert AuditEvent.objects.filter(action="give_back_namespace").count() == 1


def test_members_of_jobs_stay_at_the_gate(cluster, kube, nlp, root):
    row = adopt(cluster, nlp, root)
    make(kube, pod("ours", gates=[GATE], labels={"muster.dev/job": "j-1"}))

    give_back(row, root)

    assert gates(kube, "ours") == [GATE]


def test_it_is_not_returned_while_something_was_still_found_at_the_gate(cluster, kube, nlp, root):
    row = adopt(cluster, nlp, root)
    make(kube, pod("late", gates=[GATE]))
    give_back_namespace(row, by=root, at=T0)

    tasks.keep_adoption(adoption_id=row.pk)
    once = AdoptedNamespace.objects.get(pk=row.pk).returned_at
    tasks.keep_tenancies()

    assert once is None
    assert AdoptedNamespace.objects.get(pk=row.pk).returned_at is not None


def test_the_beat_puts_a_label_back(cluster, kube, nlp, root):
    adopt(cluster, nlp, root)
    wire = gateway_to(cluster).wire
    kube_label = {"metadata": {"labels": {"muster.dev/tenant": None}}}
    _patch(wire, kube_label)

    tasks.keep_tenancies()

    assert label(kube) == "nlp"


def _patch(wire, body):
    path = "/api/v1/namespaces/team-a"
    wire.ask(Request(method="PATCH", path=path, body=body, kind=MERGE_PATCH))


def test_doing_it_twice_changes_nothing(cluster, kube, nlp, root):
    row = adopt(cluster, nlp, root)
    taken, version = row.taken_at, kube.call("GET", "/api/v1/namespaces/team-a")["metadata"]

    tasks.keep_adoption(adoption_id=row.pk)
    row.refresh_from_db()

    assert row.taken_at == taken
    assert kube.call("GET", "/api/v1/namespaces/team-a")["metadata"] == version


def test_a_namespace_that_is_anothers_in_the_cluster_is_left_alone(cluster, kube, nlp, root):
    _patch(gateway_to(cluster).wire, {"metadata": {"labels": {"muster.dev/tenant": "vision"}}})

    row = adopt(cluster, nlp, root)

    assert (row.refusal, row.taken_at) == ("namespace team-a belongs to tenant vision", None)
    assert label(kube) == "vision"
    give_back(row, root)
    assert label(kube) == "vision"


def test_a_namespace_that_has_gone_can_be_given_back(cluster, nlp, root):
    check_one_cluster(cluster_id=cluster.pk)
    row = AdoptedNamespaceFactory(cluster=cluster, name="gone", tenant=nlp, taken_at=None)

    tasks.keep_adoption(adoption_id=row.pk)
    refusal = AdoptedNamespace.objects.get(pk=row.pk).refusal
    row = give_back(row, root)

    assert (refusal, row.returned_at is None) == ("there is no namespace gone", False)


def test_a_namespace_has_one_tenant_at_a_time(cluster, nlp, root):
    row = adopt(cluster, nlp, root)
    vision = TenantFactory(slug="vision")

    with pytest.raises(Conflict):
        adopt_namespace(cluster, "team-a", vision, by=root, at=T0)
    give_back(row, root)

    assert adopt(cluster, vision, root).tenant == vision


@pytest.mark.parametrize(
    ("name", "why"), [("nowhere", "no namespace of that name"), ("muster-x", "Muster made")]
)
def test_what_cannot_be_taken_over_is_refused(cluster, kube, nlp, root, name, why):
    kept = {"app.kubernetes.io/managed-by": "muster"}
    if name == "muster-x":
        body = {"metadata": {"name": name, "labels": kept}}
        kube.call("POST", "/api/v1/namespaces", body)
    check_one_cluster(cluster_id=cluster.pk)

    with pytest.raises(Refused, match=why):
        adopt_namespace(cluster, name, nlp, by=root, at=T0)

    if name == "muster-x":
        kube.call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"is_writable": False}, "look only"),
        ({"unguarded": ["muster-gate"]}, "Nothing would be held"),
        ({"trouble": "away"}, "has not answered"),
    ],
)
def test_a_cluster_that_would_not_hold_anything_is_refused(cluster, nlp, root, changed, why):
    check_one_cluster(cluster_id=cluster.pk)
    cluster.refresh_from_db()
    for name, value in changed.items():
        owner = cluster if name == "is_writable" else cluster.check_seen
        setattr(owner, name, value)
        owner.save()

    with pytest.raises(Refused, match=why):
        adopt_namespace(cluster, "team-a", nlp, by=root, at=T0)

    assert AdoptedNamespace.objects.count() == 0


def test_only_operators_take_over_and_give_back(cluster, nlp):
    row = AdoptedNamespaceFactory(cluster=cluster)

    with pytest.raises(NotAllowed):
        adopt_namespace(cluster, "team-a", nlp, by=UserFactory(), at=T0)
    with pytest.raises(NotAllowed):
        give_back_namespace(row, by=UserFactory(), at=T0)


def test_a_cluster_with_namespaces_taken_over_stays_managed(cluster, root):
    AdoptedNamespaceFactory(cluster=cluster, name="team-a")

    with pytest.raises(Refused, match="Give these namespaces back first: team-a"):
        only_look_at(cluster, by=root)


def test_a_cluster_that_is_away_is_told_later(cluster, nlp):
    cluster.kubeconfig_path = "/nowhere"
    cluster.save()
    row = AdoptedNamespaceFactory(cluster=cluster, taken_at=None)

    tasks.keep_adoption(adoption_id=row.pk)

    row.refresh_from_db()
    assert (row.taken_at, row.refusal) == (None, "")


@pytest.mark.parametrize("count", [1, 3])
def test_the_rows_cost_the_same_for_any_number(cluster, count, django_assert_num_queries):
    AdoptedNamespaceFactory.create_batch(count, cluster=cluster)
    NodeFactory.create_batch(count, cluster=cluster, gpus=0)

    with django_assert_num_queries(3):  # check, nodes, adoptions
        namespace_rows(cluster)


@dataclass
class Hesitant:
    """A wire on which somebody does something else between the first answer and the next call."""

    wire: Wire
    meanwhile: list

    def ask(self, request):
        answer = self.wire.ask(request)
        while self.meanwhile:
            other = Thread(target=self.meanwhile.pop())
            other.start()
            other.join()
        return answer


@pytest.mark.django_db(transaction=True)
def test_a_namespace_that_is_given_back_while_it_is_taken_is_nobodys(cluster, kube, nlp, root):
    check_one_cluster(cluster_id=cluster.pk)
    row = adopt_namespace(cluster, "team-a", nlp, by=root, at=T0)

    def give_it_back():
        try:
            give_back(row, root)
        finally:
            connection.close()

    keep_adoption(row, Hesitant(gateway_to(cluster).wire, [give_it_back]), at=T0)

    row.refresh_from_db()
    assert (label(kube), row.returned_at) == (None, T0)


@pytest.mark.parametrize("name", ["gpu-operator", "muster", "kube-system"])
def test_what_keeps_the_cluster_going_is_no_tenants(cluster, kube, nlp, root, name):
    with suppress(HTTPError):  # some are there already
        kube.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    with pytest.raises(Refused, match="no namespace of that name"):
        adopt(cluster, nlp, root, name)
