"""What cycles of one cluster take over from each other, so that it is not worked out again."""

from typing import Any, Final

import numpy as np

from scheduling.engine.claims import Claims
from scheduling.engine.fleet import Fleet
from scheduling.engine.plan import Why
from scheduling.engine.snapshot import Snapshot

MOST_CLAIMS: Final = 20_000
"""With so many all are forgotten: those who asked for them may be long gone."""

_HARDWARE: Final = (
    *("resources", "flavors", "profiles", "gpu_models", "domain_oversub_milli"),
    *("capacity", "node_flavor", "node_domain", "node_dedicated", "node_gpudirect"),
    *("gpu_node", "gpu_index", "gpu_model", "gpu_memory_mib", "gpu_island", "gpu_numa"),
    *("gpu_open", "gpu_mode", "gpu_many", "mig_gpu", "mig_profile", "mig_start", "mig_open"),
    *("slot_gpu", "slot_instance"),
)
"""What of a snapshot stays the same while no machine comes, goes, breaks or is set up anew."""


class Memory:
    """Hands on what is known of the hardware, and what waiting jobs ask for of it.

    Everything is known by what it was made of, so a cycle with any memory, even of another cluster,
    makes the plan of a cycle with none. A memory serves one cycle at a time.

    unfit: by kind of demand, why no state of the hardware has room for it, None if one has.
    """

    fleet: Fleet
    claims: Claims
    unfit: dict[int, Why | None]

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None

    def turn_to(self, snapshot: Snapshot) -> None:
        """Get ready for a cycle on `snapshot`; what was made for other hardware is forgotten."""
        before, self._snapshot = self._snapshot, snapshot
        if before is None or not _is_same_hardware(before, snapshot):
            self.fleet = Fleet(snapshot)
        elif len(self.claims) <= MOST_CLAIMS:
            self.fleet = self.fleet.on(snapshot)
            return
        self.claims = Claims(self.fleet)
        self.unfit = {}


def _is_same_hardware(one: Snapshot, other: Snapshot) -> bool:
    return all(_is_same(getattr(one, name), getattr(other, name)) for name in _HARDWARE)


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)
