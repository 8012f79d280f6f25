"""The knobs of a cycle, frozen. Durations are whole seconds; None: there is no such rule."""

from dataclasses import dataclass
from enum import StrEnum


class Order(StrEnum):
    """Who is looked at first."""

    FIFO = "fifo"
    FAIR = "fair"
    EXPANSION = "expansion"


class Packing(StrEnum):
    """Which of the nodes that could take a member does."""

    BEST_FIT = "best_fit"
    FGD = "fgd"
    MUSTER = "muster"


class EndEstimate(StrEnum):
    """Which end of a running job an estimate is made with."""

    LIMIT = "limit"
    PROGRESS = "progress"


class Consolidation(StrEnum):
    """Whether moves are proposed to an operator or made by the cycle."""

    PROPOSE = "propose"
    AUTOMATIC = "automatic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How one cluster is scheduled.

    reservations: blocked jobs per flavor that get a reservation; 1 is EASY backfill.
    strict: nothing goes ahead of an earlier waiting job of its flavor.
    max_preemptions: a job stopped so often is protected. min_run: nobody is stopped before.
    max_grace: the longest a job may take to save its work. hold_expiry: how long devices are kept.
    aging_walltime: in `expansion` a longer walltime, or none, counts as this; nobody ever starves
    behind short jobs of the same priority.
    checkpoint_interval, restart: what a stop is reckoned to cost where nothing better is known.
    history_weight: how much past use counts in `fair`, in thousandths. half_life: of that use.
    across: priority from which a job may stop lower ones of other tenants.
    """

    order: Order = Order.FAIR
    packing: Packing = Packing.BEST_FIT
    reservations: int = 1
    strict: bool = False
    end_estimate: EndEstimate = EndEstimate.LIMIT
    max_preemptions: int = 3
    min_run: int = 0
    max_grace: int = 600
    hold_expiry: int = 1800
    default_walltime: int | None = None
    aging_walltime: int = 1_209_600
    checkpoint_interval: int = 3600
    restart: int = 300
    history_weight: int = 0
    half_life: int = 604_800
    across: int | None = None
    consolidation: Consolidation = Consolidation.PROPOSE
