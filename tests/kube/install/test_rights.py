"""The accounts of an installation on a real control plane: what they need they may, and no more."""

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.core.cache import cache

from scheduling.models import Job
from scheduling.services.lifecycle import cancel_job
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tenants.models import Role
from tenants.services.tenancy import keep_tenancy
from tests.factories import ClusterFactory, MembershipFactory, QuotaFactory, TenantFactory
from tests.kube.install.installed import HOME, installed
from tests.kube.install.rights import MERGE, Account, Installation, Noting, granted, how
from tests.kube.polling import eventually
from tests.scheduling.stage import Stage
from topology.agent import survey
from topology.kube import names
from topology.kube.adoption import namespaces_of
from topology.kube.layout_doors import LiveLayoutDoors
from topology.kube.live import LiveGateway
from topology.kube.values import GangSpec, MemberClaim, MemberRelease, PodSeen
from topology.kube.watch import ClusterWatch
from topology.models import ResourceFlavor
from topology.services.check import check_cluster

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]

NODES = ("h100-a", "h100-b")
POOL = {"key": names.POOL, "value": "gpu", "effect": "NoSchedule"}
LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
BINDS = {("bind", "rbac.authorization.k8s.io/clusterroles")}  # no call of its own; see below
LAYOUTS = "muster-layouts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


class WallTime:
    """The time of a real cluster, which passes by itself."""

    def now(self):
        return datetime.now(UTC)

    def step(self, seconds):
        """Nothing to do."""


@pytest.fixture(scope="module")
def nodes(control_plane):
    control_plane.add_nodes(*NODES, labels=LABELS, taints=[POOL])
    yield NODES
    control_plane.remove_nodes(*NODES)


@pytest.fixture(scope="module")
def full(control_plane, nodes, kustomize):
    found = [obj for obj in kustomize("full") if obj["kind"] != "ServiceMonitor"]
    with installed(control_plane, found):
        installation = Installation(control_plane, found)
        eventually(lambda: is_guarded(control_plane), within=30)
        yield installation


def is_guarded(plane):
    """Whether the policy that comes last is in force: nobody may bind a pod of a tenant."""
    held = {"metadata": {"name": "muster-try", "labels": {names.TENANT: "try"}}}
    plane.api.ask("POST", "/api/v1/namespaces", held)
    body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "nowhere"}}
    code, said = plane.api.ask("POST", "/api/v1/namespaces/muster-try/bindings", body)
    plane.api.delete("/api/v1/namespaces/muster-try")
    return code == 422 and "only the scheduler" in said["message"]


@pytest.fixture
def stage(full, sent):
    """The whole scheduler on the cluster, whose calls are those of the two accounts."""
    cache.clear()
    cluster = ClusterFactory(
        kubeconfig_path=str(full.worker.kubeconfig), is_simulated=False, has_pod_groups=True
    )
    gateway = LiveGateway(Noting(full.worker.kubeconfig))
    watching = Noting(full.watcher.kubeconfig)
    watch = ClusterWatch(lambda: watching, wall=lambda: datetime.now(UTC), stop=threading.Event())
    with watch:
        stage = Stage(WallTime(), cluster, gateway, watch, sent)
        eventually(lambda: stage.work() or cluster.nodes.count() == len(NODES), within=60)
        yield stage, watching
        for group in gateway.gangs():
            gateway.delete_gang(group.key)
        eventually(lambda: not gateway.members(), within=60)
    full.plane.api.delete("/api/v1/namespaces/muster-rights")


def test_all_that_muster_does_needs_every_right_of_its_accounts_and_no_other(stage, full):
    stage, watching = stage
    tenant = TenantFactory(slug="rights")
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=16)
    kept = keep_tenancy(tenant, stage.cluster, stage.gateway)
    spaces = namespaces_of(stage.gateway.wire)
    job = runs(stage, tenant)
    do_all_again(stage.gateway)
    claim_a_gpu(stage.gateway)
    cancel_job(job, by=job.owner, at=stage.now)
    stage.until(lambda: state_of(job) == "cancelled" and not stage.gateway.gangs())

    check = check_cluster(stage.cluster, stage.gateway.wire, at=stage.now)

    assert (kept.refusal, kept.unguarded) == ("", [])
    assert "muster-rights" in [space.name for space in spaces]
    assert (check.trouble, check.lacks_to_look, check.lacks_to_manage) == ("", [], [])
    assert watching.needed == granted(full.found, "muster-watcher")
    needed = stage.gateway.wire.needed | watching.needed
    assert needed == granted(full.found, "muster-worker", but=(LAYOUTS,)) - BINDS


def runs(stage, tenant):
    """A job of two members that runs."""
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user
    request = JobRequest(
        name="train",
        cluster=stage.cluster,
        groups=(GroupRequest(members=2, gpus_per_member=8),),
    )
    job = submit_job(request, tenant=tenant, by=person, at=stage.now)
    stage.until(lambda: state_of(job) == "running")
    job.refresh_from_db()
    return job


def claim_a_gpu(gateway):
    """What exact GPUs take, whether or not a node has them."""
    spec = GangSpec(
        namespace="muster-rights",
        job="j-000000",
        group="main",
        attempt=1,
        members=1,
        gpus_per_member=1,
        labels={names.TENANT: "rights"},
        priority_class=names.MEMBERS,
        by_claim=True,
    )
    gateway.ensure_gang(spec)
    gateway.open_gang(spec.key)
    (member,) = eventually(lambda: gateway.gated_members(spec.key), within=60)
    gateway.release(
        MemberRelease(
            namespace=member.namespace,
            pod_name=member.pod_name,
            pod_uid=member.pod_uid,
            node=NODES[0],
            attempt=1,
            claim=MemberClaim(job=spec.job, group=spec.group, rank=0, uuids=("GPU-of-no-node",)),
        )
    )
    gateway.delete_gang(spec.key)


def state_of(job):
    return Job.objects.get(pk=job.pk).state


def do_all_again(gateway):
    """What a second worker finds done: it looks closer."""
    [group] = gateway.gangs()
    member = gateway.members()[0]
    gateway.open_gang(group.key)
    gateway._find(f"/apis/batch/v1/namespaces/{group.key.namespace}/jobs/{group.key.name}")  # noqa: SLF001 - as when a Job is there already
    gateway.release(
        MemberRelease(
            namespace=member.namespace,
            pod_name=member.pod_name,
            pod_uid=member.pod_uid,
            node=member.node,
            attempt=member.attempt,
            devices=("0",),
        )
    )
    gateway.remove_member(replace(member, pod_name="nobody"))


def test_layouts_need_every_right_that_is_given_for_them_and_no_other(full):
    wire = Noting(full.worker.kubeconfig)
    doors = LiveLayoutDoors(wire)

    doors.label(NODES[1], {names.MIG_CONFIG: "all-disabled"})
    doors.cordon(NODES[1], on=True)
    node = doors.node(NODES[1])
    doors.cordon(NODES[1], on=False)
    for text in ("one", "two"):  # the second finds the ConfigMap there
        doors.put_config(names.MIG_CONFIG_MAP, "config.yaml", lambda _old, text=text: text)
    doors.evict(PodSeen(namespace="default", name="nobody"))
    pods = doors.pods_on(NODES[1])

    assert (node.layout.mig_config, pods) == ("all-disabled", ())
    others = granted(full.found, "muster-worker", but=(LAYOUTS,))
    assert wire.needed - others == granted(full.found, "muster-worker") - others


POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
ADMIN = {
    "metadata": {"name": "mine"},
    "roleRef": {
        "kind": "ClusterRole",
        "name": "cluster-admin",
        "apiGroup": "rbac.authorization.k8s.io",
    },
}
OPERATOR = names.OPERATOR_NAMESPACE
# What no account of Muster may ever do, but for what is said below.
NEVER = {
    "makes a pod": ("POST", "/api/v1/namespaces/default/pods", POD),
    "deletes a pod": ("DELETE", "/api/v1/namespaces/default/pods/a", None),
    "makes a ConfigMap": ("POST", "/api/v1/namespaces/default/configmaps", {}),
    "reads others' ConfigMaps": ("GET", f"/api/v1/namespaces/{OPERATOR}/configmaps/a", None),
    "binds a pod": ("POST", "/api/v1/namespaces/default/pods/a/binding", {}),
    "runs something in a pod": ("POST", "/api/v1/namespaces/default/pods/a/exec", {}),
    "reads logs": ("GET", "/api/v1/namespaces/default/pods/a/log", None),
    "reads secrets": ("GET", "/api/v1/secrets", None),
    "reads its own secret": ("GET", f"{HOME}/secrets/muster", None),
    "makes tokens": ("POST", f"{HOME}/serviceaccounts/muster-agent/token", {}),
    "deletes a node": ("DELETE", f"/api/v1/nodes/{NODES[0]}", None),
    "deletes a namespace": ("DELETE", "/api/v1/namespaces/default", None),
    "makes a role": ("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "a"}}),
    "binds a role everywhere": ("POST", f"{RBAC}/clusterrolebindings", ADMIN),
    "binds a role in a namespace": ("POST", f"{RBAC}/namespaces/default/rolebindings", ADMIN),
    "weakens a policy": ("PATCH", f"{POLICIES}/muster-pods", {"spec": {"failurePolicy": "Ignore"}}),
    "removes a policy": ("DELETE", f"{POLICIES}/muster-pods", None),
}


WORKERS = NEVER.keys() - {"deletes a pod"}  # a member that does not end is removed


@pytest.mark.parametrize(
    ("account", "what"),
    [("worker", what) for what in sorted(WORKERS)] + [("watcher", what) for what in sorted(NEVER)],
)
def test_what_muster_never_does_is_refused(full, account, what):
    method, path, body = NEVER[what]

    assert getattr(full, account).api.ask(method, path, body, **how(method))[0] == 403


def test_pages_read_logs(full):
    code, said = full.web.api.ask(*NEVER["reads logs"])

    assert (code, said["reason"]) == (404, "NotFound")  # there is no such pod
    writes = granted(full.found, "muster-worker") - granted(full.found, "muster-web")
    assert {verb for verb, _what in granted(full.found, "muster-web")} == {"get", "list", "watch"}
    assert {verb for verb, _what in writes} >= {"create", "patch", "delete"}


@pytest.mark.parametrize("what", sorted(NEVER.keys() - {"reads logs"}))
def test_pages_do_nothing_else(full, what):
    method, path, body = NEVER[what]

    assert full.web.api.ask(method, path, body, **how(method))[0] == 403


@pytest.fixture(scope="module")
def agent(full):
    """The account of the agent on the first node, with a token as the kubelet gives it."""
    pod = {**POD, "spec": {**POD["spec"], "nodeName": NODES[0]}}
    pod["spec"]["serviceAccountName"] = "muster-agent"
    pod["metadata"] = {"name": "agent"}
    made = full.plane.api.create("/api/v1/namespaces/muster/pods", secured(pod))
    return Account(full.plane, "muster-agent", pod=made)


def secured(pod):
    """Within what the namespace allows."""
    spec = pod["spec"]
    container = {
        **spec["containers"][0],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return {**pod, "spec": {**spec, "containers": [container], "securityContext": security}}


def test_an_agent_reports_on_its_own_node(agent):
    said = survey.without_gpus("missing", "no driver")
    gpus = {"annotations": {survey.GPUS: "[]", survey.LINKS: "{}"}}
    labels = dict.fromkeys(survey.LABELS, "1")

    for metadata in (said, gpus, {"labels": labels}, {"labels": dict.fromkeys(labels)}):
        path = f"/api/v1/nodes/{NODES[0]}"
        code, answer = agent.api.ask("PATCH", path, {"metadata": metadata}, **MERGE)
        assert code == 200, answer


@pytest.mark.parametrize(
    ("node", "patch"),
    [
        (NODES[1], {"metadata": {"annotations": {survey.GPUS: "[]"}}}),
        (NODES[0], {"metadata": {"labels": {names.HOSTNAME: "other"}}}),
        (NODES[0], {"metadata": {"labels": {"nvidia.com/gpu.product": None}}}),
        (NODES[0], {"metadata": {"annotations": {"other": "1"}}}),
        (NODES[0], {"spec": {"taints": []}}),
        (NODES[0], {"spec": {"unschedulable": True}}),
    ],
    ids=["another node", "its name", "a label gone", "a note", "the taint", "cordoned"],
)
def test_an_agent_changes_nothing_else(agent, node, patch):
    code, said = agent.api.ask("PATCH", f"/api/v1/nodes/{node}", patch, **MERGE)

    assert (code, "an agent reports" in said["message"]) == (422, True)


@pytest.mark.parametrize(
    "path", ["/api/v1/nodes", f"/api/v1/nodes/{NODES[0]}", "/api/v1/pods", f"{HOME}/secrets"]
)
def test_an_agent_reads_nothing(agent, path):
    assert agent.api.ask("GET", path)[0] == 403
