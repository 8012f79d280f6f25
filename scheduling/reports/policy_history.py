"""The policies that a cluster has had: who set each, when, why, and what it changed."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from scheduling.engine import policy as engine
from scheduling.engine.codec import from_plain, to_plain
from scheduling.models import Policy
from topology.models import Cluster


@dataclass(frozen=True, slots=True)
class KnobChange:
    """Values as the policy keeps them."""

    knob: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class PolicyStep:
    row: Policy
    changes: tuple[KnobChange, ...]


def policy_steps(
    cluster: Cluster, *, start: int, size: int, default: engine.Policy
) -> list[PolicyStep]:
    """`size` policies of the cluster from the one at `start`, newest first. One query.

    default: what held before the first.
    """
    rows = list(
        Policy.objects.filter(cluster=cluster)
        .select_related("by")
        .order_by("-number")[start : start + size + 1]
    )
    policies = [from_plain(row.values, engine.Policy) for row in rows]
    pairs = pairwise([*policies, default])
    return [
        PolicyStep(row, changes_between(before, policy))
        for row, (policy, before) in zip(rows, pairs, strict=True)
    ][:size]


def changes_between(before: engine.Policy, after: engine.Policy) -> tuple[KnobChange, ...]:
    """The knobs that differ, in the order of the policy."""
    old, new = to_plain(before), to_plain(after)
    return tuple(
        KnobChange(knob, value, new[knob]) for knob, value in old.items() if value != new[knob]
    )
