"""Elastic gangs: what is left over goes to them, and a gang below its minimum is made whole."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduling.engine.access import allowance, within_quota
from scheduling.engine.arrays import NEVER, UNLIMITED
from scheduling.engine.charge import charges, device_count, least_member_parts
from scheduling.engine.desk import Desk
from scheduling.engine.gang import Place, place_members, wish_of
from scheduling.engine.jobs import Access, Group, JobSpec, PlacedMember, ServiceClass

Members = tuple[PlacedMember, ...]


@dataclass(frozen=True, slots=True)
class Gang:
    """A job with the members it has, and when it ends at the latest."""

    job: JobSpec
    members: Members
    end: int

    def count(self, group: int, before: Members = ()) -> int:
        """Members of one group, with those of `before`, which are about to be added."""
        return sum(member.group == group for member in (*self.members, *before))


def more_members(desk: Desk, gang: Gang, before: Members = ()) -> Members:
    """Members that can be added to `gang` now, after `before`, up to its most, delaying nobody."""
    added: Members = ()
    for group, spec in enumerate(gang.job.groups):
        room = spec.max_member - gang.count(group, before)
        if room > 0:
            added += _added_to_group(desk, gang, (group, room), before + added)
    return added


def missing_members(desk: Desk, gang: Gang) -> Members | None:
    """Members that make `gang` whole again from free room in its domain, or None."""
    added: Members = ()
    for group, spec in enumerate(gang.job.groups):
        short = spec.min_member - gang.count(group)
        if short > 0:
            added += _added_to_group(desk, gang, (group, short), added)
    while len(gang.members) + len(added) < gang.job.min_members:
        one = more_members(desk, gang, added)[:1]
        if not one:
            return None
        added += one
    return added if gang.job.is_whole(gang.members + added) else None


def _added_to_group(desk: Desk, gang: Gang, wanted: tuple[int, int], before: Members) -> Members:
    """As many of the wanted members of one group as fit. wanted: (group, at most)."""
    group, most = wanted
    job, ledger = gang.job, desk.ledger
    if before or job.service_class == ServiceClass.LATENCY_CRITICAL:
        ledger = ledger.fork()
        ledger.ignore(job, gang.members)
        ledger.take(job, before, seated=False)
    place = Place(
        _near(desk, gang, before),
        replace(wish_of(job, desk.at), required=None),
        _within(desk, gang),
    )
    if before:
        place = place.after(ledger, job, before)
    most = min(
        most,
        _within_allowance(desk, gang, group, before),
        _within_budget(desk, gang, group, before),
    )
    count = min(most, int(place.open_slots(ledger, job, group).sum()))
    if count <= 0:
        return ()
    alone = _alone(job, group, count)
    placed = place_members(ledger, alone, (count,), place=place) or ()
    first = gang.count(group, before)
    added = tuple(
        replace(member, group=group, rank=first + index) for index, member in enumerate(placed)
    )
    books = desk.quota_now(job)
    while added and not within_quota(desk, job, (*before, *added), books):
        added = added[:-1]  # they lie on devices that cost more than the cheapest
    return added


def _alone(job: JobSpec, group: int, count: int) -> JobSpec:
    """The job as if it had only this group, of so many members."""
    spec: Group = replace(job.groups[group], min_member=count, max_member=count)
    return replace(job, groups=(spec,), min_total=0)


def _near(desk: Desk, gang: Gang, before: Members) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """(N,) nodes that the gang may grow to: open until its end, in its domain and its flavors."""
    job = gang.job
    nodes = [member.node for member in (*gang.members, *before)]
    own = np.unique(desk.snapshot.node_flavor[nodes])
    near = desk.open_nodes(job, ()) & np.isin(desk.snapshot.node_flavor, own)
    near = near & (desk.snapshot.node_closes_at >= gang.end)
    if job.island:
        near[nodes] = False  # what is free there may lie in another island
    required = wish_of(job, desk.at).required
    if required is not None and nodes:
        domain = desk.fleet.domains(required)
        near = near & (domain == domain[nodes[0]])
    return near


def _within(desk: Desk, gang: Gang) -> np.ndarray[tuple[int, int], np.dtype[np.int64]] | None:
    return desk.promises.within(gang.end, gang.job.tenant)


def _within_allowance(desk: Desk, gang: Gang, group: int, before: Members) -> int:
    """How many more members of a group the quota allows, in the flavor that has the least left."""
    job = gang.job
    request = job.groups[group].request
    parts = 0 if job.standby else least_member_parts(desk.fleet, request)
    if not parts or request.kind == Access.NONE:
        return job.groups[group].max_member
    used = charges(desk.fleet, job, before)
    books = desk.quota_now(job)
    flavors = {int(desk.snapshot.node_flavor[member.node]) for member in gang.members}
    left = [
        (allowance(books, job, flavor) - used.get(flavor, 0)) // parts for flavor in sorted(flavors)
    ]
    return min(left, default=0)


def _within_budget(desk: Desk, gang: Gang, group: int, before: Members) -> int:
    """How many more members of a group the tenant's budget lasts for, until the gang ends."""
    groups, left = gang.job.groups, desk.budget[gang.job.tenant]
    per_member = device_count(groups[group].request)
    if left >= UNLIMITED or not per_member:
        return groups[group].max_member
    devices = 0 if gang.end == NEVER else left // max(1, gang.end - desk.at)
    taken = sum(device_count(groups[member.group].request) for member in before)
    return max(0, devices - taken) // per_member


def gangs_in_order(gangs: Sequence[Gang]) -> list[Gang]:
    """Urgent first, then oldest; the id last."""
    return sorted(gangs, key=lambda own: (-own.job.priority, own.job.submitted_at, own.job.id))
