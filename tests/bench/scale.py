"""Filled clusters with a backlog of gangs, of any size: what the engine's speed is measured on.

Nodes have 8 GPUs; 32 nodes are a rack, 8 racks a block. 32 tenants share one cohort, each with an
equal nominal quota. A case is drawn with `random()` alone, so that every reader of the recipe gets
the same one; `sha256` says whether it is.
"""

import hashlib
import json
import random
from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np

from scheduling.engine.jobs import (
    Access,
    Group,
    JobSpec,
    Level,
    PendingJob,
    PlacedMember,
    Request,
    RunningJob,
)
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import PARTS_PER_GPU, UNKNOWN, Quotas, Snapshot

GPUS = 8
NODES_PER_RACK = 32
RACKS_PER_BLOCK = 8
TENANTS = 32
DAY = 86_400
NOW = 1_700_000_000
SIZES = {1: 0.40, 2: 0.10, 4: 0.12, 8: 0.22, 16: 0.08, 32: 0.05, 64: 0.02, 128: 0.01}
"""GPUs of a gang, and how often."""
FROM_THE_FRONT = 0.98
"""So many small gangs look for room from the first node on, so that some nodes stay whole."""
NO_STOPS = Policy(max_preemptions=0)
"""Quotas, reservations and backfill; nobody is stopped for anybody."""


@dataclass(frozen=True)
class Case:
    """What `draw_case` drew, as plain numbers."""

    nodes: int
    free: list[int]
    running: list[dict]
    pending: list[dict]

    @property
    def sha256(self):
        """Of the case as JSON: the same for every program that draws it right."""
        document = {
            "nodes": self.nodes,
            "gpus_per_node": GPUS,
            "nodes_per_rack": NODES_PER_RACK,
            "racks_per_block": RACKS_PER_BLOCK,
            "tenants": TENANTS,
            "free": self.free,
            "free_gpus": sum(self.free),
            "running": self.running,
            "pending": self.pending,
        }
        text = json.dumps(document, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class _Dice:
    """Draws in the order of the recipe."""

    def __init__(self, seed):
        self._random = random.Random(seed).random  # noqa: S311 -- a case that can be drawn again

    def chance(self, part):
        return self._random() < part

    def below(self, most):
        return int(self._random() * most)

    def seconds(self):
        """A minute to a day, mostly short."""
        return 60 + int(self._random() ** 3 * DAY)

    def size(self):
        left = self._random()
        for gpus, part in SIZES.items():
            left -= part
            if left < 0:
                return gpus
        return max(SIZES)


def draw_case(nodes, gangs, *, seed=1, fill=0.9):
    """A cluster of which `fill` is taken, with `gangs` waiting."""
    dice = _Dice(seed)
    free, running = _running(dice, nodes, fill)
    return Case(nodes, free, running, [_pending(dice, number) for number in range(gangs)])


def _running(dice, nodes, fill):
    free = [GPUS] * nodes
    left, target = nodes * GPUS, int(nodes * GPUS * (1 - fill))
    running, misses = [], 0
    while left > target and misses < 1_000:
        size = min(dice.size(), GPUS * nodes)
        pods, each = max(1, size // GPUS), min(size, GPUS)
        first = dice.below(nodes)
        if each < GPUS and dice.chance(FROM_THE_FRONT):
            first = 0
        spots = _spots(free, each, pods, first)
        if len(spots) < pods or left - size < target:
            misses += 1
            continue
        for node in spots:
            free[node] -= each
        left -= size
        running.append(
            {
                "tenant": dice.below(TENANTS),
                "gpus_per_pod": each,
                "nodes": spots,
                "priority": dice.below(3),
                "ends_in": dice.seconds(),
            }
        )
    return free, running


def _spots(free, each, pods, first):
    nodes = [*range(first, len(free)), *range(first)]
    found = []
    for node in nodes:
        if free[node] >= each:
            found.append(node)
            if len(found) == pods:
                break
    return found


def _pending(dice, number):
    size = dice.size()
    pods = max(1, size // GPUS)
    rack = 1 < pods <= NODES_PER_RACK and dice.chance(0.25)
    return {
        "id": number,
        "tenant": dice.below(TENANTS),
        "pods": pods,
        "gpus_per_pod": min(size, GPUS),
        "priority": dice.below(3),
        "estimate": dice.seconds(),
        "required": "rack" if rack else None,
    }


def snapshot_of(case):
    """The case as the engine sees it."""
    taken = [0] * case.nodes
    running = []
    for number, own in enumerate(case.running):
        members = members_on(sorted(own["nodes"]), own["gpus_per_pod"], taken)
        job_id = len(case.pending) + number
        keys = {key: own[key] for key in ("tenant", "priority", "ends_in")}
        running.append(runner(job_id, members, **keys))
    return seated(
        case.nodes,
        running,
        pending=tuple(
            gang(
                own["id"],
                own["pods"],
                own["gpus_per_pod"],
                tenant=own["tenant"],
                priority=own["priority"],
                submitted_at=NOW - len(case.pending) + own["id"],
                walltime_seconds=own["estimate"],
                required=Level.RACK if own["required"] else None,
            )
            for own in case.pending
        ),
    )


def moved_on(snapshot, plan, *, seconds=10):
    """The cluster a little later: what was to start runs, one job has ended, another has come."""
    members = {start.job: start.members for start in plan.starts}
    started = [runs_on(job, members[job.id]) for job in snapshot.pending if job.id in members]
    waiting = [job for job in snapshot.pending if job.id not in members]
    ended, *others = snapshot.running
    number = 1 + max(job.id for job in (*snapshot.pending, *snapshot.running))
    arrived = gang(number, 2, tenant=1, submitted_at=NOW + seconds, walltime_seconds=3_600)
    later = seated(
        len(snapshot.node_ids),
        [*others, *started],
        nominal=snapshot.quotas.nominal,
        pending=(*waiting, arrived),
    )
    assert ended.members
    return replace(later, taken_at=NOW + seconds)


def runs_on(job, members):
    """The waiting job as it runs from now on."""
    spec = {own.name: getattr(job, own.name) for own in fields(JobSpec)}
    return RunningJob(
        **spec, members=members, started_at=NOW, limit_end_at=NOW + job.walltime_seconds
    )


def gang(job_id, members, gpus=GPUS, **parts):
    """A waiting gang of `members` equal members with `gpus` each."""
    return PendingJob(
        **{"id": job_id, "name": f"j{job_id}", "tenant": 0, "groups": _groups(members, gpus)}
        | parts
    )


def runner(job_id, members, *, ends_in, **parts):
    """A gang that runs on these members for half a day already."""
    return RunningJob(
        **{"id": job_id, "name": f"r{job_id}", "tenant": 0, "submitted_at": NOW - DAY}
        | {"groups": _groups(len(members), len(members[0].gpus)), "members": members}
        | {"started_at": NOW - DAY // 2, "limit_end_at": NOW + ends_in}
        | {"walltime_seconds": DAY // 2 + ends_in}
        | parts
    )


def members_on(nodes, gpus, taken=None):
    """One member on each node, on the lowest of its GPUs that are not taken yet."""
    members = []
    for rank, node in enumerate(nodes):
        first = GPUS * node + (taken[node] if taken else 0)
        members.append(PlacedMember(0, rank, node, tuple(range(first, first + gpus))))
        if taken:
            taken[node] += gpus
    return tuple(members)


@cache
def _groups(members, gpus):
    request = Request(kind=Access.WHOLE, count=gpus)
    return (Group(min_member=members, max_member=members, request=request),)


def seated(nodes, running, *, limited=None, nominal=None, pending=()):
    """A cluster with these jobs on it, and what they use taken off."""
    milli = np.full(GPUS * nodes, 1000, dtype=np.int64)
    usage = np.zeros((TENANTS, 1), dtype=np.int64)
    for job in running:
        for member in job.members:
            milli[list(member.gpus)] = 0
            usage[job.tenant] += PARTS_PER_GPU * len(member.gpus)
    return cluster(
        nodes,
        quotas=_quotas(nodes, usage, limited, nominal),
        gpu_free_milli=milli,
        running=tuple(running),
        pending=pending,
    )


def cluster(nodes, **parts):
    """A snapshot of `nodes` equal nodes in racks and blocks, all free unless `parts` says else."""
    number = np.arange(nodes)
    rack, block = number // NODES_PER_RACK, number // (NODES_PER_RACK * RACKS_PER_BLOCK)
    parts.setdefault("quotas", _quotas(nodes, np.zeros((TENANTS, 1), dtype=np.int64)))
    return Snapshot.of(
        taken_at=NOW,
        node_ids=tuple(range(nodes)),
        node_names=tuple(f"n{node}" for node in range(nodes)),
        node_domain=[number, number, rack, block, number * 0],
        gpu_ids=tuple(range(GPUS * nodes)),
        gpu_node=np.repeat(number, GPUS),
        gpu_index=np.tile(np.arange(GPUS), nodes),
        tenant_ids=tuple(range(TENANTS)),
        tenant_names=tuple(f"t{tenant}" for tenant in range(TENANTS)),
        cohort_names=("all",),
        **parts,
    )


def double_quota(snapshot):
    """The same cluster with twice the quota: room decides, and a job that lacks it reserves."""
    quotas = snapshot.quotas
    nodes = len(snapshot.node_ids)
    return replace(snapshot, quotas=_quotas(2 * nodes, quotas.usage, quotas.limited))


def _quotas(nodes, usage, limited=None, nominal=None):
    """An equal nominal quota for each tenant, which borrow of each other, and no other limit."""
    each = GPUS * nodes // TENANTS * PARTS_PER_GPU
    return Quotas.of(
        tenants=TENANTS,
        cohorts=1,
        flavors=1,
        parent=[TENANTS] * TENANTS + [UNKNOWN],
        limited=[True] * (TENANTS + 1) if limited is None else limited,
        nominal=[[each]] * TENANTS + [[0]] if nominal is None else nominal,
        usage=usage,
    )
