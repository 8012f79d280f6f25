"""The devices that members were planned on, and those that their nodes gave them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from scheduling.models import Job, Member
from scheduling.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDevices:
    """Labels of devices, as 5, 5@4 and 5#2, and in how many islands of their node they lie.

    given: none while nobody says.
    """

    planned: tuple[str, ...]
    given: tuple[str, ...]
    planned_islands: int
    given_islands: int

    @property
    def differ(self) -> bool:
        """Shares of one GPU are all alike."""
        return bool(self.given) and _boards(self.planned) != _boards(self.given)

    @property
    def is_split(self) -> bool:
        """Whether it lies across more islands than was planned."""
        return self.differ and self.given_islands > self.planned_islands


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesGiven:
    """Of so many members, how many it is known of, who got others, and who lies across islands."""

    members: int
    told: int
    differ: int
    split: int


def placed_members(job: Job) -> QuerySet[Member]:
    """The members of the present attempt, with all that `member_devices` asks; none of one that
    waits.
    """
    own = Member.objects.filter(job=job, attempt=job.attempt)
    members = own.none() if job.state == JobState.QUEUED else own
    return members.select_related("group", "placement__node").prefetch_related(
        "devices__gpu", "devices__instance", "placement__node__gpus"
    )


def member_devices(member: Member) -> MemberDevices:
    """Of a member with its devices and its node's GPUs at hand. No query."""
    planned = sorted(member.devices.all(), key=lambda device: device.place)
    islands = {str(gpu.index): gpu.island for gpu in member.placement.node.gpus.all()}
    return MemberDevices(
        planned=tuple(device.label for device in planned),
        given=tuple(member.devices_seen),
        planned_islands=len({device.gpu.island for device in planned}),
        given_islands=len({islands.get(_board(label), -1) for label in member.devices_seen}),
    )


def devices_given(of: Sequence[MemberDevices]) -> DevicesGiven:
    return DevicesGiven(
        members=len(of),
        told=_count(own.given for own in of),
        differ=_count(own.differ for own in of),
        split=_count(own.is_split for own in of),
    )


def _count(facts: Iterable[object]) -> int:
    return sum(1 for fact in facts if fact)


def _board(label: str) -> str:
    return label.partition("@")[0].partition("#")[0]


def _boards(labels: Iterable[str]) -> list[str]:
    return sorted(label.partition("#")[0] for label in labels)
