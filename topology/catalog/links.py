"""How close the GPUs of a job are, as one number from 0 to 100: its topology quality.

quality = 100 x the weighted mean of four shares, each from 0 to 1, over those that apply and are
known:

    NVLink      50  pairs of its GPUs that NVLink joins, of all pairs
    network     25  1 divided by the worst oversubscription on the way between its nodes
    GPUDirect   15  nodes whose network cards reach GPU memory directly, of all its nodes
    NUMA        10  members whose GPUs hang on one NUMA node, of all members

A job on one node has no network share and no GPUDirect share. What nobody has told us is left out
and named as unknown, rather than taken for good or bad.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

WEIGHTS: Final = {"nvlink": 50, "network": 25, "gpudirect": 15, "numa": 10}


@dataclass(frozen=True, slots=True)
class Closeness:
    """The shares that make up the quality; None for what is unknown or does not apply."""

    nvlink: Fraction | None
    network: Fraction | None
    gpudirect: Fraction | None
    numa: Fraction | None


def quality(closeness: Closeness) -> int:
    """The topology quality from 0 to 100; 0 if nothing is known."""
    shares = {name: getattr(closeness, name) for name in WEIGHTS}
    known = {name: share for name, share in shares.items() if share is not None}
    total = sum(WEIGHTS[name] for name in known)
    if not total:
        return 0
    mean = sum(WEIGHTS[name] * share for name, share in known.items()) / total
    return int(mean * 100 + Fraction(1, 2))
