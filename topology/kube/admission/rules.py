"""What Muster forbids in the namespaces of tenants: one table, in the words of CEL.

The gate holds only if nobody goes around it. Each rule closes one way to a GPU that the queue did
not give, or to make Muster believe that one is free which is not. `policies` makes admission
policies of them; tests/kube/test_ways_to_a_gpu.py tries every one on a real control plane.

What no rule can see: an environment that comes from a ConfigMap or from the image. So GPU nodes
carry the taint of the pool, and their container runtime takes no list of devices from there; see
docs/cluster-access.md.
"""

from dataclasses import dataclass, replace

from topology.kube import names
from topology.kube.admission.expressions import (
    CLUSTER,
    IS_PRIVILEGED,
    MUSTER,
    NAMES_DEVICES,
    OPERATOR,
    POD_VARIABLES,
    has_back_end_notes,
    has_gate,
    notes,
    ours,
    pool_tolerations,
    same,
    same_back_end_notes,
    same_notes,
    text,
)

# HAMi binds the pods of its scheduler itself. No tenant can be this account, whatever he makes in
# his namespace.
HAMI_BINDS = f"system:serviceaccount:{names.HAMI_NAMESPACE}:{names.HAMI_SCHEDULER}"
CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"


@dataclass(frozen=True, slots=True)
class Rule:
    """`expression` is true for what is allowed when one of the operations `on` meets it."""

    name: str
    on: tuple[str, ...]
    expression: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """Rules about the same resources ("group/resource[/part]"; the core group has no name).

    condition: of objects that the rules are about at all. variables: what the expressions share.
    """

    name: str
    resources: tuple[str, ...]
    rules: tuple[Rule, ...]
    variables: tuple[tuple[str, str], ...] = ()
    condition: str = ""
    everywhere: bool = False  # not only in tenants' namespaces; the condition says where

    @property
    def operations(self) -> tuple[str, ...]:
        used = {operation for rule in self.rules for operation in rule.on}
        return tuple(operation for operation in (CREATE, UPDATE, DELETE) if operation in used)


GATE_IS_ON = Rule(
    "gate-is-on",
    (CREATE,),
    "!variables.asksGpu || variables.hasGate",
    f"a pod that asks for GPUs or other devices waits at the gate {names.GATE};"
    " submit a job to Muster to get one",
)
_GATE_STAYS = Rule(
    "gate-stays",
    (UPDATE,),
    f"!({has_gate('oldObject')}) || variables.hasGate || {MUSTER}",
    f"only Muster opens the gate {names.GATE}; submit a job to Muster to get GPUs",
)
_NO_NODE = Rule(
    "no-node",
    (CREATE,),
    "object.spec.?nodeName.orValue('') == ''",
    "a pod here does not name its node, and no node keeps static pods here; leave out"
    " spec.nodeName",
)
_NO_POOL = Rule(
    "no-pool-toleration",
    (CREATE, UPDATE),
    f"{MUSTER} || {pool_tolerations('object')}.size() <="
    f" (oldObject == null ? 0 : {pool_tolerations('oldObject')}.size())",
    f"only Muster lets a pod into the pool of GPU nodes; leave out tolerations of {names.POOL},"
    " and those of every key",
)
_NO_GPU_TOLERATION = Rule(
    "no-gpu-toleration",
    (CREATE,),
    "variables.hasGate || !object.spec.?tolerations.orValue([]).exists(t,"
    f" t.?key.orValue('') == {text(names.GPU)})",
    f"a pod without GPUs does not tolerate {names.GPU}; leave the toleration out",
)
_PRIORITY = Rule(
    "priority",
    (CREATE,),
    "object.spec.?priority.orValue(0) <= 0 || (variables.isMember"
    f" && object.spec.?priorityClassName.orValue('') in {list(names.PRIORITIES)})",
    "a pod here has no priority of its own; leave out priorityClassName",
)
_OUR_NOTES = Rule(
    "our-labels",
    (CREATE,),
    f"{MUSTER} || !({ours('object', 'labels')} || {ours('object', 'annotations')})"
    f" || ({CLUSTER} && variables.isOfJob)",
    "labels and annotations of muster.dev are Muster's; leave them out",
)
_MEMBER_STAYS = Rule(
    "members-stay",
    (UPDATE,),
    f"{MUSTER} || {CLUSTER} || (variables.isMember"
    f" ? ({same('labels', none='{}')} && {same('ownerReferences', 'finalizers', none='[]')}"
    f" && {same_notes()})"
    f" : (!{ours('object', 'labels')} && {same_notes()}))",
    "this pod belongs to a job of Muster; its labels, owners and finalizers stay as they are."
    " Change the job in Muster",
)
_SCHEDULER = Rule(
    "scheduler",
    (CREATE,),
    "!variables.asksGpu || object.spec.?schedulerName.orValue('default-scheduler')"
    " == 'default-scheduler' || (variables.isMember"
    f" && object.spec.?schedulerName.orValue('') == {text(names.HAMI_SCHEDULER)})",
    "pods with GPUs are bound by the default scheduler; leave out spec.schedulerName",
)
_NO_HOST = Rule(
    "no-host",
    (CREATE,),
    "variables.mayReachHost || !(object.spec.?hostNetwork.orValue(false)"
    " || object.spec.?hostPID.orValue(false) || object.spec.?hostIPC.orValue(false)"
    " || object.spec.?volumes.orValue([]).exists(v, has(v.hostPath))"
    f" || {IS_PRIVILEGED})",
    "this tenant's pods do not reach the host: no hostPath, no namespaces of the host, nothing"
    " privileged. Ask an operator if that is needed",
)
_NO_SIDE_DOOR = Rule(
    "no-device-by-name",
    (CREATE,),
    f"!{NAMES_DEVICES}",
    "devices are given by the cluster, not asked of the container runtime: leave out"
    " NVIDIA_VISIBLE_DEVICES and its like",
)
_NO_CDI = Rule(
    "no-cdi",
    (CREATE, UPDATE),
    f"{notes('object', 'annotations')}.all(k, !k.startsWith('{names.CDI}')"
    f" || (oldObject != null && k in {notes('oldObject', 'annotations')}))",
    "devices are given by the cluster, not asked of the container runtime: leave out annotations"
    " of cdi.k8s.io",
)
_NO_POD_GROUP = Rule(
    "no-group-of-a-gang",
    (CREATE,),
    "variables.isMember || !object.spec.?schedulingGroup.?podGroupName.orValue('')"
    f".startsWith({text(names.POD_GROUPS)})",
    f"PodGroups whose name begins with {names.POD_GROUPS} are of jobs of Muster; name another one",
)
_NO_BACK_END = Rule(
    "no-back-end",
    (CREATE, UPDATE),
    f"{MUSTER} || {CLUSTER} && variables.isMember"
    f" || (oldObject == null ? !{has_back_end_notes('object')} : {same_back_end_notes()})",
    "how much of a GPU a pod has, and of which, is between Muster and what gives it: leave out"
    " annotations of hami.io, nvidia.com and volcano.sh",
)
_NO_LONG_GRACE = Rule(
    "no-longer-grace",
    (DELETE,),
    f"{MUSTER} || {CLUSTER} || {OPERATOR}"
    " || request.?options.?gracePeriodSeconds.orValue(0)"
    " <= oldObject.spec.?terminationGracePeriodSeconds.orValue(30)",
    "a pod is given no more time to end than its own; leave out the grace period",
)

PODS = RuleSet(
    name="muster-pods",
    resources=("/pods",),
    variables=POD_VARIABLES,
    rules=(
        GATE_IS_ON,
        _GATE_STAYS,
        _NO_NODE,
        _NO_POOL,
        _NO_GPU_TOLERATION,
        _PRIORITY,
        _OUR_NOTES,
        _MEMBER_STAYS,
        _SCHEDULER,
        _NO_HOST,
        _NO_SIDE_DOOR,
        _NO_CDI,
        _NO_POD_GROUP,
        _NO_BACK_END,
        _NO_LONG_GRACE,
    ),
)
DEBUGGERS = RuleSet(
    name="muster-debuggers",
    resources=("/pods/ephemeralcontainers",),
    variables=POD_VARIABLES,
    rules=(
        Rule(
            "no-debugger-beside-gpus",
            (UPDATE,),
            "!(variables.asksGpu || variables.isMember)",
            "a debugging container would see every GPU of the node; use kubectl exec, and put the"
            " tools into the image",
        ),
        replace(_NO_SIDE_DOOR, on=(UPDATE,)),
        replace(_NO_HOST, on=(UPDATE,)),
    ),
)
RESIZES = RuleSet(
    name="muster-resizes",
    resources=("/pods/resize",),
    variables=POD_VARIABLES,
    rules=(
        Rule(
            "members-keep-their-size",
            (UPDATE,),
            f"{MUSTER} || !(variables.isMember || variables.asksGpu)",
            "this pod belongs to a job of Muster and keeps its size; change the job in Muster",
        ),
    ),
)
STATUSES = RuleSet(
    name="muster-statuses",
    resources=("/pods/status", "batch/jobs/status"),
    rules=(
        Rule(
            "status-is-the-clusters",
            (UPDATE,),
            f"{MUSTER} || {CLUSTER} || {OPERATOR}",
            "what pods and Jobs do is said by the cluster; one that is called ended would hold its"
            " GPUs",
        ),
    ),
)
BINDINGS = RuleSet(
    name="muster-bindings",
    resources=("/pods/binding", "/bindings"),
    rules=(
        Rule(
            "scheduler-binds",
            (CREATE,),
            f"request.userInfo.username in {['system:kube-scheduler', HAMI_BINDS]}",
            "only the scheduler binds pods here",
        ),
    ),
)
EVICTIONS = RuleSet(
    name="muster-evictions",
    resources=("/pods/eviction",),
    rules=(
        Rule(
            "no-longer-grace",
            (CREATE,),
            f"{MUSTER} || {CLUSTER} || {OPERATOR}"
            " || !has(object.deleteOptions) || !has(object.deleteOptions.gracePeriodSeconds)",
            _NO_LONG_GRACE.message,
        ),
    ),
)
_TEMPLATE = "object.spec.template"
_JOB_IS_OURS = (
    f"(object != null && {text(names.JOB)} in {notes('object', 'labels')})"
    f" || (oldObject != null && {text(names.JOB)} in {notes('oldObject', 'labels')})"
)
JOBS = RuleSet(
    name="muster-jobs",
    resources=("batch/jobs",),
    variables=(("isOurs", _JOB_IS_OURS),),
    rules=(
        Rule(
            "our-labels",
            (CREATE, UPDATE),
            f"{MUSTER} || variables.isOurs && request.operation == 'UPDATE' || !("
            + " || ".join(
                ours(obj, part)
                for obj in ("object", _TEMPLATE)
                for part in ("labels", "annotations")
            )
            + ")",
            _OUR_NOTES.message,
        ),
        Rule(
            "our-jobs-stay",
            (UPDATE,),
            f"{MUSTER} || {CLUSTER} || !variables.isOurs || (object.spec == oldObject.spec"
            f" && {same('labels', 'annotations', none='{}')}"
            f" && {same('ownerReferences', 'finalizers', none='[]')})",
            "this Job belongs to Muster; change or cancel the job there",
        ),
        Rule(
            "our-jobs-are-cancelled",
            (DELETE,),
            f"{MUSTER} || {CLUSTER} || {OPERATOR} || !variables.isOurs",
            "this Job belongs to Muster; cancel the job there",
        ),
    ),
)
CLAIMS = RuleSet(
    name="muster-claims",
    resources=(
        "resource.k8s.io/resourceclaims",
        "resource.k8s.io/resourceclaims/status",
        "resource.k8s.io/resourceclaimtemplates",
    ),
    rules=(
        Rule(
            "claims-are-musters",
            (CREATE, UPDATE, DELETE),
            f"{MUSTER} || {CLUSTER} || {OPERATOR}",
            "devices are claimed by Muster for the jobs that it places; submit a job to Muster to"
            " get GPUs",
        ),
    ),
)
_POD_GROUP_IS_OURS = " || ".join(
    f"({obj} != null && {obj}.metadata.name.startsWith({text(names.POD_GROUPS)}))"
    for obj in ("object", "oldObject")
)
POD_GROUPS = RuleSet(
    name="muster-pod-groups",
    resources=("scheduling.k8s.io/podgroups", "scheduling.k8s.io/podgroups/status"),
    condition=_POD_GROUP_IS_OURS,
    rules=(
        Rule(
            "pod-groups-are-musters",
            (CREATE, UPDATE, DELETE),
            f"{MUSTER} || {CLUSTER} || {OPERATOR}",
            f"a PodGroup whose name begins with {names.POD_GROUPS} holds a job of Muster together;"
            " choose another name, or change the job in Muster",
        ),
    ),
)
_IS_KEPT = f"{notes('oldObject', 'labels')}[?{text(names.KEPT_BY)}].orValue('') == 'muster'"
KEPT = RuleSet(
    name="muster-kept",
    resources=(
        "/resourcequotas",
        "/resourcequotas/status",  # the hard limits there are those that count
        "/limitranges",
        "/serviceaccounts",
        "networking.k8s.io/networkpolicies",
        "rbac.authorization.k8s.io/rolebindings",
    ),
    condition=f"oldObject != null && {_IS_KEPT}",
    rules=(
        Rule(
            "kept",
            (UPDATE, DELETE),
            f"{MUSTER} || {CLUSTER} || {OPERATOR}",
            "Muster keeps this object; ask an operator",
        ),
    ),
)
# The label that the other policies go by: a namespace that lost it would be out of their reach.
_GUARDED = ("muster.dev/", "pod-security.kubernetes.io/", "resource.kubernetes.io/")
_IS_GUARDED = " || ".join(f"k.startsWith({text(prefix)})" for prefix in _GUARDED)
_OLD_LABELS, _NEW_LABELS = notes("oldObject", "labels"), notes("object", "labels")
NAMESPACES = RuleSet(
    name="muster-namespaces",
    # Labels can be written through the parts, too.
    resources=("/namespaces", "/namespaces/status", "/namespaces/finalize"),
    condition=f"oldObject != null && {text(names.TENANT)} in {_OLD_LABELS}",
    everywhere=True,
    rules=(
        Rule(
            "labels-stay",
            (UPDATE,),
            f"{MUSTER} || {CLUSTER} || {OPERATOR} || ({_OLD_LABELS}.all(k, !({_IS_GUARDED})"
            f" || (k in {_NEW_LABELS} && {_NEW_LABELS}[k] == {_OLD_LABELS}[k]))"
            f" && {_NEW_LABELS}.all(k, !({_IS_GUARDED}) || k in {_OLD_LABELS}))",
            "this namespace belongs to a tenant of Muster; its labels stay as they are",
        ),
        Rule(
            "namespace-stays",
            (DELETE,),
            f"{MUSTER} || {CLUSTER} || {OPERATOR}",
            "this namespace belongs to a tenant of Muster; take the tenant's access away there",
        ),
    ),
)

RULE_SETS = (
    PODS,
    DEBUGGERS,
    RESIZES,
    STATUSES,
    BINDINGS,
    EVICTIONS,
    JOBS,
    CLAIMS,
    POD_GROUPS,
    KEPT,
    NAMESPACES,
)
