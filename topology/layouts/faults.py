"""What may be wrong with a configuration, as values: where, what, and the words to fill in.

Whoever shows a problem translates it: `problem.text(gettext)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from topology.catalog.mig import Misfit
from topology.catalog.wording import Translate, gettext_noop


class Fault(Enum):
    """Everything that a configuration is refused for."""

    NOT_YAML = gettext_noop("line {line}: {why}")
    NO_MAPPING = gettext_noop("this should be a mapping of keys to values")
    NO_LIST = gettext_noop("this should be a list with at least one entry")
    VERSION = gettext_noop("the version is {found}, but only v1 is known")
    UNKNOWN_KEY = gettext_noop("nobody reads a key of this name here")
    MISPLACED_KEY = gettext_noop("nobody reads this key here; it belongs to {place}")
    MISSING_KEY = gettext_noop("{key} is missing")
    NO_BOOLEAN = gettext_noop("{found} is neither true nor false")
    LABEL_VALUE = gettext_noop(
        "a node's label cannot have this value: up to 63 letters, digits, . _ and -"
    )
    NO_CONFIG = gettext_noop("there is no configuration {key}; there are {known}")

    DEVICES = gettext_noop("{found} is neither `all` nor a list of GPU numbers")
    DEVICE_FILTER = gettext_noop("{found} is no device id: write 0x20B010DE, in quotation marks")
    NO_SUCH_GPU = gettext_noop("there is no GPU {gpu}; the node has 0 to {last}")
    CLAIMED_TWICE = gettext_noop("GPU {gpu} is claimed twice")
    NO_COUNT = gettext_noop("{found} is no number of instances")
    DISABLED_WITH_DEVICES = gettext_noop("MIG is off here, so that there can be no instances")
    MISFIT = gettext_noop("GPU {gpu}: {why}")
    STRATEGY = gettext_noop("{found} is no MIG strategy: it is none, single or mixed")
    SINGLE = gettext_noop(
        "`single` needs every GPU of the node cut into one and the same profile; use `mixed`"
    )

    BOTH_SHARINGS = gettext_noop("a node is shared by timeSlicing or by mps, never by both")
    RESOURCE_NAME = gettext_noop(
        "{found} is no resource of the device plugin: it begins with nvidia.com/"
    )
    RESOURCE_TWICE = gettext_noop("{name} is shared twice")
    REPLICAS = gettext_noop("{found} is no number of replicas: it is 2 or more")
    DEVICES_IGNORED = gettext_noop(
        "the plugin shares all devices of the node, whatever stands here"
    )
    RENAME_IGNORED = gettext_noop(
        "the plugin ignores names of one's own; renameByDefault adds .shared"
    )
    MPS_ON_MIG = gettext_noop("MIG instances cannot be shared by mps")
    MPS_ALWAYS_FAILS_MANY = gettext_noop(
        "with mps a request for more than one share fails in any case"
    )
    MPS_TOO_MANY = gettext_noop("{model} can be shared by mps {most} times at most, not {found}")
    NOT_ON_NODE = gettext_noop("the node has no {name} to share")


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. where: the path of keys to it, as mig-configs.two-fours[0].devices."""

    where: str
    fault: Fault
    values: Mapping[str, object] = field(default_factory=dict)

    def text(self, translate: Translate = gettext_noop) -> str:
        """What is wrong and where, in the language of `translate`."""
        values = {
            name: value.text(translate) if isinstance(value, Misfit) else value
            for name, value in self.values.items()
        }
        text = translate(self.fault.value).format(**values)
        return f"{self.where}: {text}" if self.where else text

    def __str__(self) -> str:
        return self.text()


class RefusedError(ValueError):
    """A text that cannot be read at all."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem
