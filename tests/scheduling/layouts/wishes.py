"""Layouts, rollouts and jobs for tests, in a line each."""

from scheduling.reports.rollout_preview import preview_rollout
from scheduling.services.layouts.rollouts import RolloutRequest, begin_rollout
from scheduling.services.layouts.versions import VersionRequest, make_layout
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, UserFactory
from topology.models import Node, NodeChange, ResourceFlavor, Rollout

HALVES = {"3g.20gb": 2}


def operator():
    return UserFactory(is_operator=True)


def version(stage, cut, *, gpus=2, more=(), **how):
    """Of a new layout: `gpus` GPUs cut alike, then each of `more`. None leaves one whole."""
    return make_layout(
        VersionRequest(cuts=((cut,) * gpus + more), **how),
        cluster=stage.cluster,
        name=f"layout {stage.cluster.layouts.count() + 1}",
        gpu_model="A100-40GB",
        by=operator(),
    )


def rollout(stage, of, **how):
    """Of a version to every node."""
    nodes = Node.objects.filter(cluster=stage.cluster)
    request = RolloutRequest(version=of, nodes=nodes, **{"evict_after_seconds": 0, **how})
    return begin_rollout(request, by=operator(), at=stage.now)


def job(stage, gpus=1, **notes):
    """A job of one member that runs as long as its pods are told. notes: for simcluster."""
    names = {f"simcluster.muster.dev/{name.replace('_', '-')}": str(v) for name, v in notes.items()}
    person = MembershipFactory(role=Role.RESEARCHER)
    QuotaFactory(tenant=person.tenant, flavor=ResourceFlavor.objects.get(), nominal=999)
    request = JobRequest(
        name="work",
        cluster=stage.cluster,
        groups=(GroupRequest(members=1, gpus_per_member=gpus),),
        annotations=names,
    )
    return submit_job(request, tenant=person.tenant, by=person.user, at=stage.now)


def drive(stage, rollout, *, until, seconds=3600, step=10):
    """Let time pass until the rollout is `until`; its state then."""
    for _ in range(0, seconds, step):
        stage.beat()
        if Rollout.objects.get(pk=rollout.pk).state in until:
            break
        stage.sim.step(step)
    return Rollout.objects.get(pk=rollout.pk).state


def steps(rollout):
    """By node, where its change is."""
    changes = NodeChange.objects.filter(rollout=rollout).order_by("node__name")
    return dict(changes.values_list("node__name", "step"))


def in_cluster(stage):
    """By node: what it offers of NVIDIA's, the MIG manager's state, whether it is cordoned."""
    return {
        node.name: (dict(node.layout.offers), node.layout.mig_state, node.is_cordoned)
        for node in stage.gateway.nodes()
    }


def preview(stage, of, **how):
    """What bringing a version to every node would do."""
    nodes = Node.objects.filter(cluster=stage.cluster).select_related("flavor")
    found = list(nodes.prefetch_related("gpus__instances"))
    return preview_rollout(of, found, **{"wave": 1, "max_unavailable": 1, **how})
