"""What a person or a program asks for; form, serializer and command all end in one of these."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenants.models import PriorityClass
from topology.models import Cluster, ResourceFlavor


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """Equal members. `min_member` and `max_member` are `members` unless the group may grow."""

    name: str = "main"
    members: int = 1
    min_member: int | None = None
    max_member: int | None = None
    gpus_per_member: int = 1
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def least(self) -> int:
        return self.members if self.min_member is None else self.min_member

    @property
    def most(self) -> int:
        return self.members if self.max_member is None else self.max_member


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job to be. flavors: accepted ones, best first; none accepts all."""

    name: str
    cluster: Cluster
    groups: tuple[GroupRequest, ...] = (GroupRequest(),)
    flavors: tuple[ResourceFlavor, ...] = ()
    walltime_seconds: int | None = None
    priority_class: PriorityClass | None = None
    is_preemptible: bool = True
    image: str = ""
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    external_id: str = ""
