"""What does not change while one cycle goes on: nodes, devices, levels, and who may go where."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, Self

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray
from scheduling.engine.jobs import Access, JobSpec, Level, Request, ServiceClass
from scheduling.engine.snapshot import PARTS_PER_GPU, UNKNOWN, GpuMode, Snapshot
from topology.catalog.gpus import find_model
from topology.catalog.mig import profiles

SLICES_OF_A_BOARD: Final = 7
Amounts = tuple[tuple[int, int], ...]
Dearness = Callable[[Any, Request], IntArray]
"""From a ledger and what a member asks for."""


class Fleet:
    """The snapshot's nodes and devices with the look-ups that planning asks for again and again.

    Kinds of a node's room, the rows of a (K, N) array: its resources, whole GPUs, free instances of
    each MIG profile, share slots, and thousandths of shared GPUs.

    dearness: (N,) what a member's place on each node costs, where the policy packs by that.
    """

    dearness: Dearness | None

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.nodes = len(snapshot.node_ids)
        self.first_gpu = np.searchsorted(snapshot.gpu_node, np.arange(self.nodes + 1))
        self._first_gpu: list[int] = self.first_gpu.tolist()
        self.exclusive: BoolArray = snapshot.gpu_open & (snapshot.gpu_mode == GpuMode.EXCLUSIVE)
        self.hami: BoolArray = (
            snapshot.gpu_open & (snapshot.gpu_mode == GpuMode.HAMI) & (snapshot.gpu_memory_mib > 0)
        )
        resources, profile_count = len(snapshot.resources), len(snapshot.profiles)
        self.whole_row = resources
        self.slot_row = resources + 1 + profile_count
        self.milli_row = self.slot_row + 1
        self.kinds = self.milli_row + 1
        self.dearness = None
        self._vectors: dict[Request, IntArray | None] = {}
        self._amounts: dict[int, tuple[Request, Amounts | None]] = {}
        self._suitable: dict[tuple[tuple[int, ...], ServiceClass], BoolArray] = {}
        self._inside: dict[tuple[Level, Level], IntArray] = {}

    def on(self, snapshot: Snapshot) -> Self:
        """The same look-ups for another snapshot of the same hardware."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.snapshot = snapshot
        twin.dearness = None
        twin._vectors, twin._amounts = {}, {}
        return twin

    @cached_property
    def instances(self) -> BoolArray:
        """(I,) MIG instances that may be handed out as slices: healthy and not cut into shares."""
        snapshot = self.snapshot
        usable = snapshot.mig_open & snapshot.gpu_open[snapshot.mig_gpu]
        usable &= snapshot.gpu_mode[snapshot.mig_gpu] == GpuMode.MIG
        shared = snapshot.slot_instance[snapshot.slot_instance != UNKNOWN]
        usable[shared] = False
        return usable

    @cached_property
    def slots(self) -> BoolArray:
        """(S,) share slots that may be handed out: on healthy boards and instances."""
        snapshot = self.snapshot
        usable = snapshot.gpu_open[snapshot.slot_gpu]
        on_instance = snapshot.slot_instance != UNKNOWN
        usable[on_instance] &= snapshot.mig_open[snapshot.slot_instance[on_instance]]
        return usable

    @cached_property
    def instance_parts(self) -> IntArray:
        """(I,) what an instance costs in quota: its compute slices of the board's."""
        return np.array(
            [
                self._slice_parts(int(gpu), self.snapshot.profiles[int(profile)])
                for gpu, profile in zip(
                    self.snapshot.mig_gpu, self.snapshot.mig_profile, strict=True
                )
            ],
            dtype=np.int64,
        )

    @cached_property
    def slot_parts(self) -> IntArray:
        """(S,) what a replica costs in quota: its device's cost divided by the replicas."""
        snapshot = self.snapshot
        on_instance = snapshot.slot_instance != UNKNOWN
        device = np.where(on_instance, -1 - snapshot.slot_instance, snapshot.slot_gpu)
        _, own, counts = np.unique(device, return_inverse=True, return_counts=True)
        cost = np.full(len(device), PARTS_PER_GPU)
        cost[on_instance] = self.instance_parts[snapshot.slot_instance[on_instance]]
        parts: IntArray = cost // counts[own]
        return parts

    def _slice_parts(self, gpu: int, profile: str) -> int:
        model_index = int(self.snapshot.gpu_model[gpu])
        model = (
            None if model_index == UNKNOWN else find_model(self.snapshot.gpu_models[model_index])
        )
        if model and profile in profiles(model):
            return PARTS_PER_GPU * profiles(model)[profile].compute_slices // model.compute_slices
        return named_slice_parts(profile)

    @cached_property
    def island_of(self) -> IntArray:
        """(G,) index of each GPU's island among all islands of the cluster."""
        snapshot = self.snapshot
        width = int(snapshot.gpu_island.max(initial=0)) + 2
        _, own = np.unique(snapshot.gpu_node * width + snapshot.gpu_island, return_inverse=True)
        return np.asarray(own, dtype=np.int64)

    def gpus_of(self, node: int) -> range:
        """Indexes of the GPUs of one node."""
        return range(self._first_gpu[node], self._first_gpu[node + 1])

    def is_uniform(self, node: int) -> bool:
        """Whether all GPUs of a node are in one NVLink island and on one NUMA node."""
        return self._uniform[node]

    @cached_property
    def is_exclusive(self) -> list[bool]:
        """`exclusive` as a list, for those who look at a few GPUs."""
        flags: list[bool] = self.exclusive.tolist()
        return flags

    @cached_property
    def _uniform(self) -> list[bool]:
        snapshot = self.snapshot
        same_node = snapshot.gpu_node[1:] == snapshot.gpu_node[:-1]
        same_island = snapshot.gpu_island[1:] == snapshot.gpu_island[:-1]
        same_numa = snapshot.gpu_numa[1:] == snapshot.gpu_numa[:-1]
        uniform = np.ones(self.nodes, dtype=np.bool_)
        uniform[snapshot.gpu_node[1:][same_node & ~(same_island & same_numa)]] = False
        flags: list[bool] = uniform.tolist()
        return flags

    def per_node(self, gpus: BoolArray) -> IntArray:
        """How many of the marked GPUs each node has. gpus: (G,). Returns (N,)."""
        return np.bincount(self.snapshot.gpu_node[gpus], minlength=self.nodes)

    def sum_per_node(self, amounts: IntArray | BoolArray, node: IntArray) -> IntArray:
        """Sums of `amounts` by `node`. Returns (N,)."""
        return np.bincount(node, weights=amounts, minlength=self.nodes).astype(np.int64)

    def large_enough(self, job: JobSpec) -> BoolArray:
        """(G,) boards with the memory that `job` asks for."""
        return self.snapshot.gpu_memory_mib >= job.gpu_memory_mib

    def vector(self, request: Request) -> IntArray | None:
        """Node resources (R,) of one member; None if no node here can have what it names."""
        if request not in self._vectors:
            self._vectors[request] = self._vector(request)
        return self._vectors[request]

    def amounts(self, request: Request) -> Amounts | None:
        """(resource, units) of what one member needs any of; None if no node here can have it.

        Looked up by identity, which is quick; the request is kept, so that nothing takes its place.
        """
        known = self._amounts.get(id(request))
        if known is None:
            known = request, self._nonzero(self.vector(request))
            self._amounts[id(request)] = known
        return known[1]

    @staticmethod
    def _nonzero(vector: IntArray | None) -> Amounts | None:
        if vector is None:
            return None
        return tuple((row, amount) for row, amount in enumerate(vector.tolist()) if amount)

    def _vector(self, request: Request) -> IntArray | None:
        asked = {
            "cpu_milli": request.cpu_milli,
            "memory_mib": request.memory_mib,
            **dict(request.extras),
        }
        asked = {name: amount for name, amount in asked.items() if amount}
        if request.kind == Access.SLICE and request.profile not in self.snapshot.profiles:
            return None
        if not asked.keys() <= set(self.snapshot.resources):
            return None
        return np.array([asked.get(name, 0) for name in self.snapshot.resources], dtype=np.int64)

    def need(self, request: Request) -> IntArray:
        """(K,) what one member takes of each kind of room."""
        need = np.zeros(self.kinds, dtype=np.int64)
        vector = self.vector(request)
        if vector is not None:
            need[: len(vector)] = vector
        rows = {
            Access.WHOLE: self.whole_row,
            Access.SHARE: self.slot_row,
            Access.FRACTION: self.milli_row,
        }
        if request.kind == Access.SLICE and request.profile in self.snapshot.profiles:
            need[self.whole_row + 1 + self.snapshot.profiles.index(request.profile)] = request.count
        elif request.kind in rows:
            need[rows[request.kind]] = request.count or request.gpu_milli
        return need

    def suitable(self, flavors: tuple[int, ...], service: ServiceClass) -> BoolArray:
        """Nodes of the flavors (all, if none is named) kept for nobody else. Returns (N,)."""
        key = flavors, service
        if key not in self._suitable:
            dedicated = self.snapshot.node_dedicated
            suitable: BoolArray = dedicated == service
            if service != ServiceClass.LATENCY_CRITICAL:
                suitable |= dedicated == UNKNOWN
            if flavors:
                suitable &= np.isin(self.snapshot.node_flavor, flavors)
            suitable.flags.writeable = False
            self._suitable[key] = suitable
        return self._suitable[key]

    def domains(self, level: Level) -> IntArray:
        """Index of each node's domain at `level`. Returns (N,)."""
        domains: IntArray = self.snapshot.node_domain[level]
        return domains

    def domains_inside(self, level: Level, top: Level | None) -> IntArray:
        """As `domains`, where one that reaches into several domains of `top` is several. (N,)

        A rack may stand in two fabrics, and nodes that name no block share one.
        """
        if top is None or level >= top:
            return self.domains(level)
        if (level, top) not in self._inside:
            upper = self.domains(top)
            pairs = self.domains(level) * (int(upper.max(initial=0)) + 1) + upper
            _, own = np.unique(pairs, return_inverse=True)
            self._inside[level, top] = np.asarray(own, dtype=np.int64)
        return self._inside[level, top]

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels that tell nodes apart differently from the one below, and do so at all."""
        told: list[Level] = []
        for level in Level:
            domain = self.domains(level)
            same = told and np.array_equal(domain, self.domains(told[-1]))
            if not same:
                told.append(level)
        return tuple(told)


def named_slice_parts(profile: str) -> int:
    """What a slice costs by its name alone: the compute slices before its `g` of seven."""
    slices = profile.partition("g.")[0]
    compute = int(slices) if slices.isdecimal() else SLICES_OF_A_BOARD
    return PARTS_PER_GPU * min(compute, SLICES_OF_A_BOARD) // SLICES_OF_A_BOARD
