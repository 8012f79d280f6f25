"""The kinds of object that the API serves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind of object: how it is called in paths, in manifests and by kubectl."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    in_all: bool = False

    @property
    def id(self) -> str:
        """The name that messages use: pods, jobs.batch."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        """True when the status has a path of its own, so that other writes leave it alone."""
        return "status" in self.subresources


NAMESPACES = Resource(
    plural="namespaces",
    kind="Namespace",
    namespaced=False,
    short=("ns",),
    subresources=("status", "finalize"),
)
NODES = Resource(
    plural="nodes", kind="Node", namespaced=False, short=("no",), subresources=("status",)
)
PODS = Resource(
    plural="pods",
    kind="Pod",
    short=("po",),
    subresources=("status", "binding", "eviction", "log"),
    in_all=True,
)
EVENTS = Resource(plural="events", kind="Event", short=("ev",))
CONFIGMAPS = Resource(plural="configmaps", kind="ConfigMap", short=("cm",))
SECRETS = Resource(plural="secrets", kind="Secret")
SERVICE_ACCOUNTS = Resource(plural="serviceaccounts", kind="ServiceAccount", short=("sa",))
SERVICES = Resource(plural="services", kind="Service", short=("svc",), in_all=True)
JOBS = Resource(plural="jobs", kind="Job", group="batch", subresources=("status",), in_all=True)
PRIORITY_CLASSES = Resource(
    plural="priorityclasses",
    kind="PriorityClass",
    group="scheduling.k8s.io",
    namespaced=False,
    short=("pc",),
)

_DRA = "resource.k8s.io"
SLICES = Resource(plural="resourceslices", kind="ResourceSlice", group=_DRA, namespaced=False)
DEVICE_CLASSES = Resource(plural="deviceclasses", kind="DeviceClass", group=_DRA, namespaced=False)
CLAIMS = Resource(
    plural="resourceclaims", kind="ResourceClaim", group=_DRA, subresources=("status",)
)
CLAIM_TEMPLATES = Resource(
    plural="resourceclaimtemplates", kind="ResourceClaimTemplate", group=_DRA
)

_RBAC = "rbac.authorization.k8s.io"


def _admission(plural: str, kind: str) -> Resource:
    """One of those kinds that are kept here and do nothing."""
    return Resource(
        plural=plural, kind=kind, group="admissionregistration.k8s.io", namespaced=False
    )


RESOURCES = (
    NAMESPACES,
    NODES,
    PODS,
    EVENTS,
    CONFIGMAPS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource(plural="endpoints", kind="Endpoints", short=("ep",)),
    Resource(plural="persistentvolumeclaims", kind="PersistentVolumeClaim", short=("pvc",)),
    Resource(plural="limitranges", kind="LimitRange", short=("limits",)),
    Resource(plural="resourcequotas", kind="ResourceQuota", short=("quota",)),
    JOBS,
    Resource(plural="leases", kind="Lease", group="coordination.k8s.io"),
    PRIORITY_CLASSES,
    SLICES,
    DEVICE_CLASSES,
    CLAIMS,
    CLAIM_TEMPLATES,
    Resource(
        plural="networkpolicies",
        kind="NetworkPolicy",
        group="networking.k8s.io",
        short=("netpol",),
    ),
    Resource(plural="roles", kind="Role", group=_RBAC),
    Resource(plural="rolebindings", kind="RoleBinding", group=_RBAC),
    Resource(plural="clusterroles", kind="ClusterRole", group=_RBAC, namespaced=False),
    Resource(
        plural="clusterrolebindings", kind="ClusterRoleBinding", group=_RBAC, namespaced=False
    ),
    _admission("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
    _admission("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    _admission("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
    _admission("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
)

BY_PATH = {(r.group, r.version, r.plural): r for r in RESOURCES}
BY_ID = {r.id: r for r in RESOURCES}
