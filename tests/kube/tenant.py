"""A tenant's namespace on a real control plane, with all that guards it, and its people."""

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.kube.controlplane.api import Api
from tests.kube.polling import eventually
from topology.kube import names
from topology.kube.gateway import Gateway
from topology.kube.live import connect
from topology.kube.tenancy import group_of, shared_objects, tenant_objects
from topology.kube.upkeep import apply_all, path_of
from topology.kube.values import GangSpec, MemberRelease, TenancySpec

NODES = ("h100-a", "h100-b")
POOL = {"key": names.POOL, "value": "gpu", "effect": "NoSchedule"}
NLP = TenancySpec(tenant="nlp", namespace="muster-nlp", gpus=16)

_numbers = itertools.count(1)
_soon = partial(eventually, within=30)


@dataclass(frozen=True)
class Tenant:
    """mighty: may do everything in the namespace, and nothing outside; no RBAC stands in his way.

    person: has the rights that people of the tenant are given.
    """

    spec: TenancySpec
    gateway: Gateway
    admin: Api
    mighty: Api
    person: Api

    @property
    def home(self):
        return f"/api/v1/namespaces/{self.spec.namespace}"

    @property
    def pods(self):
        return f"{self.home}/pods"

    def group(self, path):
        """Where a kind of a group is in the namespace: "batch/v1/jobs"."""
        group, version, plural = path.split("/")
        return f"/apis/{group}/{version}/namespaces/{self.spec.namespace}/{plural}"

    def gang(self, **changes):
        """A gang of one member of two GPUs, of a name that no other test has."""
        known = {
            "namespace": self.spec.namespace,
            "job": f"j-{next(_numbers):06}",
            "group": "main",
            "attempt": 1,
            "members": 1,
            "gpus_per_member": 2,
            "labels": {names.TENANT: self.spec.tenant},
            "priority_class": names.MEMBERS,
        }
        return GangSpec(**(known | changes))

    def held(self, **changes):
        """A member that waits at the gate, and the gang that it is of."""
        gang = self.gang(**changes)
        self.gateway.ensure_gang(gang)
        self.gateway.open_gang(gang.key)
        return _soon(lambda: self.gateway.gated_members(gang.key))[0], gang

    def running(self, **changes):
        """A member that runs on a node, as Muster has placed it."""
        member, gang = self.held(**changes)
        self.gateway.release(
            MemberRelease(
                namespace=member.namespace,
                pod_name=member.pod_name,
                pod_uid=member.pod_uid,
                node=NODES[0],
                attempt=1,
                devices=("0", "1"),
            )
        )
        _soon(lambda: self.pod(member.pod_name)["status"]["phase"] == "Running")
        return member, gang

    def pod(self, name):
        return self.admin.get(f"{self.pods}/{name}")

    def strays(self):
        """Pods that have a node and are no member of a job in its right place, by name."""

        def is_stray(pod):
            is_member = names.JOB in pod["metadata"].get("labels", {})
            is_owned = pod["metadata"].get("ownerReferences")
            return not (is_member and is_owned) or "deletionTimestamp" in pod["metadata"]

        pods = [pod for pod in self.admin.get(self.pods)["items"] if pod["spec"].get("nodeName")]
        return [pod["metadata"]["name"] for pod in pods if is_stray(pod)]

    def empty(self):
        for group in self.gateway.gangs():
            self.gateway.delete_gang(group.key)
        for kind in ("batch/v1/jobs", "apps/v1/deployments", "apps/v1/statefulsets"):
            self.admin.delete(self.group(kind), propagationPolicy="Background")
        self.admin.delete(self.group("apps/v1/daemonsets"), propagationPolicy="Background")
        self.admin.delete(self.pods, gracePeriodSeconds="0")
        _soon(lambda: not self.admin.get(self.pods)["items"])


def manifest(name="a", *, gpus=0, resources=None, **spec: Any):
    """A pod; `resources` are limits, such as {"nvidia.com/gpu": "1"}."""
    limits = dict(resources or {}) | ({names.GPU: str(gpus)} if gpus else {})
    container = {"name": "main", "image": "busybox:1", **spec.pop("container", {})}
    if limits:
        container["resources"] = {"limits": limits}
    metadata = {"name": name, **spec.pop("metadata", {})}
    body = {"restartPolicy": "Always", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def gates_of(pod):
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


@contextmanager
def guarded_tenant(plane, spec=NLP, *, server=None):
    """The tenant, with nodes of the pool, as long as the block lasts.

    server: of webhooks, as `shared_objects` has it; None for admission policies.
    """
    gateway = connect(str(plane.kubeconfig()))
    shared = shared_objects(["admin"], server=server)
    plane.add_nodes(*NODES, taints=[POOL])
    try:
        apply_all(gateway.wire, [*shared, *tenant_objects(spec)])
        tenant = _people(plane, spec, gateway)
        _soon(lambda: _is_guarded(tenant))
        yield tenant
        tenant.empty()
    finally:
        for obj in shared:
            plane.api.delete(path_of(obj))
        home = f"/api/v1/namespaces/{spec.namespace}"
        plane.api.delete(home)
        plane.remove_nodes(*NODES)
        # It takes its time to go, and the next tenant of that name finds nothing of this one.
        eventually(lambda: plane.api.ask("GET", home)[0] == 404, within=120)


def _people(plane, spec, gateway):
    api, name = plane.api, {"metadata": {"name": "mighty"}}
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{spec.namespace}"
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    role = {"kind": "Role", "name": "mighty", "apiGroup": "rbac.authorization.k8s.io"}
    alice = {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
    api.create(f"{rbac}/roles", {**name, "rules": [everything]})
    api.create(f"{rbac}/rolebindings", {**name, "roleRef": role, "subjects": [alice]})
    return Tenant(
        spec=spec,
        gateway=gateway,
        admin=api,
        mighty=replace(api, headers={"Impersonate-User": "alice"}),
        person=api.acting_as("bob", group_of(spec.tenant)),
    )


def _is_guarded(tenant):
    """Whether rights and policies have reached the API server; they take a moment."""
    code, pod = tenant.mighty.ask("POST", tenant.pods, manifest(gpus=1), dryRun="All")
    if code != 201 or gates_of(pod) != [names.GATE]:
        return False
    patch = {"metadata": {"labels": {names.TENANT: None}}}
    refused, _ = tenant.mighty.patch(tenant.home, patch, kind="merge", dryRun="All")
    return refused == 422
