"""Names that stand on objects in a cluster: ours, and those of others that we read."""

GATE = "muster.dev/gate"
POOL = "muster.dev/pool"
JOB = "muster.dev/job"
GROUP = "muster.dev/group"
ATTEMPT = "muster.dev/attempt"
DEVICES = "muster.dev/devices"
GPUS = "muster.dev/gpus"
CHECKPOINT_AT = "muster.dev/checkpoint-at"  # of the last complete one; written by the node's side
SAVED_SECONDS = "muster.dev/saved-seconds"  # of run time, by attempts before this one
PLACEMENT_FAILED = "muster.dev/PlacementFailed"

RACK = ("topology.kubernetes.io/rack", "muster.dev/rack")
FABRIC = ("muster.dev/fabric",)
NVLINK_DOMAIN = ("muster.dev/nvlink-domain", "nvidia.com/gpu.clique")

HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
GPU_PRODUCT = "nvidia.com/gpu.product"
GPU_MEMORY = "nvidia.com/gpu.memory"
RANK = "batch.kubernetes.io/job-completion-index"
NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
DISRUPTED = "DisruptionTarget"  # evicted, preempted, or its node is lost
CORDONED = "node.kubernetes.io/unschedulable"

MAIN = "main"  # the container that a member is
