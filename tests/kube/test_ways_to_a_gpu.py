"""Ways to a GPU that the queue did not give, tried by somebody who may do all in his namespace.

RBAC refuses him nothing there, so each way is stopped by the admission policies alone, and by the
webhooks alone: refused in the words of a rule, or held at the gate. Ways out of the namespace are
RBAC's to refuse.
"""

import pytest

from tests.kube import pod_group_ways
from tests.kube.polling import eventually
from tests.kube.tenant import NODES, gates_of, guarded_tenant, manifest
from tests.kube.ways import (
    bind,
    bind_as,
    debug,
    debug_own,
    deleted,
    evict,
    let,
    more_gpus,
    on_held,
    on_job,
    on_running,
    patched,
    refused_pod,
    resize,
    without_gate,
)
from topology.kube import names
from topology.kube.admission.rules import HAMI_BINDS, RULE_SETS
from topology.kube.hami import given_gpus
from topology.kube.values import MemberRelease

pytestmark = pytest.mark.kube

MESSAGES = {(rules.name, rule.name): rule.message for rules in RULE_SETS for rule in rules.rules}
GATE = {"name": names.GATE}
GPU = {names.GPU: "1"}
TOLERATES = {"key": names.POOL, "operator": "Exists"}
SERVE_ALL = {"matchLabels": {"app": "a"}}


@pytest.fixture(scope="module", params=["policies", "webhooks"])
def guarded(control_plane, request):
    """Without Kubernetes' own pod security, which would refuse some of it before our rules do."""
    by_webhooks = request.param == "webhooks"
    server = request.getfixturevalue("webhook_server") if by_webhooks else None
    with guarded_tenant(control_plane, server=server) as tenant:
        bare = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
        assert tenant.admin.patch(tenant.home, bare, kind="merge")[0] == 200
        yield tenant


@pytest.fixture
def tenant(guarded):
    yield guarded
    guarded.empty()


def template(*, labels=None, **spec):
    pod = manifest(gpus=1, **spec)
    return {"metadata": {"labels": {"app": "a", **(labels or {})}}, "spec": pod["spec"]}


def workload(**spec):
    return {"metadata": {"name": "a"}, "spec": {"template": template(), **spec}}


# What is accepted and waits at the gate: by name, where it is created and what.
HELD = {
    "a pod asks for a GPU": ("pods", manifest(gpus=1)),
    "a pod asks for a slice of one": ("pods", manifest(resources={"nvidia.com/mig-1g.10gb": 1})),
    "a pod asks for a shared one": ("pods", manifest(resources={"nvidia.com/gpu.shared": 1})),
    "a pod asks for memory of one": ("pods", manifest(resources={"nvidia.com/gpumem": 1000})),
    "a pod asks for a device that nobody told us of": (
        "pods",
        manifest(resources={"example.com/accelerator": 1}),
    ),
    "a pod asks for a device class": (
        "pods",
        manifest(resources={"deviceclass.resource.kubernetes.io/gpu": 1}),
    ),
    "a pod claims a device": (
        "pods",
        manifest(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]),
    ),
    "a pod asks in a container that runs before": (
        "pods",
        manifest(
            initContainers=[{"name": "i", "image": "busybox:1", "resources": {"limits": GPU}}]
        ),
    ),
    "a pod that waits for somebody else, too": (
        "pods",
        manifest(gpus=1, schedulingGates=[{"name": "other/gate"}]),
    ),
    "a Job": (
        "batch/v1/jobs",
        {
            "metadata": {"name": "a"},
            "spec": {"template": {"spec": manifest(gpus=1, restartPolicy="Never")["spec"]}},
        },
    ),
    "a Deployment": ("apps/v1/deployments", workload(selector=SERVE_ALL)),
    "a StatefulSet": (
        "apps/v1/statefulsets",
        workload(selector=SERVE_ALL, serviceName="a"),
    ),
}


@pytest.mark.parametrize(("kind", "body"), HELD.values(), ids=HELD)
def test_it_is_held_at_the_gate(tenant, kind, body):
    path = tenant.pods if kind == "pods" else tenant.group(kind)

    tenant.mighty.create(path, body)

    pods = eventually(lambda: tenant.mighty.get(tenant.pods)["items"], within=30)
    assert {names.GATE in gates_of(pod) for pod in pods} == {True}
    assert tenant.strays() == []


FORGED = {names.JOB: "j-000001", names.GROUP: "main"}
UNLABELLED = {"metadata": {"labels": {names.TENANT: None}}}
NO_GATE = [{"op": "remove", "path": "/spec/schedulingGates"}]
TOLERATE = [{"op": "add", "path": "/spec/tolerations/-", "value": TOLERATES}]
ENV = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
MOUNT = {"volumeMounts": [{"name": "v", "mountPath": "/var/run/nvidia-container-devices/all"}]}
HOST_DEV = [{"name": "v", "hostPath": {"path": "/dev"}}]

PART = {names.GPU: "1", names.GPU_MEMORY_PART: "1000", names.GPU_CORES_PART: "10"}
A_PART = {
    "gpus_per_member": 0,
    "gpu_milli": 250,
    "gpu_mib": 1000,
    "back_end": "hami",
    "priority_class": names.PARTS,
}
GROWN = {"hami.io/vgpu-devices-to-allocate": "GPU-1,NVIDIA,80000,100:;"}

CLAIM = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": names.DRA_DRIVER}}]}
}


def claimed(act):
    """What is done to the claim of a member that Muster has placed."""

    def attempt(tenant):
        made = {"metadata": {"name": "held"}, "spec": CLAIM}
        tenant.admin.create(tenant.group(CLAIMS), made)
        try:
            return act(tenant, f"{tenant.group(CLAIMS)}/held")
        finally:
            tenant.admin.delete(f"{tenant.group(CLAIMS)}/held")

    return attempt, ("muster-claims", "claims-are-musters")


CLAIMS = "resource.k8s.io/v1/resourceclaims"

# What is refused: the attempt, and whose words it is refused in.
REFUSED = {
    "opens the gate by a strategic patch": on_held(
        "gate-stays",
        patched({"spec": {"schedulingGates": [{"$patch": "delete", **GATE}]}}, kind="strategic"),
    ),
    "opens the gate by a JSON patch": on_held("gate-stays", patched(NO_GATE, kind="json")),
    "opens the gate by replacing the pod": on_held("gate-stays", without_gate),
    "opens the gate of a member onto a node of his choice": (
        lambda t: t.mighty.patch(f"{t.pods}/{t.held()[0].pod_name}", NO_GATE, kind="json"),
        ("muster-pods", "gate-stays"),
    ),
    "names the node": refused_pod("no-node", nodeName=NODES[0]),
    "binds the pod himself": bind("a", lambda t: f"{t.pods}/a/binding"),
    "binds the pod himself the old way": bind("a", lambda t: f"{t.home}/bindings"),
    "asks for another scheduler": refused_pod("scheduler", gpus=1, schedulerName="mine"),
    "asks for the scheduler of HAMi": refused_pod(
        "scheduler", resources=PART, schedulerName=names.HAMI_SCHEDULER
    ),
    "binds as HAMi's account of his namespace": (
        lambda t: bind_as(t, f"system:serviceaccount:{t.spec.namespace}:{names.HAMI_SCHEDULER}"),
        ("muster-bindings", "scheduler-binds"),
    ),
    "passes for a pod that HAMi has placed": refused_pod(
        "no-back-end", metadata={"annotations": {names.HAMI_PHASE: "allocating"}}
    ),
    "says which GPU he would like a part of": refused_pod(
        "no-back-end", gpus=1, metadata={"annotations": {"nvidia.com/use-gpuuuid": "GPU-1"}}
    ),
    "has a member's part grow": on_running(
        "muster-pods", "no-back-end", patched({"metadata": {"annotations": GROWN}})
    ),
    "has a member's part grow before it is placed": (
        lambda t: t.mighty.patch(
            f"{t.pods}/{t.held(**A_PART)[0].pod_name}", {"metadata": {"annotations": GROWN}}
        ),
        ("muster-pods", "no-back-end"),
    ),
    "lifts the bounds of a part": refused_pod(
        "no-device-by-name",
        container={"env": [{"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "value": "80000m"}]},
    ),
    "tolerates the pool": refused_pod("no-pool-toleration", tolerations=[TOLERATES]),
    "tolerates everything": refused_pod("no-pool-toleration", tolerations=[{"operator": "Exists"}]),
    "tolerates the pool later": (
        lambda t: [
            t.mighty.create(t.pods, manifest(tolerations=[{"key": "a", "operator": "Exists"}])),
            t.mighty.patch(f"{t.pods}/a", TOLERATE, kind="json"),
        ][1],
        ("muster-pods", "no-pool-toleration"),
    ),
    "tolerates GPU nodes without asking for a GPU": refused_pod(
        "no-gpu-toleration", tolerations=[{"key": names.GPU, "operator": "Exists"}]
    ),
    "asks the container runtime for all": refused_pod("no-device-by-name", container=ENV),
    "asks the container runtime by a mount": refused_pod(
        "no-device-by-name", container=MOUNT, volumes=[{"name": "v", "emptyDir": {}}]
    ),
    "asks the container runtime by an annotation": refused_pod(
        "no-cdi", metadata={"annotations": {"cdi.k8s.io/a": "nvidia.com/gpu=all"}}
    ),
    "annotates a pod that waits": on_held(
        "no-cdi", patched({"metadata": {"annotations": {"cdi.k8s.io/a": "nvidia.com/gpu=all"}}})
    ),
    "mounts the devices of the host": refused_pod("no-host", volumes=HOST_DEV),
    "is privileged": refused_pod("no-host", container={"securityContext": {"privileged": True}}),
    "takes the processes of the host": refused_pod("no-host", hostPID=True),
    "passes for a pod of a node's own": refused_pod(
        "no-node",
        nodeName=NODES[0],
        metadata={"annotations": {"kubernetes.io/config.mirror": "a"}},
    ),
    "drives others out by priority": refused_pod(
        "priority", priorityClassName="system-node-critical"
    ),
    "takes the priority of members": refused_pod("priority", priorityClassName=names.MEMBERS),
    "passes for a member": refused_pod("our-labels", gpus=8, metadata={"labels": FORGED}),
    "has a Job whose pods pass for members": (
        lambda t: t.mighty.ask(
            "POST",
            t.group("batch/v1/jobs"),
            {
                "metadata": {"name": "a"},
                "spec": {"template": template(labels=FORGED, restartPolicy="Never")},
            },
        ),
        ("muster-jobs", "our-labels"),
    ),
    "has a member's Job ask for more": on_job("our-jobs-stay", more_gpus),
    "has a member's Job run twice as wide": on_job(
        "our-jobs-stay", patched({"spec": {"parallelism": 4, "completions": 4}})
    ),
    "removes a member's Job and keeps its pods": on_job(
        "our-jobs-are-cancelled", deleted(propagationPolicy="Orphan")
    ),
    "hides a running member": on_running(
        "muster-pods", "members-stay", patched({"metadata": {"labels": {names.JOB: None}}})
    ),
    "takes a running member from its Job": on_running(
        "muster-pods", "members-stay", patched({"metadata": {"ownerReferences": None}})
    ),
    "takes a running member from its Job by a label": on_running(
        "muster-pods",
        "members-stay",
        patched({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "a"}}}),
    ),
    "says that a running member has ended": on_running(
        "muster-statuses",
        "status-is-the-clusters",
        patched({"status": {"phase": "Succeeded"}}, part="/status"),
    ),
    "says that a member's Job is done": on_job(
        "status-is-the-clusters",
        patched({"status": {"active": 0, "succeeded": 1}}, part="/status"),
        rules="muster-statuses",
    ),
    "deletes a running member and lets it end tomorrow": on_running(
        "muster-pods", "no-longer-grace", deleted(gracePeriodSeconds="86400")
    ),
    "evicts a running member and lets it end tomorrow": on_running(
        "muster-evictions", "no-longer-grace", evict
    ),
    "debugs a running member with an image that shows every GPU": on_running(
        "muster-debuggers", "no-debugger-beside-gpus", debug
    ),
    "debugs a pod of his own with all devices": debug_own("no-device-by-name", **ENV),
    "debugs a pod of his own on the host": debug_own(
        "no-host", securityContext={"privileged": True}
    ),
    "has a member take more of its node": (resize, ("muster-resizes", "members-keep-their-size")),
    "claims a device himself": (
        lambda t: t.mighty.ask("POST", t.group(CLAIMS), {"metadata": {"name": "a"}, "spec": CLAIM}),
        ("muster-claims", "claims-are-musters"),
    ),
    "has a device claimed for each of his pods": (
        lambda t: t.mighty.ask(
            "POST",
            t.group("resource.k8s.io/v1/resourceclaimtemplates"),
            {"metadata": {"name": "a"}, "spec": {"spec": CLAIM}},
        ),
        ("muster-claims", "claims-are-musters"),
    ),
    "says that a member's claim is another's": claimed(
        patched({"metadata": {"labels": {names.JOB: "j-000001"}}})
    ),
    "takes a member's claim away": claimed(deleted()),
    **pod_group_ways.WAYS,
    "takes the namespace out of our reach": (
        lambda t: t.mighty.patch(t.home, UNLABELLED),
        ("muster-namespaces", "labels-stay"),
    ),
    "takes the namespace out of our reach through its status": (
        lambda t: t.mighty.patch(f"{t.home}/status", UNLABELLED),
        ("muster-namespaces", "labels-stay"),
    ),
    "lets the namespace's claims see devices in use": (
        lambda t: t.mighty.patch(
            t.home, {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        ),
        ("muster-namespaces", "labels-stay"),
    ),
    "removes the namespace with its walls": (
        lambda t: t.mighty.delete(t.home),
        ("muster-namespaces", "namespace-stays"),
    ),
    "raises the last wall": (
        lambda t: t.mighty.patch(
            f"{t.home}/resourcequotas/muster", {"spec": {"hard": {f"requests.{names.GPU}": "99"}}}
        ),
        ("muster-kept", "kept"),
    ),
    "raises the last wall where it is counted": (
        lambda t: t.mighty.patch(
            f"{t.home}/resourcequotas/muster/status",
            {"status": {"hard": {f"requests.{names.GPU}": "99"}}},
        ),
        ("muster-kept", "kept"),
    ),
    "removes the last wall": (
        lambda t: t.mighty.delete(f"{t.home}/resourcequotas/muster"),
        ("muster-kept", "kept"),
    ),
}


@pytest.mark.parametrize(("attempt", "rule"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused(tenant, attempt, rule):
    code, said = attempt(tenant)

    assert MESSAGES[rule] in said.get("message", f"it was not: {code}")
    assert code == 422
    assert tenant.strays() == []
    assert [gang.outcome for gang in tenant.gateway.gangs()] in ([], [""])


REFUSED_LATER = {
    "a Deployment whose pods pass for members": (
        "apps/v1/deployments",
        template(labels=FORGED),
        "our-labels",
    ),
    "a DaemonSet whose pods tolerate the pool": (
        "apps/v1/daemonsets",
        template(tolerations=[TOLERATES]),
        "no-pool-toleration",
    ),
}


@pytest.mark.parametrize(("kind", "pods", "rule"), REFUSED_LATER.values(), ids=REFUSED_LATER)
def test_its_pods_are_refused(tenant, kind, pods, rule):
    body = {"metadata": {"name": "a"}, "spec": {"template": pods, "selector": SERVE_ALL}}
    tenant.mighty.create(tenant.group(kind), body)

    def refusals():
        events = tenant.admin.get(f"{tenant.home}/events", fieldSelector="reason=FailedCreate")
        said = [event["message"] for event in events["items"]]
        return [message for message in said if MESSAGES["muster-pods", rule] in message]

    assert eventually(refusals, within=30)
    assert tenant.admin.get(tenant.pods)["items"] == []


def test_hami_places_a_member_and_says_what_it_gave(tenant):
    """As its scheduler and device plugin do, with their account; nobody else may."""
    member, _gang = tenant.held(**A_PART)
    path, uuid = f"{tenant.pods}/{member.pod_name}", "GPU-0b1c2d3e"
    tenant.gateway.release(
        MemberRelease(
            namespace=member.namespace,
            pod_name=member.pod_name,
            pod_uid=member.pod_uid,
            node=NODES[0],
            attempt=1,
            devices=("0#0",),
            back_end="hami",
            part_of=(uuid,),
        )
    )
    hami = let(tenant, HAMI_BINDS)
    said = {names.HAMI_ALLOCATED: f"{uuid},NVIDIA,1000,25:;", names.HAMI_PHASE: "success"}
    target = {"apiVersion": "v1", "kind": "Node", "name": NODES[0]}

    pod = tenant.pod(member.pod_name)
    noted, _ = hami.patch(path, {"metadata": {"annotations": said}}, kind="merge")
    bound, _ = hami.ask(
        "POST", f"{path}/binding", {"metadata": {"name": member.pod_name}, "target": target}
    )

    assert (noted, bound) == (200, 201)
    assert pod["spec"]["schedulerName"] == names.HAMI_SCHEDULER
    assert pod["metadata"]["annotations"]["nvidia.com/use-gpuuuid"] == uuid
    assert given_gpus(tenant.pod(member.pod_name)) == (uuid,)
    assert tenant.pod(member.pod_name)["spec"]["nodeName"] == NODES[0]


# Stopped by something else before it comes to this rule; test_tenancy tries it alone.
BACKSTOPS = {("muster-pods", "gate-is-on")}


def test_every_rule_has_a_way_that_it_stops():
    tried = {rule for _attempt, rule in REFUSED.values()}

    assert tried | BACKSTOPS == set(MESSAGES)


OUTSIDE = {
    "in another namespace": ("POST", "/api/v1/namespaces/default/pods", manifest(gpus=1)),
    "in a namespace of his own": ("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}}),
    "takes the taint from a node": (
        "PATCH",
        f"/api/v1/nodes/{NODES[0]}",
        {"spec": {"taints": None}},
    ),
    "removes a policy": (
        "DELETE",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/muster-pods",
        None,
    ),
    "makes a volume of the host's devices": (
        "POST",
        "/api/v1/persistentvolumes",
        {"metadata": {"name": "dev"}, "spec": {"hostPath": {"path": "/dev"}}},
    ),
}


@pytest.mark.parametrize(("method", "path", "body"), OUTSIDE.values(), ids=OUTSIDE)
def test_outside_of_the_namespace_he_may_do_nothing(tenant, method, path, body):
    how = {"media_type": "application/merge-patch+json"} if method == "PATCH" else {}

    assert tenant.mighty.ask(method, path, body, **how)[0] == 403


BEYOND = {
    "binds": ("POST", "{pods}/a/binding"),
    "writes what a pod does": ("PATCH", "{pods}/a/status"),
    "adds a debugger": ("PATCH", "{pods}/a/ephemeralcontainers"),
    "resizes": ("PATCH", "{pods}/a/resize"),
    "removes the last wall": ("DELETE", "{home}/resourcequotas/muster"),
    "opens the network": ("DELETE", "{networks}/muster-closed"),
    "hands out rights": ("POST", "{roles}"),
    "relabels the namespace": ("PATCH", "{home}"),
}


@pytest.mark.parametrize(("method", "path"), BEYOND.values(), ids=BEYOND)
def test_people_of_a_tenant_lack_the_rights_to_more(tenant, method, path):
    path = path.format(
        pods=tenant.pods,
        home=tenant.home,
        networks=tenant.group("networking.k8s.io/v1/networkpolicies"),
        roles=tenant.group("rbac.authorization.k8s.io/v1/rolebindings"),
    )
    how = {"media_type": "application/merge-patch+json"} if method == "PATCH" else {}

    assert tenant.person.ask(method, path, {}, **how)[0] == 403
