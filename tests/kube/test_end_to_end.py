"""From a submitted job to its end: planned by a cycle, carried out on a real control plane."""

import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from django.core.cache import cache
from django.db.models import F

from scheduling.models import Job, Member
from scheduling.services import binding
from scheduling.services.lifecycle import cancel_job
from scheduling.services.reconciling import reconcile
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tenants.models import Role
from tests.factories import ClusterFactory, MembershipFactory, QuotaFactory, TenantFactory
from tests.kube.controlplane import kubelets
from tests.kube.polling import eventually
from tests.scheduling.stage import Stage
from topology.kube.live import connect
from topology.kube.watch import ClusterWatch
from topology.models import ResourceFlavor

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]

NODES = ("h100-a", "h100-b")
POOL = {"key": "muster.dev/pool", "value": "gpu", "effect": "NoSchedule"}
LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}


class WallTime:
    """The time of a real cluster, which passes by itself."""

    def now(self):
        return datetime.now(UTC)

    def step(self, seconds):
        """Nothing to do."""


@dataclass
class Racing(Stage):
    """A stage on which something happens once, between the plan and the first gate."""

    meanwhile: Callable[[], None] = lambda: None

    def bind_job(self, job_id, attempt):
        happens, self.meanwhile = self.meanwhile, lambda: None
        happens()
        super().bind_job(job_id, attempt)


class Dying:
    """A gateway whose process is gone once the first gate is open."""

    def __init__(self, gateway):
        self._gateway = gateway

    def __getattr__(self, name):
        return getattr(self._gateway, name)

    def release_all(self, releases):
        self._gateway.release(releases[0])
        raise SystemExit


@contextmanager
def tainted_nodes(plane):
    plane.add_nodes(*NODES, labels=LABELS, taints=[POOL])
    try:
        yield
    finally:
        plane.remove_nodes(*NODES)


@pytest.fixture
def stage(control_plane, sent):
    """The whole scheduler with a cluster of two nodes of 8 GPUs, in one thread."""
    cache.clear()
    path = str(control_plane.kubeconfig())
    with tainted_nodes(control_plane):
        cluster = ClusterFactory(kubeconfig_path=path, is_simulated=False)
        gateway = connect(path)
        watch = ClusterWatch(
            lambda: gateway.wire, wall=lambda: datetime.now(UTC), stop=threading.Event()
        )
        with watch:
            stage = Racing(WallTime(), cluster, gateway, watch, sent)
            eventually(lambda: stage.work() or cluster.nodes.count() == len(NODES))
            yield stage
            for group in gateway.gangs():
                gateway.delete_gang(group.key)
            eventually(lambda: not gateway.members(), within=60)


@pytest.fixture
def tenant(stage):
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=16)
    return tenant


@pytest.fixture
def submit(stage, tenant):
    """Submits a gang of so many members of 8 GPUs each; its pods do as the notes say."""
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user

    def submit(members, **notes):
        request = JobRequest(
            name="train",
            cluster=stage.cluster,
            groups=(GroupRequest(members=members, gpus_per_member=8),),
            annotations=notes,
        )
        return submit_job(request, tenant=tenant, by=person, at=stage.now)

    return submit


def cancel(stage, job):
    job.refresh_from_db()
    cancel_job(job, by=job.owner, at=stage.now)


def state_of(job):
    return Job.objects.get(pk=job.pk).state


def nodes_of(stage, job):
    """The node of each of the job's pods, by rank."""
    pods = [pod for pod in stage.gateway.members() if pod.job == job.public_id]
    return [pod.node for pod in sorted(pods, key=lambda pod: pod.rank)]


def planned(job):
    """Where the ledger has each member of the present attempt, by rank."""
    members = Member.objects.filter(job=job, attempt=F("job__attempt")).order_by("rank")
    return [member.placement.node.name for member in members]


def test_a_gang_of_two_is_bound_where_it_was_planned_and_succeeds(stage, submit):
    job = submit(2, **{kubelets.RUNS_FOR: "2s"})

    stage.until(lambda: state_of(job) == "running")

    assert sorted(planned(job)) == list(NODES)
    assert nodes_of(stage, job) == planned(job)
    stage.until(lambda: state_of(job) == "succeeded")


def test_a_gang_that_does_not_fit_whole_has_no_pod_bound(stage, submit):
    first = submit(1)
    stage.until(lambda: state_of(first) == "running")

    second = submit(2)
    stage.until(lambda: Job.objects.get(pk=second.pk).reason)

    assert nodes_of(stage, second) == []
    cancel(stage, first)
    stage.until(lambda: state_of(second) == "running")
    assert sorted(nodes_of(stage, second)) == list(NODES)


def test_a_cancelled_gang_leaves_nothing_in_the_cluster(stage, submit):
    job = submit(2)
    stage.until(lambda: state_of(job) == "running")

    cancel(stage, job)
    stage.until(lambda: state_of(job) == "cancelled" and not nodes_of(stage, job))

    assert [group for group in stage.gateway.gangs() if group.job == job.public_id] == []


@pytest.fixture
def little_patience(settings):
    """A gang is to be bound within a second."""
    settings.BIND_TIMEOUT_SECONDS = 1


def until_taken_back(stage, job):
    """Let the beat look again and again, until the attempt has been given up."""

    def looked():
        reconcile(stage.cluster, at=stage.now)
        stage.work()
        return state_of(job) == "queued" and not nodes_of(stage, job)

    stage.until(looked)


def close(plane, node, *, closed=True):
    plane.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": closed}}, kind="merge")


def test_a_gang_that_is_bound_in_part_is_taken_back_whole(
    stage, submit, control_plane, little_patience
):
    stage.meanwhile = lambda: close(control_plane, NODES[1])
    job = submit(2)
    stage.until(lambda: sorted(nodes_of(stage, job)) == ["", NODES[0]])

    until_taken_back(stage, job)

    assert [group for group in stage.gateway.gangs() if group.job == job.public_id] == []
    close(control_plane, NODES[1], closed=False)
    stage.until(lambda: state_of(job) == "running")
    assert nodes_of(stage, job) == planned(job)
    assert Job.objects.get(pk=job.pk).attempt == 2


def test_a_gang_whose_node_vanishes_before_it_is_bound_is_taken_back_whole(
    stage, submit, control_plane, little_patience
):
    stage.meanwhile = lambda: control_plane.remove_nodes(NODES[1])
    job = submit(2)

    until_taken_back(stage, job)

    control_plane.add_nodes(NODES[1], labels=LABELS, taints=[POOL])
    stage.until(lambda: state_of(job) == "running")
    assert sorted(nodes_of(stage, job)) == list(NODES)


def test_a_worker_that_dies_between_two_gates_is_followed_by_one_that_goes_on(stage, submit):
    job = submit(2)
    living, stage.gateway = stage.gateway, Dying(stage.gateway)
    with pytest.raises(SystemExit):
        stage.until(lambda: state_of(job) == "running")
    stage.gateway = living
    opened = [pod for pod in stage.gateway.members() if pod.phase != "gated"]

    job.refresh_from_db()
    binding.bind(job.pk, job.attempt, stage.gateway, at=stage.now)
    stage.until(lambda: state_of(job) == "running")

    assert len(opened) == 1
    assert nodes_of(stage, job) == planned(job)
    assert job.attempt == 1


def tell_kubelets(stage, plane, job, does):
    """Have the kubelets of the job's pods do as told; see tests/kube/controlplane/kubelets.py."""
    told = {"metadata": {"annotations": {kubelets.DOES: does}}}
    for pod in stage.gateway.members():
        if pod.job == job.public_id:
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.pod_name}"
            plane.api.patch(path, told, kind="merge")


def test_a_gang_that_its_nodes_refuse_is_placed_again_and_has_not_failed(
    stage, submit, control_plane
):
    job = submit(2, **{kubelets.DOES: "waits"})
    stage.until(lambda: nodes_of(stage, job) == planned(job) != [])

    tell_kubelets(stage, control_plane, job, "rejects")

    stage.until(lambda: Job.objects.get(pk=job.pk).attempt == 2)
    stage.until(lambda: nodes_of(stage, job) == planned(job))
    tell_kubelets(stage, control_plane, job, "runs")
    stage.until(lambda: state_of(job) == "running")
