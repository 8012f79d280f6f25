"""Names that stand on objects in a cluster: ours, and those of others that we read."""

GATE = "muster.dev/gate"
POOL = "muster.dev/pool"
JOB = "muster.dev/job"
GROUP = "muster.dev/group"
ATTEMPT = "muster.dev/attempt"
DEVICES = "muster.dev/devices"
DEVICES_GIVEN = "muster.dev/devices-given"  # in the same words; written by the node's side
GPUS = "muster.dev/gpus"
LINKS = "muster.dev/links"
DRIVER = "muster.dev/gpu-driver"
GPUDIRECT = "muster.dev/gpudirect"
BOARD = "muster.dev/class"  # what a node is, where its GPU tells no name
CHECKPOINT_AT = "muster.dev/checkpoint-at"  # of the last complete one; written by the node's side
SAVED_SECONDS = "muster.dev/saved-seconds"  # of run time, by attempts before this one
GANG_RANK = "muster.dev/rank"  # of a member among all of its gang, whatever its group
ENDS_AT = "muster.dev/ends-at"  # when its job is stopped, as last said
WORLD_SIZE = "muster.dev/world-size"  # how many members the gang had when the gate was opened
PLACEMENT_FAILED = "muster.dev/PlacementFailed"

RACK = ("topology.kubernetes.io/rack", "muster.dev/rack")
FABRIC = ("muster.dev/fabric",)
NVLINK_DOMAIN = ("muster.dev/nvlink-domain", "nvidia.com/gpu.clique")

ARCH = "kubernetes.io/arch"
HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
GPU_PRODUCT = "nvidia.com/gpu.product"
GPU_MEMORY = "nvidia.com/gpu.memory"
GPU_REPLICAS = "nvidia.com/gpu.replicas"
GPU_SHARING = "nvidia.com/gpu.sharing-strategy"
GPU_SHARED = "nvidia.com/gpu.shared"  # what a replica is called where the plugin renames it
VENDOR = "nvidia.com/"
DRA_DRIVER = "gpu.nvidia.com"  # of whole GPUs that are given by claims; its device class, too
# HAMi, which gives parts of GPUs by amounts: pkg/device/nvidia/device.go and pkg/util/types.go.
GPU_MEMORY_PART = "nvidia.com/gpumem"  # MiB of each GPU
GPU_CORES_PART = "nvidia.com/gpucores"  # percent of each GPU's processors
HAMI_SCHEDULER = "hami-scheduler"  # of its chart, and the service account that binds there
HAMI_NAMESPACE = "kube-system"  # where its own guide installs it
HAMI_WEBHOOK = "hami.io/webhook"  # on a pod: "ignore" keeps its webhook from it
HAMI_REGISTER = "hami.io/node-nvidia-register"  # on a node: its GPUs
HAMI_ALLOCATED = "hami.io/vgpu-devices-allocated"  # on a pod: what it has of which GPUs
HAMI_PHASE = "hami.io/bind-phase"  # on a pod: allocating, success or failed
VOLCANO_REGISTER = "volcano.sh/node-vgpu-register"  # as HAMi's, of Volcano vGPU
VOLCANO_PREFIX = "volcano.sh/"
# By these annotations such back ends are told what to give, and note what they gave.
BACK_END_NOTES = ("hami.io/", VENDOR, VOLCANO_PREFIX)
CLAIM = "gpus"  # a member's claim, as its pod calls it
POD_GROUPS = "muster-"  # what the names of our gangs' PodGroups begin with
MEMBER_RANK = "muster.dev/member"  # on a claim: the rank of its member within its group
MIG_CONFIG = "nvidia.com/mig.config"
MIG_STATE = "nvidia.com/mig.config.state"
MIG_STRATEGY = "nvidia.com/mig.strategy"
PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
PAUSED = "paused-for-mig-change"  # what is said of each part of the GPU Operator that is off
# Where the GPU Operator looks for configurations of our own, as its Helm values say.
OPERATOR_NAMESPACE = "gpu-operator"
MIG_CONFIG_MAP = "muster-mig-parted-config"
PLUGIN_CONFIG_MAP = "muster-device-plugin-config"
RANK = "batch.kubernetes.io/job-completion-index"
NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
DISRUPTED = "DisruptionTarget"  # evicted, preempted, or its node is lost
CORDONED = "node.kubernetes.io/unschedulable"

USUAL_SCHEDULER = "default-scheduler"  # which places our members too

MAIN = "main"  # the container that a member is

# What people meet in a cluster: a tenant's namespace, and how it is kept.
TENANT = "muster.dev/tenant"  # on a namespace: whose it is; admission policies hold where it stands
HOST_ACCESS = "muster.dev/host-access"  # on a namespace: "allowed" lets its pods reach the host
ALLOWED = "allowed"
KEPT_BY = "app.kubernetes.io/managed-by"
US = "muster"  # our name: as field manager, in KEPT_BY, and for what is made once in a cluster
MEMBERS = "muster-member"  # the PriorityClass of a gang's pods
STANDBY = "muster-standby"  # that of jobs that no quota is charged for
PARTS = "muster-part"  # that of members that have a part of one GPU
PRIORITIES = (MEMBERS, STANDBY, PARTS)
PEOPLE = "muster-tenant"  # ClusterRole, RoleBinding and ServiceAccount of a tenant's people

# By these a container runtime is told which devices to show, whatever the cluster has given.
DEVICE_VARIABLES = (
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_MIG_CONFIG_DEVICES",
    "NVIDIA_MIG_MONITOR_DEVICES",
    "NVIDIA_IMEX_CHANNELS",
    "AMD_VISIBLE_DEVICES",
    "ASCEND_VISIBLE_DEVICES",
    "HABANA_VISIBLE_DEVICES",
)
# By these the library that bounds a part of a GPU is told how much it is.
LIMIT_VARIABLES = ("CUDA_DEVICE_MEMORY_", "CUDA_DEVICE_SM_")
CDI = "cdi.k8s.io/"  # of annotations that do so
