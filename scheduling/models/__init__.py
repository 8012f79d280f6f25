from scheduling.models.array import JobArray
from scheduling.models.block import BlockPart, CapacityBlock
from scheduling.models.cycle import Cycle
from scheduling.models.dependency import JobDependency
from scheduling.models.event import JobEvent
from scheduling.models.job import (
    Job,
    JobFlavor,
    JobGroup,
    Level,
    ServiceClass,
    devices_per_member,
    most_devices,
)
from scheduling.models.layout_request import LayoutRequest
from scheduling.models.member import Member
from scheduling.models.outlook import Advice, QueueOrder, StartEstimate, Unknown
from scheduling.models.placement import Placement, PlacementGpu
from scheduling.models.policy import Policy
from scheduling.models.preemption import Preemption
from scheduling.models.reservation import DeviceHold, Reservation
from scheduling.models.saved_view import SavedView

__all__ = [
    "Advice",
    "BlockPart",
    "CapacityBlock",
    "Cycle",
    "DeviceHold",
    "Job",
    "JobArray",
    "JobDependency",
    "JobEvent",
    "JobFlavor",
    "JobGroup",
    "LayoutRequest",
    "Level",
    "Member",
    "Placement",
    "PlacementGpu",
    "Policy",
    "Preemption",
    "QueueOrder",
    "Reservation",
    "SavedView",
    "ServiceClass",
    "StartEstimate",
    "Unknown",
    "devices_per_member",
    "most_devices",
]
