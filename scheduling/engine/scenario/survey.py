"""The snapshot of a world at one instant: from names to indexes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from scheduling.engine.arrays import NEVER, UNLIMITED
from scheduling.engine.charge import charges
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import (
    Access,
    Dependency,
    Level,
    ParentState,
    PendingJob,
    PlacedMember,
    RunningJob,
)
from scheduling.engine.scenario.world import Job, Node, Seat, World
from scheduling.engine.snapshot import (
    UNKNOWN,
    Block,
    GpuMode,
    HeldDevices,
    Quotas,
    Snapshot,
)

RESOURCES: Final = ("cpu_milli", "memory_mib", "nics")
WHOLE_MILLI: Final = 1000
_SHARED: Final = {GpuMode.TIME_SLICING, GpuMode.MPS}
_PARENT_STATES: Final = {
    "done": ParentState.SUCCEEDED,
    "failed": ParentState.FAILED,
    "cancelled": ParentState.FAILED,
}


def take_snapshot(world: World, at: int) -> Snapshot:
    """`world` at one instant, as the engine sees it."""
    return Survey(world, at).snapshot()


class Survey:
    """A world with the look-ups from names to indexes that its snapshot needs, both ways."""

    def __init__(self, world: World, at: int) -> None:
        self.world = world
        self.at = at
        self.nodes = list(world.nodes.values())
        self.node_index = {node.name: index for index, node in enumerate(self.nodes)}
        self.flavors = self._flavors()
        self.flavor_index = {word: index for index, word in enumerate(self.flavors)}
        self.owners = [*world.tenants.values(), *world.cohorts.values()]
        self.tenant_index = {name: index for index, name in enumerate(world.tenants)}
        self.gpus = [(node, number) for node in self.nodes for number in range(node.count)]
        self.gpu_index = {
            (node.name, number): index for index, (node, number) in enumerate(self.gpus)
        }
        self.instances = [
            (index, start, profile)
            for index, (node, number) in enumerate(self.gpus)
            for start, profile in node.gpus[number].layout
        ]
        self.instance_index = {
            (gpu, start): row for row, (gpu, start, _) in enumerate(self.instances)
        }
        self.slots = [
            (index, replica)
            for index, (node, number) in enumerate(self.gpus)
            if node.gpus[number].mode in _SHARED
            for replica in range(node.gpus[number].sharing[1])
        ]
        self.slot_index = {slot: row for row, slot in enumerate(self.slots)}
        self.profiles = tuple(dict.fromkeys(profile for _, _, profile in self.instances))
        self.running = tuple(self._running(job) for job in world.placed())

    def _flavors(self) -> list[str]:
        """Words for flavors: those of nodes, then those that only quotas and jobs name."""
        words = dict.fromkeys(node.model for node in self.nodes)
        for owner in [*self.world.tenants.values(), *self.world.cohorts.values()]:
            words.update(dict.fromkeys(quota[0] for quota in owner.quotas or ()))
        for job in self.world.jobs.values():
            words.update(dict.fromkeys(job.models))
        return list(words) or ["gpu"]

    def snapshot(self) -> Snapshot:
        """The world as arrays; usage of quota follows from what is held."""
        parts = self._parts()
        bare = Snapshot.of(**parts, running=self.running)
        usage = np.zeros((len(self.tenant_index), len(self.flavors)), dtype=np.int64)
        fleet = Fleet(bare)
        for job in self.running:
            for flavor, amount in charges(fleet, job, job.members).items():
                usage[job.tenant, flavor] += amount
        return replace(bare, quotas=self._quotas(usage))

    def _parts(self) -> dict[str, Any]:
        waiting = [job for job in self.world.jobs.values() if job.state == "waiting"]
        tenants = self.world.tenants.values()
        return {
            "taken_at": self.at,
            "resources": RESOURCES,
            "flavors": tuple(self.flavors),
            "profiles": self.profiles,
            "tenant_ids": tuple(range(len(self.tenant_index))),
            "tenant_names": tuple(self.tenant_index),
            "cohort_names": tuple(self.world.cohorts),
            "tenant_strict": [owner.strict for owner in tenants],
            "tenant_budget": [
                UNLIMITED if owner.budget is None else owner.budget for owner in tenants
            ],
            "tenant_history": [owner.used for owner in tenants],
            "pending": tuple(self._pending(job) for job in waiting),
            "holds": tuple(self._holds()),
            "blocks": tuple(self._blocks()),
            **self._node_arrays(),
            **self._levels(),
            **self._gpu_arrays(),
            **self._part_arrays(),
        }

    def _node_arrays(self) -> dict[str, Any]:
        nodes = self.nodes
        amounts = [(node.cpu_milli, node.memory_mib, node.nics) for node in nodes]
        limits = [[UNLIMITED if own is None else own for own in row] for row in amounts]
        capacity = np.array(limits, dtype=np.int64).reshape(len(nodes), len(RESOURCES))
        free, releasing = capacity.copy(), np.zeros_like(capacity)
        for job in self.running:
            leaving = set(job.members if job.stopping else job.stopping_members)
            for member in job.members:
                request = job.groups[member.group].request
                held = [request.cpu_milli, request.memory_mib, dict(request.extras).get("nics", 0)]
                free[member.node] -= held
                releasing[member.node] += held if member in leaving else [0, 0, 0]
        return {
            "node_ids": tuple(range(len(nodes))),
            "node_names": tuple(node.name for node in nodes),
            "capacity": capacity.T,
            "free": free.T,
            "releasing": releasing.T,
            "node_flavor": [self.flavor_index[node.model] for node in nodes],
            "node_open": [not node.closed for node in nodes],
            "node_dedicated": [
                UNKNOWN if node.dedicated is None else node.dedicated for node in nodes
            ],
            "node_closes_at": [NEVER if node.window is None else node.window for node in nodes],
            "node_gpudirect": [1 if node.gpudirect else UNKNOWN for node in nodes],
            "node_auto_layout": [node.auto_layout for node in nodes],
        }

    def _levels(self) -> dict[str, Any]:
        nodes = self.nodes
        words = [
            [node.name for node in nodes],
            [node.nvl or f"node:{node.name}" for node in nodes],
            [node.rack for node in nodes],
            [node.block for node in nodes],
            [node.fabric for node in nodes],
        ]
        names = [tuple(dict.fromkeys(row)) for row in words]
        rows = [[own.index(word) for word in row] for own, row in zip(names, words, strict=True)]
        oversub = [
            tuple(self.world.oversub.get((level, name), 0) for name in names[level])
            for level in Level
        ]
        return {
            "node_domain": rows,
            "domain_names": tuple(names),
            "domain_oversub_milli": tuple(oversub),
        }

    def _gpu_arrays(self) -> dict[str, Any]:
        milli = [WHOLE_MILLI] * len(self.gpus)
        memory = [node.memory_of_gpu for node, _ in self.gpus]
        for job in self.running:
            for member in job.members:
                request = job.groups[member.group].request
                part = request.kind == Access.FRACTION
                for gpu in member.gpus:
                    milli[gpu] -= request.gpu_milli if part else WHOLE_MILLI
                    memory[gpu] -= request.gpu_memory_mib
                for row in member.slots:
                    memory[self.slots[row][0]] -= request.gpu_memory_mib
        return {
            "gpu_ids": tuple(range(len(self.gpus))),
            "gpu_models": tuple(self.flavors),
            "gpu_node": [self.node_index[node.name] for node, _ in self.gpus],
            "gpu_index": [number for _, number in self.gpus],
            "gpu_model": [self.flavor_index[node.model] for node, _ in self.gpus],
            "gpu_memory_mib": [node.memory_of_gpu for node, _ in self.gpus],
            "gpu_free_memory_mib": memory,
            "gpu_free_milli": milli,
            "gpu_island": [_set_of(node.islands, number, 0) for node, number in self.gpus],
            "gpu_numa": [_set_of(node.numa, number, UNKNOWN) for node, number in self.gpus],
            "gpu_open": [not node.gpus[number].faulty for node, number in self.gpus],
            "gpu_mode": [node.gpus[number].mode for node, number in self.gpus],
            "gpu_many": [node.gpus[number].sharing[2] for node, number in self.gpus],
        }

    def _part_arrays(self) -> dict[str, Any]:
        """MIG instances and share slots."""
        members = [member for job in self.running for member in job.members]
        held_instances = {row for member in members for row in member.instances}
        held_slots = {row for member in members for row in member.slots}
        states = [node.gpus[number] for node, number in self.gpus]
        return {
            "mig_gpu": [gpu for gpu, _, _ in self.instances],
            "mig_profile": [self.profiles.index(profile) for _, _, profile in self.instances],
            "mig_start": [start for _, start, _ in self.instances],
            "mig_open": [
                start not in states[gpu].faulty_starts for gpu, start, _ in self.instances
            ],
            "mig_free": [row not in held_instances for row in range(len(self.instances))],
            "slot_gpu": [gpu for gpu, _ in self.slots],
            "slot_free": [row not in held_slots for row in range(len(self.slots))],
        }

    def _quotas(self, usage: Any) -> Quotas:
        tables = np.zeros((3, len(self.owners), len(self.flavors)), dtype=np.int64)
        tables[1:] = UNLIMITED
        for row, owner in enumerate(self.owners):
            for model, *limits in owner.quotas or ():
                tables[:, row, self.flavor_index[model]] = limits
        tenants = len(self.tenant_index)
        cohorts = {name: tenants + place for place, name in enumerate(self.world.cohorts)}
        return Quotas.of(
            tenants=tenants,
            cohorts=len(cohorts),
            flavors=len(self.flavors),
            parent=[cohorts.get(owner.cohort, UNKNOWN) for owner in self.owners],
            weight=[owner.weight for owner in self.owners],
            limited=[
                row >= tenants or owner.quotas is not None for row, owner in enumerate(self.owners)
            ],
            nominal=tables[0],
            borrowing_limit=tables[1],
            lending_limit=tables[2],
            usage=usage,
        )

    def _asked(self, job: Job) -> dict[str, Any]:
        """What a job asks for, waiting or running."""
        extras = (("nics", job.nics),) if job.nics else ()
        groups = tuple(
            replace(
                group,
                request=replace(
                    group.request,
                    cpu_milli=job.cpu_milli,
                    memory_mib=job.memory_mib,
                    extras=extras,
                ),
            )
            for group in job.groups
        )
        return {
            "id": job.id,
            "name": job.name,
            "tenant": self.tenant_index[job.tenant],
            "groups": groups,
            "priority": job.priority,
            "submitted_at": job.submitted,
            "walltime_seconds": job.walltime,
            "flavors": tuple(self.flavor_index[model] for model in job.models),
            "gpu_memory_mib": job.gpu_memory_mib,
            "min_total": job.min_total,
            "required": Level[job.required.upper()] if job.required else None,
            "preferred": Level[job.preferred.upper()] if job.preferred else None,
            "patience_seconds": job.patience,
            "island": job.island,
            "service_class": job.service_class,
            "preemptible": not job.fixed,
            "standby": job.standby,
            "preempted": job.preempted,
            "grace_seconds": job.grace,
        }

    def _pending(self, job: Job) -> PendingJob:
        return PendingJob(
            held=job.held,
            not_before=job.not_before,
            after=tuple(self._dependency(parent) for parent in job.after),
            gates=(job.gate,) if job.gate else (),
            **self._asked(job),
        )

    def _dependency(self, parent: tuple[str, bool]) -> Dependency:
        name, needs_success = parent
        job = self.world.jobs[name]
        state = _PARENT_STATES.get(job.state, ParentState.WAITING)
        return Dependency(job.id, needs_success, state, name)

    def _running(self, job: Job) -> RunningJob:
        return RunningJob(
            members=self.members(job.seats),
            started_at=job.started,
            limit_end_at=job.limit,
            expected_end_at=job.expected,
            checkpoint_at=job.checkpoint,
            stopping=job.state == "stopping",
            stopping_members=self.members(job.leaving),
            stopping_for=job.stopping_for,
            protected_until=job.protected,
            **self._asked(job),
        )

    def _holds(self) -> Iterable[HeldDevices]:
        for keep in self.world.keeps.values():
            job = self.world.jobs.get(keep.job)
            if job is not None and job.state == "waiting":
                yield HeldDevices(job.id, self.members(keep.seats), keep.until)

    def _blocks(self) -> Iterable[Block]:
        for block in self.world.blocks.values():
            amounts = tuple((self.node_index[node], count) for count, node in block.amounts)
            tenant = self.tenant_index[block.tenant] if block.tenant else None
            yield Block(block.name, amounts, block.start, block.end, tenant)

    def members(self, seats: Iterable[Seat]) -> tuple[PlacedMember, ...]:
        """Seats as the engine names them."""
        return tuple(self._member(seat) for seat in seats)

    def _member(self, seat: Seat) -> PlacedMember:
        return PlacedMember(
            seat.group,
            seat.rank,
            self.node_index[seat.node],
            tuple(self.gpu_index[seat.node, number] for number in seat.gpus),
            tuple(
                self.instance_index[self.gpu_index[seat.node, gpu], start]
                for gpu, start in seat.instances
            ),
            tuple(
                self.slot_index[self.gpu_index[seat.node, gpu], replica]
                for gpu, replica in seat.slots
            ),
        )

    def seats(self, members: Iterable[PlacedMember]) -> tuple[Seat, ...]:
        """Members of a plan as seats of the world."""
        return tuple(self._seat(member) for member in members)

    def _seat(self, member: PlacedMember) -> Seat:
        instances = [self.instances[row] for row in member.instances]
        slots = [self.slots[row] for row in member.slots]
        return Seat(
            member.group,
            member.rank,
            self.nodes[member.node].name,
            tuple(self.gpus[gpu][1] for gpu in member.gpus),
            tuple((self.gpus[gpu][1], start) for gpu, start, _ in instances),
            tuple((self.gpus[gpu][1], replica) for gpu, replica in slots),
        )


def _set_of(sets: tuple[tuple[int, ...], ...], number: int, default: int) -> int:
    """Which of the sets holds `number`; by itself if none does, `default` without any sets."""
    found = [index for index, own in enumerate(sets) if number in own]
    if found:
        return found[0]
    return len(sets) + number if sets and default != UNKNOWN else default


def node_of(world: World, name: str) -> Node:
    """The node with this name. Raises ValueError if there is none."""
    if name not in world.nodes:
        raise ValueError(f"there is no node {name!r}")
    return world.nodes[name]
