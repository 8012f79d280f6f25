"""One cluster at one instant, as arrays that cannot change: the only input of a cycle.

`Snapshot.of` is the way in. It takes the parts that there are, fills in the others, copies every
array and checks its shape, so that a mistake is found at the border:

    snapshot = Snapshot.of(
        taken_at=1_700_000_000,
        flavors=("A100",),
        node_ids=(11, 12),
        node_names=("n1", "n2"),
        gpu_ids=tuple(range(100, 116)),
        gpu_node=[0] * 8 + [1] * 8,              # sorted: the GPUs of a node stand together
        gpu_index=[*range(8)] * 2,               # the number of each on its node
        gpu_free_milli=[0] * 4 + [1000] * 12,    # four GPUs of n1 are in use
        capacity=[[96_000] * 2, [1 << 20] * 2],  # rows as in `resources`
        free=[[48_000, 96_000], [1 << 19, 1 << 20]],
        tenant_ids=(1,),
        tenant_names=("physics",),
        quotas=Quotas.of(tenants=1, flavors=1, limited=[True], nominal=[[8 * PARTS_PER_GPU]]),
        pending=(
            PendingJob(
                id=5,
                name="train",
                tenant=0,
                groups=(Group(request=Request(kind=Access.WHOLE, count=8, cpu_milli=8_000)),),
            ),
        ),
        running=(RunningJob(id=4, name="tune", ...),),
    )

Letters in shapes: N nodes, G GPUs, R node resources, L levels of closeness, F flavors, T tenants,
Q tenants and cohorts together (tenants first), I MIG instances, S share slots. A job, a hold or a
block names nodes, GPUs and tenants by their index here, and other jobs by id.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Self

import numpy as np

from scheduling.engine.arrays import (
    NEVER,
    UNLIMITED,
    BoolArray,
    IntArray,
    frozen,
    frozen_flags,
)
from scheduling.engine.jobs import Level, PendingJob, PlacedMember, RunningJob, ServiceClass

PARTS_PER_GPU: Final = 168_000
"""Quota is counted in these: a seventh, a 64th and a thousandth of a GPU are whole numbers."""

CPU_AND_MEMORY: Final = ("cpu_milli", "memory_mib")
UNKNOWN: Final = -1


class GpuMode(IntEnum):
    """How a GPU is shared, if it is."""

    EXCLUSIVE = 0
    MIG = 1
    TIME_SLICING = 2
    MPS = 3
    HAMI = 4


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """Devices and node resources kept for a waiting job until an instant."""

    job: int
    members: tuple[PlacedMember, ...]
    until: int


@dataclass(frozen=True, slots=True)
class Block:
    """Whole GPUs promised to people for a window. amounts: (node, GPUs). tenant: theirs, if any."""

    name: str
    amounts: tuple[tuple[int, int], ...]
    from_at: int
    to_at: int
    tenant: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quotas:
    """Who may use how much of which flavor, as a tree: rows are tenants, then cohorts.

    Amounts are in parts (`PARTS_PER_GPU`), per (row, flavor); UNLIMITED stands for no limit.
    parent: row of the cohort, UNKNOWN at a root. limited: False for a tenant without any limit.
    usage: of tenants, members that are stopping included.
    """

    parent: IntArray  # (Q,)
    weight: IntArray  # (Q,)
    limited: BoolArray  # (Q,)
    nominal: IntArray  # (Q, F)
    borrowing_limit: IntArray  # (Q, F)
    lending_limit: IntArray  # (Q, F)
    usage: IntArray  # (T, F)

    @classmethod
    def of(cls, *, tenants: int, flavors: int, cohorts: int = 0, **parts: Any) -> Self:
        """Quotas with `parts` as given and the others at their defaults: no limits, no cohorts."""
        rows = tenants + cohorts
        limited = np.arange(rows) >= tenants
        ints = {
            "parent": ((rows,), UNKNOWN),
            "weight": ((rows,), 1),
            "nominal": ((rows, flavors), 0),
            "borrowing_limit": ((rows, flavors), UNLIMITED),
            "lending_limit": ((rows, flavors), UNLIMITED),
            "usage": ((tenants, flavors), 0),
        }
        _refuse_unknown(parts, {*ints, "limited"})
        return cls(
            limited=frozen_flags(parts.get("limited", limited), (rows,), "limited"),
            **{
                name: frozen(parts.get(name, np.full(shape, default)), shape, name)
                for name, (shape, default) in ints.items()
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """One cluster at one instant; column i of every node array is node_ids[i].

    free: neither used by anybody nor by a job that is stopping; `releasing` is what those hold.
    Devices of `holds` are not taken off `free`: they are free for the job that they are kept for.
    """

    taken_at: int
    resources: tuple[str, ...]
    flavors: tuple[str, ...]
    profiles: tuple[str, ...]

    node_ids: tuple[int, ...]
    node_names: tuple[str, ...]
    capacity: IntArray  # (R, N)
    free: IntArray  # (R, N)
    releasing: IntArray  # (R, N)
    node_flavor: IntArray  # (N,)
    node_domain: IntArray  # (L, N) index of its domain at each Level
    domain_names: tuple[tuple[str, ...], ...]  # by Level
    domain_oversub_milli: tuple[tuple[int, ...], ...]  # by Level; 0 is unknown
    node_open: BoolArray  # (N,) may take new members
    node_dedicated: IntArray  # (N,) a ServiceClass or UNKNOWN for everybody
    node_closes_at: IntArray  # (N,) start of its next maintenance window, or NEVER
    node_gpudirect: IntArray  # (N,) 1 yes, 0 no, UNKNOWN
    node_auto_layout: BoolArray  # (N,) its idle GPUs may be given another MIG layout

    gpu_ids: tuple[int, ...]
    gpu_models: tuple[str, ...]
    gpu_node: IntArray  # (G,) never falling
    gpu_index: IntArray  # (G,) its number on its node
    gpu_model: IntArray  # (G,) index into gpu_models, or UNKNOWN
    gpu_memory_mib: IntArray  # (G,) 0 is unknown
    gpu_free_milli: IntArray  # (G,) 1000 is a whole free GPU
    gpu_free_memory_mib: IntArray  # (G,)
    gpu_island: IntArray  # (G,) NVLink island inside its node
    gpu_numa: IntArray  # (G,) or UNKNOWN
    gpu_open: BoolArray  # (G,) healthy and allowed
    gpu_mode: IntArray  # (G,) a GpuMode
    gpu_many: BoolArray  # (G,) one member may have several of its replicas

    mig_gpu: IntArray  # (I,)
    mig_profile: IntArray  # (I,) index into profiles
    mig_start: IntArray  # (I,)
    mig_open: BoolArray  # (I,)
    mig_free: BoolArray  # (I,)

    slot_gpu: IntArray  # (S,)
    slot_instance: IntArray  # (S,) row of the MIG instance, or UNKNOWN for the whole GPU
    slot_free: BoolArray  # (S,)

    tenant_ids: tuple[int, ...]
    tenant_names: tuple[str, ...]
    cohort_names: tuple[str, ...]
    tenant_strict: BoolArray  # (T,)
    tenant_budget: IntArray  # (T,) GPU-seconds left, or UNLIMITED
    tenant_history: IntArray  # (T,) decayed GPU-seconds
    quotas: Quotas

    pending: tuple[PendingJob, ...] = ()
    running: tuple[RunningJob, ...] = ()
    holds: tuple[HeldDevices, ...] = ()
    blocks: tuple[Block, ...] = ()

    @classmethod
    def of(cls, *, taken_at: int, **parts: Any) -> Self:
        """A snapshot with `parts` as given and the others at their defaults.

        Raises ValueError for an array of another shape, and TypeError for a part that is not known
        or not whole numbers.
        """
        _refuse_unknown(parts, {*_WORDS, *_NUMBERS, *_FLAGS, *_ROWS, "quotas"})
        sizes = _sizes(parts)
        values: dict[str, Any] = {name: tuple(parts.get(name, ())) for name in _ROWS}
        for name, default in _WORDS.items():
            values[name] = tuple(parts.get(name) or default)
        for name, (axes, _) in _NUMBERS.items():
            shape = tuple(sizes[axis] for axis in axes)
            values[name] = frozen(parts.get(name, _default(name, sizes)), shape, name)
        for name, (axis, flag) in _FLAGS.items():
            given = parts.get(name, np.full(sizes[axis], flag))
            values[name] = frozen_flags(given, (sizes[axis],), name)
        quotas = parts.get("quotas") or Quotas.of(tenants=sizes["T"], flavors=sizes["F"])
        made = cls(taken_at=taken_at, quotas=quotas, **values)
        made._check()
        return made

    def _check(self) -> None:
        if (np.diff(self.gpu_node) < 0).any():
            raise ValueError("gpu_node must never fall: the GPUs of a node stand together")
        if self.quotas.usage.shape != (len(self.tenant_ids), len(self.flavors)):
            raise ValueError("quotas are for other tenants or flavors than the snapshot")
        if len(self.node_names) != len(self.node_ids):
            raise ValueError("every node needs a name")
        if len(self.tenant_names) != len(self.tenant_ids):
            raise ValueError("every tenant needs a name")
        for name, (least, most) in self._limits().items():
            array = getattr(self, name)
            if array.size and not least <= array.min() <= array.max() <= most:
                raise ValueError(f"{name} must be from {least} to {most}")
        self._check_domains()
        self._check_parents()

    def _limits(self) -> dict[str, tuple[int, int]]:
        """The least and the most of the arrays of indexes and of enumerations."""
        return {
            "node_flavor": (0, len(self.flavors) - 1),
            "node_dedicated": (UNKNOWN, max(ServiceClass)),
            "gpu_node": (0, len(self.node_ids) - 1),
            "gpu_model": (UNKNOWN, len(self.gpu_models) - 1),
            "gpu_mode": (0, max(GpuMode)),
            "mig_gpu": (0, len(self.gpu_ids) - 1),
            "mig_profile": (0, len(self.profiles) - 1),
            "slot_gpu": (0, len(self.gpu_ids) - 1),
            "slot_instance": (UNKNOWN, len(self.mig_gpu) - 1),
        }

    def _check_domains(self) -> None:
        sizes = [len(names) for names in self.domain_names]
        if sizes != [len(own) for own in self.domain_oversub_milli] or len(sizes) != len(Level):
            raise ValueError("domain_names and domain_oversub_milli must be equally long by level")
        if not self.node_domain.size:
            return
        named = [size or NEVER for size in sizes]
        if self.node_domain.min() < 0 or (self.node_domain.max(axis=1) >= named).any():
            raise ValueError("node_domain must be indexes into domain_names")

    def _check_parents(self) -> None:
        """Rows of cohorts, and no row below itself: every way up ends, halved at each step."""
        parent, tenants = self.quotas.parent, len(self.tenant_ids)
        below = parent != UNKNOWN
        if (parent[below] < tenants).any() or (parent >= len(parent)).any():
            raise ValueError(
                f"quotas.parent must be the row of a cohort, from {tenants} to {len(parent) - 1},"
                f" or {UNKNOWN}"
            )
        above = parent
        for _ in range(len(parent).bit_length()):
            above = np.where(above == UNKNOWN, UNKNOWN, above[above])
        if (above != UNKNOWN).any():
            raise ValueError("quotas.parent must not lead round in a cycle")


_WORDS: Final[Mapping[str, tuple[Any, ...]]] = {
    "resources": CPU_AND_MEMORY,
    "flavors": ("gpu",),
    "profiles": (),
    "node_ids": (),
    "node_names": (),
    "domain_names": ((),) * len(Level),
    "domain_oversub_milli": ((),) * len(Level),
    "gpu_ids": (),
    "gpu_models": (),
    "tenant_ids": (),
    "tenant_names": (),
    "cohort_names": (),
}
_NUMBERS: Final[Mapping[str, tuple[str, int | None]]] = {
    "capacity": ("RN", UNLIMITED),
    "free": ("RN", UNLIMITED),
    "releasing": ("RN", 0),
    "node_flavor": ("N", 0),
    "node_domain": ("LN", None),
    "node_dedicated": ("N", UNKNOWN),
    "node_closes_at": ("N", NEVER),
    "node_gpudirect": ("N", UNKNOWN),
    "gpu_node": ("G", 0),
    "gpu_index": ("G", None),
    "gpu_model": ("G", UNKNOWN),
    "gpu_memory_mib": ("G", 0),
    "gpu_free_milli": ("G", 1000),
    "gpu_free_memory_mib": ("G", 0),
    "gpu_island": ("G", 0),
    "gpu_numa": ("G", UNKNOWN),
    "gpu_mode": ("G", GpuMode.EXCLUSIVE),
    "mig_gpu": ("I", 0),
    "mig_profile": ("I", 0),
    "mig_start": ("I", 0),
    "slot_gpu": ("S", 0),
    "slot_instance": ("S", UNKNOWN),
    "tenant_budget": ("T", UNLIMITED),
    "tenant_history": ("T", 0),
}
_FLAGS: Final[Mapping[str, tuple[str, bool]]] = {
    "node_open": ("N", True),
    "node_auto_layout": ("N", False),
    "gpu_open": ("G", True),
    "gpu_many": ("G", False),
    "mig_open": ("I", True),
    "mig_free": ("I", True),
    "slot_free": ("S", True),
    "tenant_strict": ("T", False),
}
_ROWS: Final = ("pending", "running", "holds", "blocks")


def _sizes(parts: Mapping[str, Any]) -> dict[str, int]:
    """How long each axis is, from the parts that define it."""

    def length(name: str) -> int:
        return len(parts.get(name, ()))

    return {
        "N": length("node_ids"),
        "G": length("gpu_ids"),
        "R": len(parts.get("resources", CPU_AND_MEMORY)),
        "L": len(Level),
        "F": max(1, length("flavors")),
        "T": length("tenant_ids"),
        "I": length("mig_gpu"),
        "S": length("slot_gpu"),
    }


def _default(name: str, sizes: Mapping[str, int]) -> IntArray:
    """What an array is where nobody says: one domain above the node, GPUs numbered on."""
    if name == "node_domain":
        nodes = np.arange(sizes["N"])
        return np.stack([nodes, nodes, *[np.zeros_like(nodes)] * (sizes["L"] - 2)])
    if name == "gpu_index":
        return np.arange(sizes["G"])
    shape, value = _NUMBERS[name]
    return np.full(tuple(sizes[size] for size in shape), value, dtype=np.int64)


def _refuse_unknown(parts: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(parts) - known)
    if unknown:
        raise TypeError(f"a snapshot has no {', '.join(unknown)}")
