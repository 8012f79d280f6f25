"""What does not change while one cycle goes on: nodes, devices, levels, and who may go where."""

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray
from scheduling.engine.jobs import Access, Level, Request, ServiceClass
from scheduling.engine.snapshot import UNKNOWN, GpuMode, Snapshot

MODES = {
    Access.WHOLE: (GpuMode.EXCLUSIVE,),
    Access.SLICE: (GpuMode.MIG,),
    Access.SHARE: (GpuMode.TIME_SLICING, GpuMode.MPS, GpuMode.MIG),
    Access.FRACTION: (GpuMode.HAMI,),
}


class Fleet:
    """The snapshot's nodes and devices with the look-ups that planning asks for again and again."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.nodes = len(snapshot.node_ids)
        self.first_gpu = np.searchsorted(snapshot.gpu_node, np.arange(self.nodes + 1))
        self.exclusive = snapshot.gpu_open & (snapshot.gpu_mode == GpuMode.EXCLUSIVE)
        self._vectors: dict[Request, IntArray | None] = {}

    def gpus_of(self, node: int) -> range:
        """Indexes of the GPUs of one node."""
        return range(int(self.first_gpu[node]), int(self.first_gpu[node + 1]))

    def per_node(self, gpus: BoolArray) -> IntArray:
        """How many of the marked GPUs each node has. gpus: (G,). Returns (N,)."""
        return np.bincount(self.snapshot.gpu_node[gpus], minlength=self.nodes)

    def vector(self, request: Request) -> IntArray | None:
        """Node resources (R,) of one member; None if no node here can have what it names."""
        if request not in self._vectors:
            self._vectors[request] = self._vector(request)
        return self._vectors[request]

    def _vector(self, request: Request) -> IntArray | None:
        asked = {
            "cpu_milli": request.cpu_milli,
            "memory_mib": request.memory_mib,
            **dict(request.extras),
        }
        asked = {name: amount for name, amount in asked.items() if amount}
        if not asked.keys() <= set(self.snapshot.resources):
            return None
        return np.array([asked.get(name, 0) for name in self.snapshot.resources], dtype=np.int64)

    def suitable(self, flavors: tuple[int, ...], service: ServiceClass) -> BoolArray:
        """Nodes of the flavors (all, if none is named) kept for nobody else. Returns (N,)."""
        dedicated = self.snapshot.node_dedicated
        suitable: BoolArray = dedicated == service
        if service != ServiceClass.LATENCY_CRITICAL:
            suitable |= dedicated == UNKNOWN
        if flavors:
            suitable &= np.isin(self.snapshot.node_flavor, flavors)
        return suitable

    def domains(self, level: Level) -> IntArray:
        """Index of each node's domain at `level`. Returns (N,)."""
        domains: IntArray = self.snapshot.node_domain[level]
        return domains
