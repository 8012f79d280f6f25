"""What Muster's account may do in a cluster: the two sets, as a role, and as questions.

To look only is a set of its own, in which nothing can be changed; the full one has it and more.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby

from topology.kube import names
from topology.kube.gateway import RefusedByCluster
from topology.kube.wire import REVIEW, ApiError, Obj, Request, Wire

LOOKING, MANAGING = "muster-looks", "muster-manages"  # the names of the two ClusterRoles
_RBAC = "rbac.authorization.k8s.io"
_FOLLOW = ("list", "watch")
_KEEP = ("get", "create", "patch")
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one kind of object, in all namespaces. group: empty for the core's.

    named: the one object that it is for; empty for all.
    """

    group: str
    resource: str
    verb: str
    named: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" {self.named}" if self.named else "")


def _all(group: str, resources: str, verbs: Iterable[str], named: str = "") -> Iterator[Right]:
    for resource in resources.split():
        for verb in verbs:
            yield Right(group, resource, verb, named)


# What is watched, and what says which software there is.
TO_LOOK = (
    *_all("", "nodes pods", _FOLLOW),
    *_all("", "namespaces", ("get", "list")),
    *_all("batch", "jobs", _FOLLOW),
    *_all("apps", "daemonsets deployments", ("list",)),
    *_all("node.k8s.io", "runtimeclasses", ("list",)),
    *_all("resource.k8s.io", "deviceclasses", ("list",)),
    *_all("resource.k8s.io", "resourceclaims resourceslices", _FOLLOW),
    *_all(
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings validatingadmissionpolicybindings"
        " mutatingwebhookconfigurations validatingwebhookconfigurations",
        ("list",),
    ),
)
# Where the cluster has them; without these rights, gangs do without.
TO_MAKE_POD_GROUPS = (*_all("scheduling.k8s.io", "podgroups", ("create", "patch")),)
# What placing jobs takes besides, and what tenants have in the cluster.
TO_MANAGE = (
    *_all("batch", "jobs", ("get", "create", "patch", "delete")),
    *_all("", "pods", ("get", "patch", "delete")),
    *_all("", "pods/status", ("patch",)),
    *_all("", "namespaces services", ("create", "patch")),
    *_all("resource.k8s.io", "resourceclaims resourceclaimtemplates", ("create",)),
    *_all("", "resourcequotas limitranges serviceaccounts", _KEEP),
    *_all("networking.k8s.io", "networkpolicies", _KEEP),
    *_all(_RBAC, "rolebindings", _KEEP),
    *_all(_RBAC, "clusterroles", ("bind",), names.PEOPLE),
    *_all("scheduling.k8s.io", "priorityclasses", _KEEP),
    *TO_MAKE_POD_GROUPS,
)

# Where one account does everything: what pages show of a job, and what rolling out layouts takes.
TO_SHOW = (*_all("", "pods/log", ("get",)),)
TO_LAY_OUT = (
    *_all("", "nodes", ("get", "patch")),
    *_all("", "pods/eviction", ("create",)),
    *_all("", "configmaps", ("get", "create", "update")),
)


def access_objects(account: str, *, manages: bool, lays_out: bool = False) -> list[Obj]:
    """The role for a service account, "NAMESPACE/NAME", and what gives it to the account.

    lays_out: with the rights to change how nodes' GPUs are cut and shared, beside managing.
    """
    name, rights = (MANAGING, TO_LOOK + TO_MANAGE + TO_SHOW) if manages else (LOOKING, TO_LOOK)
    rights += TO_LAY_OUT if lays_out else ()
    namespace, _slash, account_name = account.rpartition("/")
    subject = {"kind": "ServiceAccount", "name": account_name, "namespace": namespace}
    return [
        _object("ClusterRole", name, rules=rules_of(rights)),
        _object(
            "ClusterRoleBinding",
            name,
            roleRef={"kind": "ClusterRole", "name": name, "apiGroup": _RBAC},
            subjects=[subject],
        ),
    ]


def missing_rights(wire: Wire, rights: Sequence[Right]) -> tuple[Right, ...]:
    """Those of `rights` that the cluster says we have not. RefusedByCluster: it does not say."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(lambda right: _may(wire, right), rights))
    return tuple(right for right, may in zip(rights, answers, strict=True) if not may)


def _may(wire: Wire, right: Right) -> bool:
    resource, _slash, part = right.resource.partition("/")
    asked = {
        "group": right.group,
        "resource": resource,
        "subresource": part,
        "verb": right.verb,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**asked, "name": right.named}},
    }
    try:
        answer = wire.ask(Request(method="POST", path=REVIEW, body=body))
    except ApiError as error:
        raise RefusedByCluster(f"the cluster does not say what we may do: {error}") from error
    return bool(answer.get("status", {}).get("allowed"))


def rules_of(rights: Iterable[Right]) -> list[Obj]:
    """The rules of a role: one for each kind of object, with all of its verbs."""
    by_kind = sorted(rights, key=lambda right: (right.group, right.resource, right.named))
    rules: list[Obj] = []
    for (group, resource, named), own in groupby(
        by_kind, key=lambda right: (right.group, right.resource, right.named)
    ):
        rule: Obj = {
            "apiGroups": [group],
            "resources": [resource],
            "verbs": [right.verb for right in own],
        }
        rules.append(rule | ({"resourceNames": [named]} if named else {}))
    return rules


def _object(kind: str, name: str, **rest: object) -> Obj:
    metadata = {"name": name, "labels": {names.KEPT_BY: names.US}}
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, **rest}
