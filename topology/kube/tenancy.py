"""What a tenant has in a cluster, and what all tenants share there, as manifests.

Each of a tenant's objects is a wall of its own. The queue decides who gets GPUs; the quota is the
last wall behind it, and counts members of jobs only, so that nothing that waits at the gate can
use it up. People get their rights from one ClusterRole: whoever hands out rights must have them or
be allowed to `bind` them, and so Muster needs no more than to bind that one role.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from topology.kube import names
from topology.kube.admission.policies import admission_policies
from topology.kube.admission.webhooks import admission_webhooks
from topology.kube.values import TenancySpec
from topology.kube.wire import Obj

# Above what others' pods have by default, so that those make no room at a member's cost.
PRIORITY = 1000
_RBAC = "rbac.authorization.k8s.io"
_LABELS = {names.KEPT_BY: names.US}
_READ, _WRITE = ["get", "list", "watch"], ["create", "update", "patch", "delete"]
_DNS = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
_DNS_OF_THE_NODE = "169.254.20.10/32"  # where NodeLocal DNSCache listens


def shared_objects(
    accounts: Sequence[str], *, server: Mapping[str, Any] | None = None
) -> list[Obj]:
    """What an administrator installs once in a cluster.

    accounts: the user names that are Muster there. ValueError without one.
    server: who answers webhooks, as in `admission_webhooks`, where the cluster has no policies.
    """
    rules = admission_webhooks(accounts, server) if server else admission_policies(accounts)
    return [*priority_classes(), _people(), *rules]


def kept_objects(spec: TenancySpec) -> list[Obj]:
    """What Muster itself keeps for a tenant: its objects, and the classes that its pods are of."""
    return [*priority_classes(), *tenant_objects(spec)]


def tenant_objects(spec: TenancySpec) -> list[Obj]:
    """What one tenant has, the namespace first."""
    walls = [_quota(spec), _limits(spec), *_networks(spec)]
    return [_namespace(spec), *walls, _account(spec), _rights(spec)]


def priority_classes() -> list[Obj]:
    """Of gangs' pods: none of them takes the room of another pod by itself.

    Those of standby jobs are apart, since the last wall is not to count what no quota counts; and
    those that have parts of GPUs, each of which it would count as a whole one.
    """
    return [
        _priority_class(names.MEMBERS, "Members of jobs that Muster has placed."),
        _priority_class(names.STANDBY, "Members of standby jobs, which no quota is charged for."),
        _priority_class(names.PARTS, "Members of jobs that have a part of one GPU each."),
    ]


def _priority_class(name: str, description: str) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": _LABELS},
        "value": PRIORITY,
        "preemptionPolicy": "Never",
        "globalDefault": False,
        "description": description,
    }


def _people() -> Obj:
    """What a tenant's people may do in its namespace: run and look at their own.

    Not: bind pods, write what a pod's status says, change limits, or hand out rights.
    """
    rules = [
        _rule("", ["pods", "services", "configmaps", "secrets", "persistentvolumeclaims"], _WRITE),
        _rule("batch", ["jobs", "cronjobs"], _READ + _WRITE),
        _rule("apps", ["deployments", "statefulsets", "replicasets"], _READ + _WRITE),
        _rule("resource.k8s.io", ["resourceclaims", "resourceclaimtemplates"], _READ),
        _rule("scheduling.k8s.io", ["podgroups"], _READ),
        _rule("", ["pods/exec", "pods/attach", "pods/portforward"], ["create", "get"]),
        _rule("", ["pods", "pods/log", "pods/status", "events", "services", "endpoints"], _READ),
        _rule("", ["configmaps", "secrets", "persistentvolumeclaims"], _READ),
        _rule("", ["resourcequotas", "limitranges", "serviceaccounts"], _READ),
        _rule("networking.k8s.io", ["networkpolicies"], _READ),
    ]
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": names.PEOPLE, "labels": _LABELS},
        "rules": rules,
    }


def _rule(group: str, resources: list[str], verbs: list[str]) -> Obj:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _namespace(spec: TenancySpec) -> Obj:
    level = "privileged" if spec.may_reach_host else "baseline"
    access = {names.HOST_ACCESS: names.ALLOWED} if spec.may_reach_host else {}
    security = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "audit")}
    labels = {**_LABELS, names.TENANT: spec.tenant, **access, **security}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": spec.namespace, "labels": labels},
    }


def _quota(spec: TenancySpec) -> Obj:
    """The last wall. Without a limit it stays, and lets everything through."""
    hard = {} if spec.gpus is None else {f"requests.{names.GPU}": str(spec.gpus)}
    members = {"scopeName": "PriorityClass", "operator": "In", "values": [names.MEMBERS]}
    return _object(
        spec,
        "ResourceQuota",
        spec={
            "hard": hard,
            "scopeSelector": {"matchExpressions": [members]},
        },
    )


def _limits(spec: TenancySpec) -> Obj:
    """Whoever says nothing asks for a little, lest the node counts it as nothing.

    Not for GPUs: a pod without any would have to say so, or be refused.
    """
    limit = {"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "128Mi"}}
    return _object(spec, "LimitRange", spec={"limits": [limit]})


def _networks(spec: TenancySpec) -> list[Obj]:
    """Nothing comes in or goes out, save among the tenant's own pods, and names are looked up.

    Policies add up: an operator opens more with one of his own beside these.
    """
    own: Obj = {"podSelector": {}}
    kube_system = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    dns = [{"namespaceSelector": kube_system}, {"ipBlock": {"cidr": _DNS_OF_THE_NODE}}]
    closed: Obj = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    gangs = {
        **closed,
        "ingress": [{"from": [own]}],
        "egress": [{"to": [own]}, {"to": dns, "ports": _DNS}],
    }
    version = "networking.k8s.io/v1"
    return [
        _object(spec, "NetworkPolicy", version=version, name="muster-closed", spec=closed),
        _object(spec, "NetworkPolicy", version=version, name="muster-gangs", spec=gangs),
    ]


def _account(spec: TenancySpec) -> Obj:
    """For programs of the tenant; a pod is given its token only when it asks."""
    account = _object(spec, "ServiceAccount", name=names.PEOPLE)
    return {**account, "automountServiceAccountToken": False}


def _rights(spec: TenancySpec) -> Obj:
    account = {"kind": "ServiceAccount", "name": names.PEOPLE, "namespace": spec.namespace}
    group = {"kind": "Group", "name": group_of(spec.tenant), "apiGroup": _RBAC}
    return {
        **_object(spec, "RoleBinding", version=f"{_RBAC}/v1", name=names.PEOPLE),
        "roleRef": {"kind": "ClusterRole", "name": names.PEOPLE, "apiGroup": _RBAC},
        "subjects": [account, group],
    }


def group_of(tenant: str) -> str:
    """The group that the cluster's sign-in puts a tenant's people in."""
    return f"muster:{tenant}"


def _object(
    tenancy: TenancySpec, kind: str, *, version: str = "v1", name: str = names.US, **rest: Obj
) -> Obj:
    metadata = {"name": name, "namespace": tenancy.namespace, "labels": dict(_LABELS)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}
