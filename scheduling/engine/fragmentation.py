"""What the usual mix of jobs could not use of the GPUs that are free.

For one shape of member a node wastes all that it has free if it cannot take such a member at all,
and otherwise what lies on GPUs too small for it. The mix weighs the shapes by how often they occur.
Placing members where waste grows least keeps most for those that come later.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduling.engine.arrays import IntArray
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import Access, JobSpec, Request
from scheduling.engine.ledger import WHOLE_MILLI, Ledger

COVERED_PERCENT: Final = 95


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """What fragmentation sees of a task; ordered by CPU, then milli, GPUs and models."""

    cpu_milli: int
    milli: int
    gpus: int
    models: tuple[str, ...]


def usual_mix(shapes: Iterable[Shape]) -> list[tuple[Shape, int]]:
    """The most frequent shapes that cover 95 of 100 members, with their counts."""
    counts = Counter(shapes)
    total, covered = sum(counts.values()), 0
    mix: list[tuple[Shape, int]] = []
    for shape, count in sorted(counts.items(), key=lambda own: (own[1], own[0]), reverse=True):
        if 100 * covered >= COVERED_PERCENT * total:
            break
        mix.append((shape, count))
        covered += count
    return mix


class Fragmentation:
    """W x F of nodes: free GPU milli that each shape of the mix could not use, by its count."""

    def __init__(self, mix: Sequence[tuple[Shape, int]], models: Sequence[str]) -> None:
        self.weight = sum(count for _, count in mix)
        self.shapes = len(mix)
        self._count = np.array([count for _, count in mix], dtype=np.int64)
        self._cpu = np.array([shape.cpu_milli for shape, _ in mix], dtype=np.int64)
        self._gpus = np.array([shape.gpus for shape, _ in mix], dtype=np.int64)
        self._milli = np.array([shape.milli for shape, _ in mix], dtype=np.int64)
        self._may = np.array(
            [[not shape.models or model in shape.models for shape, _ in mix] for model in models],
            dtype=np.bool_,
        )

    def of(self, model: int, cpu: IntArray, gpus: IntArray) -> IntArray:
        """(B,) W x F of B states of nodes of one model. cpu: (B,); gpus: (B, 8), 0 where none."""
        small = gpus[:, None, :] < self._milli[None, :, None]
        present = gpus.sum(axis=1)
        lost = np.where(small, gpus[:, None, :], 0).sum(axis=2)
        fits = (~small).sum(axis=2)
        useless = (
            (self._gpus == 0) | (cpu[:, None] < self._cpu) | ~self._may[model] | (fits < self._gpus)
        )
        wasted: IntArray = np.where(useless, present[:, None], lost) @ self._count
        return wasted


class Mix:
    """The shapes of the jobs that a snapshot knows, and what a placement would waste for them."""

    def __init__(self, fleet: Fleet, jobs: Iterable[JobSpec]) -> None:
        snapshot = fleet.snapshot
        self._flavor = snapshot.node_flavor
        self._waste = Fragmentation(
            usual_mix(_shapes(jobs, snapshot.flavors)), list(snapshot.flavors)
        )
        counts = np.diff(fleet.first_gpu)
        self._row = snapshot.gpu_node
        self._column = np.arange(len(snapshot.gpu_node)) - fleet.first_gpu[snapshot.gpu_node]
        self._size = fleet.nodes, int(counts.max(initial=0))

    def growth(self, ledger: Ledger, request: Request) -> IntArray:
        """(N,) by how much waste would grow if a node took one member, from 0 for the best."""
        gpus = np.zeros(self._size, dtype=np.int64)
        usable = ledger.fleet.exclusive | ledger.fleet.hami
        gpus[self._row, self._column] = np.where(usable, ledger.gpu_milli, 0)
        cpu = ledger.free[0].copy()
        before = self._of(cpu, gpus)
        after = self._of(cpu - request.cpu_milli, with_member(gpus, request))
        growth: IntArray = after - before
        return growth - int(growth.min(initial=0))

    def _of(self, cpu: IntArray, gpus: IntArray) -> IntArray:
        waste = np.zeros(len(cpu), dtype=np.int64)
        for flavor in np.unique(self._flavor):
            own = self._flavor == flavor
            waste[own] = self._waste.of(int(flavor), cpu[own], gpus[own])
        return waste


def with_member(gpus: IntArray, request: Request) -> IntArray:
    """(N, most) milli left once each node has one member more, where it fits."""
    left = gpus.copy()
    if request.kind == Access.FRACTION:
        fits = np.where(gpus >= request.gpu_milli, gpus, 2 * WHOLE_MILLI)
        chosen = fits.argmin(axis=1)
        rows = np.arange(len(gpus))
        taken = np.minimum(left[rows, chosen], request.gpu_milli)
        left[rows, chosen] -= taken
        return left
    whole = gpus == WHOLE_MILLI
    left[whole & (np.cumsum(whole, axis=1) <= request.count)] = 0
    return left


def _shapes(jobs: Iterable[JobSpec], flavors: Sequence[str]) -> Iterable[Shape]:
    for job in jobs:
        for group in job.groups:
            shape = shape_of(job, group.request, flavors)
            if shape is not None and shape.gpus:
                yield from [shape] * group.min_member


def shape_of(job: JobSpec, request: Request, flavors: Sequence[str]) -> Shape | None:
    """What a member looks like; None for MIG instances and shares, whose devices are their own."""
    names = tuple(flavors[flavor] for flavor in job.flavors)
    if request.kind == Access.WHOLE:
        return Shape(request.cpu_milli, WHOLE_MILLI, request.count, names)
    if request.kind == Access.FRACTION:
        return Shape(request.cpu_milli, request.gpu_milli, 1, names)
    if request.kind == Access.NONE:
        return Shape(request.cpu_milli, 0, 0, ())
    return None
