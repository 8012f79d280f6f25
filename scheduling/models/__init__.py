from scheduling.models.cycle import Cycle
from scheduling.models.event import JobEvent
from scheduling.models.job import Job, JobFlavor, JobGroup
from scheduling.models.member import Member
from scheduling.models.placement import Placement, PlacementGpu
from scheduling.models.policy import Policy

__all__ = [
    "Cycle",
    "Job",
    "JobEvent",
    "JobFlavor",
    "JobGroup",
    "Member",
    "Placement",
    "PlacementGpu",
    "Policy",
]
