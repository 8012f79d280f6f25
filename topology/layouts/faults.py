"""What may be wrong with a configuration, as values: where, what, and the words to fill in.

The text of a fault is its translation's key; a page translates it before it fills it in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Fault(Enum):
    """Everything that a configuration is refused for."""

    NOT_YAML = "line {line}: {why}"
    NO_MAPPING = "this should be a mapping of keys to values"
    NO_LIST = "this should be a list with at least one entry"
    VERSION = "the version is {found}, but only v1 is known"
    UNKNOWN_KEY = "nobody reads a key of this name here"
    MISPLACED_KEY = "nobody reads this key here; it belongs to {place}"
    MISSING_KEY = "{key} is missing"
    NO_BOOLEAN = "{found} is neither true nor false"
    LABEL_VALUE = "a node's label cannot have this value: up to 63 letters, digits, . _ and -"
    NO_CONFIG = "there is no configuration {key}; there are {known}"

    DEVICES = "{found} is neither `all` nor a list of GPU numbers"
    DEVICE_FILTER = "{found} is no device id: write 0x20B010DE, in quotation marks"
    NO_SUCH_GPU = "there is no GPU {gpu}; the node has 0 to {last}"
    CLAIMED_TWICE = "GPU {gpu} is claimed twice"
    NO_COUNT = "{found} is no number of instances"
    DISABLED_WITH_DEVICES = "MIG is off here, so that there can be no instances"
    MISFIT = "GPU {gpu}: {why}"
    STRATEGY = "{found} is no MIG strategy: it is none, single or mixed"
    SINGLE = "`single` needs every GPU of the node cut into one and the same profile; use `mixed`"

    BOTH_SHARINGS = "a node is shared by timeSlicing or by mps, never by both"
    RESOURCE_NAME = "{found} is no resource of the device plugin: it begins with nvidia.com/"
    RESOURCE_TWICE = "{name} is shared twice"
    REPLICAS = "{found} is no number of replicas: it is 2 or more"
    DEVICES_IGNORED = "the plugin shares all devices of the node, whatever stands here"
    RENAME_IGNORED = "the plugin ignores names of one's own; renameByDefault adds .shared"
    MPS_ON_MIG = "MIG instances cannot be shared by mps"
    MPS_ALWAYS_FAILS_MANY = "with mps a request for more than one share fails in any case"
    MPS_TOO_MANY = "{model} can be shared by mps {most} times at most, not {found}"
    NOT_ON_NODE = "the node has no {name} to share"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. where: the path of keys to it, as mig-configs.two-fours[0].devices."""

    where: str
    fault: Fault
    values: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        text = self.fault.value.format(**self.values)
        return f"{self.where}: {text}" if self.where else text


class RefusedError(ValueError):
    """A text that cannot be read at all."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem
