"""The whole scheduler on a real control plane, in one thread, and what a test does to both."""

import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from django.core.cache import cache
from django.db.models import F

from scheduling.models import Job, Member
from scheduling.services.lifecycle import cancel_job
from scheduling.services.reconciling import reconcile
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tests.factories import ClusterFactory
from tests.kube.controlplane import kubelets
from tests.kube.polling import eventually
from tests.scheduling.stage import Stage
from topology.kube.live import connect
from topology.kube.tenancy import priority_classes
from topology.kube.upkeep import path_of as path_of_object
from topology.kube.watch import ClusterWatch
from topology.services.cycle_request import ask_for_cycle

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
    """A stage on which something happens once, between the plan and the first gate.

    patience: seconds that a question may stay open; some controllers look every 20 s.
    """

    meanwhile: Callable[[], None] = lambda: None
    patience: float = 90

    def until(self, question, *, step=1):
        def look():
            self.work()
            return question()

        return eventually(look, within=self.patience)

    def bind_job(self, job_id, attempt):
        happens, self.meanwhile = self.meanwhile, lambda: None
        happens()
        super().bind_job(job_id, attempt)


def forget_classes(api):
    """What the product made once in the cluster goes, or others would find it there."""
    for obj in priority_classes():
        api.delete(path_of_object(obj))


@contextmanager
def tainted_nodes(plane):
    plane.add_nodes(*NODES, labels=LABELS, taints=[POOL])
    try:
        yield
    finally:
        plane.remove_nodes(*NODES)


@contextmanager
def a_real_stage(plane, sent):
    """A stage with a cluster of two nodes of 8 GPUs, left as empty as it was."""
    cache.clear()
    path = str(plane.kubeconfig())
    with tainted_nodes(plane):
        cluster = ClusterFactory(kubeconfig_path=path, is_simulated=False)
        gateway = connect(path)
        watch = ClusterWatch(
            lambda: gateway.wire, wall=lambda: datetime.now(UTC), stop=threading.Event()
        )
        with watch:
            stage = Racing(WallTime(), cluster, gateway, watch, sent)
            eventually(lambda: stage.work() or cluster.nodes.count() == len(NODES), within=60)
            yield stage
            for group in gateway.gangs():
                gateway.delete_gang(group.key)
            eventually(lambda: not gateway.members(), within=60)
        forget_classes(plane.api)


def submit_gang(stage, tenant, person, members, *, gpus=8, **notes):
    """A gang of so many members of so many GPUs each; its pods do as the notes say."""
    request = JobRequest(
        name="train",
        cluster=stage.cluster,
        groups=(GroupRequest(members=members, gpus_per_member=gpus),),
        annotations=notes,
    )
    return submit_job(request, tenant=tenant, by=person, at=stage.now)


def cancel(stage, job):
    job.refresh_from_db()
    cancel_job(job, by=job.owner, at=stage.now)


def state_of(job):
    return Job.objects.get(pk=job.pk).state


def pods_of(stage, job):
    """The job's pods, by rank."""
    pods = [pod for pod in stage.gateway.members() if pod.job == job.public_id]
    return sorted(pods, key=lambda pod: pod.rank)


def nodes_of(stage, job):
    """The node of each of the job's pods, by rank."""
    return [pod.node for pod in pods_of(stage, job)]


def planned(job):
    """Where the ledger has each member of the present attempt, by rank."""
    members = Member.objects.filter(job=job, attempt=F("job__attempt")).order_by("rank")
    return [member.placement.node.name for member in members]


def until_looked(stage, question):
    """Let the beat look again and again until `question` is true."""

    def looked():
        reconcile(stage.cluster, at=stage.now)
        ask_for_cycle(stage.cluster.pk)
        stage.work()
        return question()

    return stage.until(looked)


def until_taken_back(stage, job):
    """Until the attempt has been given up, and nothing of it is left."""
    until_looked(stage, lambda: state_of(job) == "queued" and not nodes_of(stage, job))


def close(plane, node, *, closed=True):
    plane.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": closed}}, kind="merge")


def taint(plane, node, *taints):
    """Have a node these taints, and that of the pool."""
    plane.api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [POOL, *taints]}}, kind="merge")


def tell_kubelets(stage, plane, job, does):
    """Have the kubelets of the job's pods do as told; see tests/kube/controlplane/kubelets.py."""
    told = {"metadata": {"annotations": {kubelets.DOES: does}}}
    for pod in pods_of(stage, job):
        plane.api.patch(path_of(pod), told, kind="merge")


def path_of(pod):
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.pod_name}"
