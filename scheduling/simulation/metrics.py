"""What a run of jobs came to: waits, completion times, slowdown, utilisation, fairness."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scheduling.simulation.pool import PoolJob

SHORT_JOB = 10
"""Seconds: slowdown is bounded as if no job ran for less."""
WIDE_JOB = 8
PERCENT = 100


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles by nearest rank, in seconds."""

    mean: float
    p50: int
    p90: int
    p99: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A job that ran."""

    job: PoolJob
    start: int

    @property
    def end(self) -> int:
        return self.start + self.job.runtime

    @property
    def wait(self) -> int:
        return self.start - self.job.submit

    @property
    def completion(self) -> int:
        return self.end - self.job.submit

    @property
    def slowdown(self) -> Fraction:
        """Completion time by run time, at least 1; short jobs count as `SHORT_JOB` seconds."""
        return max(Fraction(1), Fraction(self.completion, max(self.job.runtime, SHORT_JOB)))


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of one run. wide_wait: mean wait of jobs of `WIDE_JOB` GPUs and more."""

    jobs: int
    refused: int
    wait: Spread
    completion: Spread
    utilisation: float
    slowdown: float
    wide_wait: float
    jain: float
    wait_by_tenant: Mapping[str, float]


def measure(jobs: Sequence[PoolJob], starts: Sequence[int | None], gpus: int) -> Metrics:
    """Figures over the jobs that ran. Raises ValueError if none did."""
    ran = [
        Outcome(job, start) for job, start in zip(jobs, starts, strict=True) if start is not None
    ]
    if not ran:
        raise ValueError("no job ran")
    span = max(own.end for own in ran) - min(own.job.submit for own in ran)
    used = sum(own.job.gpus * own.job.runtime for own in ran)
    wide = [own.wait for own in ran if own.job.gpus >= WIDE_JOB]
    return Metrics(
        jobs=len(ran),
        refused=len(jobs) - len(ran),
        wait=spread([own.wait for own in ran]),
        completion=spread([own.completion for own in ran]),
        utilisation=used / (gpus * span) if span else 0.0,
        slowdown=mean([float(own.slowdown) for own in ran]),
        wide_wait=mean(wide),
        jain=jain_index(ran),
        wait_by_tenant=_wait_by_tenant(ran),
    )


def spread(values: Sequence[int]) -> Spread:
    """Mean and percentiles of at least one value."""
    ordered = sorted(values)
    return Spread(
        mean(ordered), percentile(ordered, 50), percentile(ordered, 90), percentile(ordered, 99)
    )


def percentile(ordered: Sequence[int], percent: int) -> int:
    """Nearest rank: element number ceil(p x n / 100), counted from 1, at least the first."""
    rank = max(1, -(-percent * len(ordered) // PERCENT))
    return ordered[rank - 1]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def jain_index(ran: Sequence[Outcome]) -> float:
    """How evenly tenants are served, up to 1: by the inverse of their mean bounded slowdown."""
    slowdowns: dict[str, list[Fraction]] = defaultdict(list)
    for own in ran:
        slowdowns[own.job.tenant].append(own.slowdown)
    served = [len(values) / float(sum(values)) for _, values in sorted(slowdowns.items())]
    return sum(served) ** 2 / (len(served) * sum(value**2 for value in served))


def _wait_by_tenant(ran: Sequence[Outcome]) -> dict[str, float]:
    waits: dict[str, list[int]] = defaultdict(list)
    for own in ran:
        waits[own.job.tenant].append(own.wait)
    return {tenant: mean(values) for tenant, values in sorted(waits.items())}


def fair_quotas(jobs: Sequence[PoolJob], gpus: int) -> dict[str, int]:
    """Whole GPUs of each tenant in proportion to its GPU-seconds, by largest remainder."""
    weights: dict[str, int] = defaultdict(int)
    for job in jobs:
        weights[job.tenant] += job.gpus * job.runtime
    total = sum(weights.values())
    quotas = {tenant: weight * gpus // total for tenant, weight in weights.items()}
    left = gpus - sum(quotas.values())
    by_remainder = sorted(weights, key=lambda own: (-(weights[own] * gpus % total), own))
    for tenant in by_remainder[:left]:
        quotas[tenant] += 1
    return quotas
