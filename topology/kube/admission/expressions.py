"""What the rules say over and over, as pieces of CEL; `obj` is `object` or `oldObject`."""

from topology.kube import names

# Extended resources that are no accelerators. All others are held, so that a device plugin that
# nobody told us of is no way around the gate; DRA claims and device classes are, too.
HARMLESS = ("rdma/", "devices.kubevirt.io/", "kubernetes.io/")

_OWN_NOTE = names.CHECKPOINT_AT  # a job may say itself how far it is


def text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def has_gate(obj: str) -> str:
    return f"{obj}.spec.?schedulingGates.orValue([]).exists(g, g.name == {text(names.GATE)})"


def containers_of(obj: str) -> str:
    """Those that ask for resources; those of a debugger are apart, and may ask for none."""
    return f"({obj}.spec.containers + {obj}.spec.?initContainers.orValue([]))"


def is_device(name: str) -> str:
    harmless = " || ".join(f"{name}.startsWith({text(prefix)})" for prefix in HARMLESS)
    return f"({name}.contains('/') && !({harmless}))"


def asks(obj: str) -> str:
    device = is_device("r")
    amounts = " || ".join(
        f"c.?resources.?{part}.orValue({{}}).exists(r, {device})" for part in ("limits", "requests")
    )
    claims = f"{obj}.spec.?resourceClaims.orValue([]).size() > 0"
    return f"({containers_of(obj)}.exists(c, {amounts}) || {claims})"


def notes(obj: str, part: str) -> str:
    return f"{obj}.metadata.?{part}.orValue({{}})"


# A key among labels or annotations that only Muster writes.
_IS_OURS = f"k.startsWith('muster.dev/') && k != {text(_OWN_NOTE)}"


def ours(obj: str, part: str) -> str:
    """Whether there is such a key."""
    return f"{notes(obj, part)}.exists(k, {_IS_OURS})"


def same_notes() -> str:
    """Our annotations are as they were."""
    old, new = notes("oldObject", "annotations"), notes("object", "annotations")
    return (
        f"{old}.all(k, !({_IS_OURS}) || (k in {new} && {new}[k] == {old}[k]))"
        f" && {new}.all(k, !({_IS_OURS}) || k in {old})"
    )


_IS_BACK_ENDS = " || ".join(f"k.startsWith({text(prefix)})" for prefix in names.BACK_END_NOTES)


def has_back_end_notes(obj: str) -> str:
    """Whether an annotation is one by which a back end is told what to give."""
    return f"{notes(obj, 'annotations')}.exists(k, {_IS_BACK_ENDS})"


def same_back_end_notes() -> str:
    old, new = notes("oldObject", "annotations"), notes("object", "annotations")
    return (
        f"({old}.all(k, !({_IS_BACK_ENDS}) || (k in {new} && {new}[k] == {old}[k]))"
        f" && {new}.all(k, !({_IS_BACK_ENDS}) || k in {old}))"
    )


def same(*fields: str, none: str) -> str:
    pairs = (
        f"object.metadata.?{field}.orValue({none}) == oldObject.metadata.?{field}.orValue({none})"
        for field in fields
    )
    return " && ".join(pairs)


# Who asks. Muster is one account, by name: that somebody may do everything is no reason to let him
# open the gate. The cluster is the controllers, the scheduler and the kubelets; an operator is
# whoever may make namespaces, which no rights inside of one can give.
MUSTER = "variables.isMuster"
CLUSTER = "variables.isCluster"
OPERATOR = "variables.isOperator"
_IS_CLUSTER = (
    "request.userInfo.username in ['system:kube-controller-manager',"
    " 'system:kube-scheduler', 'system:apiserver']"
    " || request.userInfo.?groups.orValue([]).exists(g,"
    " g in ['system:nodes', 'system:serviceaccounts:kube-system'])"
)
_IS_OPERATOR = "authorizer.group('').resource('namespaces').check('create').allowed()"
ASKERS = (("isCluster", _IS_CLUSTER), ("isOperator", _IS_OPERATOR))

_IS_MEMBER = (
    f"{text(names.JOB)} in {notes('object', 'labels')}"
    f" || (oldObject != null && {text(names.JOB)} in {notes('oldObject', 'labels')})"
)
_MAY_REACH_HOST = (
    f"namespaceObject.metadata.?labels[?{text(names.HOST_ACCESS)}].orValue('')"
    f" == {text(names.ALLOWED)}"
)
POD_VARIABLES = (
    ("asksGpu", asks("object")),
    ("hasGate", has_gate("object")),
    ("isMember", _IS_MEMBER),
    ("mayReachHost", _MAY_REACH_HOST),
    ("isOfJob", "object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'Job')"),
)


def _any_container(condition: str) -> str:
    """Whether the condition is true of some container `c`, a debugger's included."""
    debuggers = "object.spec.?ephemeralContainers.orValue([])"
    return (
        f"({containers_of('object')}.exists(c, {condition}) || {debuggers}.exists(c, {condition}))"
    )


_IS_LIMIT = " || ".join(f"e.name.startsWith({text(prefix)})" for prefix in names.LIMIT_VARIABLES)
NAMES_DEVICES = _any_container(
    f"c.?env.orValue([]).exists(e, e.name in {list(names.DEVICE_VARIABLES)} || {_IS_LIMIT})"
    " || c.?volumeMounts.orValue([]).exists(m,"
    " m.mountPath.startsWith('/var/run/nvidia-container-devices'))"
)
IS_PRIVILEGED = _any_container("c.?securityContext.?privileged.orValue(false)")

_POOL_KEYS = f"t.?key.orValue('') in ['', {text(names.POOL)}]"


def pool_tolerations(obj: str) -> str:
    return f"{obj}.spec.?tolerations.orValue([]).filter(t, {_POOL_KEYS})"
