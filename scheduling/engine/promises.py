"""Places promised from a later instant on: to waiting jobs, and to people as blocks.

A job that starts now may use, per node and kind of room, the least that is free over its whole
walltime once promises are taken off from their start on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray


@dataclass(slots=True)
class Promise:
    """Room kept for one job or block over [start, end).

    amounts, spare: (K, N) of each kind of room: what is promised, and what everybody else may use
    at its start. tenant: of a block that only this tenant's jobs may use. owner: the job that it is
    promised to, None for a block. flavors: those that the owner is to be placed in.
    """

    owner: int | None
    name: str
    start: int
    end: int
    amounts: IntArray
    tenant: int | None = None
    flavors: tuple[int, ...] = ()
    spare: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))

    def is_active(self, instant: int) -> bool:
        return self.start <= instant < self.end


class Promises:
    """All promises of a cycle, in the order made."""

    def __init__(self) -> None:
        self.all: list[Promise] = []

    def add(self, promise: Promise, free_at_start: IntArray) -> None:
        """Add a promise. free_at_start: (K, N) free at its start if nothing were promised."""
        spare = free_at_start - promise.amounts
        for other in self.all:
            if other.is_active(promise.start):
                spare -= other.amounts
            if promise.is_active(other.start):
                other.spare = other.spare - promise.amounts
        promise.spare = spare
        self.all.append(promise)

    def take(self, amounts: IntArray, end: int, tenant: int) -> None:
        """A job of `tenant` takes `amounts` (K, N) from now until `end`, of its own block first."""
        for promise in self.all:
            if promise.start >= end:
                continue
            promise.spare = promise.spare - amounts
            if promise.tenant == tenant:
                own = np.minimum(promise.amounts, amounts)
                promise.amounts = promise.amounts - own
                promise.spare = promise.spare + own

    def give(self, amounts: IntArray, end: int) -> None:
        """Count `amounts` (K, N) until `end` as not taken yet: somebody will take them."""
        for promise in self.all:
            if promise.start < end:
                promise.spare = promise.spare + amounts

    def against(self, end: int, tenant: int) -> list[Promise]:
        """Those that a job of `tenant` that ends at `end` would still find waiting."""
        return [
            promise
            for promise in self.all
            if promise.start < end and (promise.tenant is None or promise.tenant != tenant)
        ]

    def within(self, end: int, tenant: int) -> IntArray | None:
        """(K, N) room that a job of `tenant` may use from now until `end`; None for all."""
        met = self.against(end, tenant)
        if not met:
            return None
        own = [other for other in self.all if other.tenant is not None and other.tenant == tenant]
        spares = [
            promise.spare + sum(other.amounts for other in own if other.is_active(promise.start))
            for promise in met
        ]
        least: IntArray = np.minimum.reduce(spares)
        return least

    def window(self, free: IntArray, start: int, end: int) -> IntArray | None:
        """(K, N) room over [start, end), of which `free` is free at `start`; None for all of it."""
        active = [promise for promise in self.all if promise.is_active(start)]
        later = [promise for promise in self.all if start < promise.start < end]
        if not active and not later:
            return None
        here = free - sum(promise.amounts for promise in active)
        least: IntArray = np.minimum.reduce([here, *(promise.spare for promise in later)])
        return least


def nodes_of(promises: Sequence[Promise], nodes: int) -> BoolArray:
    """(N,) nodes on which any of the promises has room."""
    marked = np.zeros(nodes, dtype=np.bool_)
    for promise in promises:
        marked |= promise.amounts.any(axis=0)
    return marked
