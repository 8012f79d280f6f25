"""What a run of jobs came to: waits, completion times, slowdown, use, fairness, work lost."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from scheduling.simulation.outcome import Outcome, StreamJob
from scheduling.simulation.sharing import Sharing, sharing

WIDE_JOB: Final = 8
PERCENT: Final = 100
SECONDS_PER_HOUR: Final = 3600

SIZE_CLASSES: Final[Mapping[str, int]] = {"1": 1, "2-7": 2, "8-31": 8, "32+": 32}
"""Name and least GPUs of each class of jobs, the widest last."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles by nearest rank."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class Figures:
    """How some jobs fared. Times in seconds.

    wait: what of the completion time is no run time. slowdown: bounded, by the run time.
    preemptions: stops of one job. lost_gpu_hours: by one job, of work that had to be done again.
    """

    jobs: int
    wait: Spread
    completion: Spread
    slowdown: Spread
    preemptions: Spread
    lost_gpu_hours: Spread


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of one run, of all jobs that ran and by class.

    utilisation: GPU time of run times by that of the pool from first submission to last end.
    stranded_gpu_hours: GPU time that was free while any job waited. wide_wait: mean wait of jobs
    of `WIDE_JOB` GPUs and more. total_...: of all jobs together. sharing: by tenant; empty for a
    single one.
    """

    refused: int
    all: Figures
    wide_wait: float
    utilisation: float
    stranded_gpu_hours: float
    jain: float
    total_preemptions: int
    total_lost_gpu_hours: float
    by_size: Mapping[str, Figures]
    by_tenant: Mapping[str, Figures]
    sharing: Mapping[str, Sharing]


def measure(outcomes: Sequence[Outcome | None], gpus: int) -> Metrics:
    """Figures over the jobs that ran, in order of submission. Raises ValueError if none did."""
    ran = [own for own in outcomes if own is not None]
    if not ran:
        raise ValueError("no job ran: none was in the window, or none fits")
    span = max(own.end for own in ran) - min(own.job.submit for own in ran)
    by_tenant = _grouped(ran, lambda own: own.job.tenant)
    return Metrics(
        refused=len(outcomes) - len(ran),
        all=figures(ran),
        wide_wait=mean([own.wait for own in ran if own.job.gpus >= WIDE_JOB]),
        utilisation=sum(own.job.gpus * own.job.runtime for own in ran) / (gpus * span),
        stranded_gpu_hours=stranded(ran, gpus) / SECONDS_PER_HOUR,
        jain=jain_index(list(by_tenant.values())),
        total_preemptions=sum(own.preemptions for own in ran),
        total_lost_gpu_hours=sum(own.lost for own in ran) / SECONDS_PER_HOUR,
        by_size={name: figures(own) for name, own in _by_size(ran).items()},
        by_tenant={name: figures(own) for name, own in by_tenant.items()},
        sharing=sharing(ran, gpus) if len(by_tenant) > 1 else {},
    )


def figures(ran: Sequence[Outcome]) -> Figures:
    """How these jobs fared; at least one."""
    return Figures(
        jobs=len(ran),
        wait=spread([own.wait for own in ran]),
        completion=spread([own.completion for own in ran]),
        slowdown=spread([own.slowdown for own in ran]),
        preemptions=spread([own.preemptions for own in ran]),
        lost_gpu_hours=spread([own.lost / SECONDS_PER_HOUR for own in ran]),
    )


def spread(values: Sequence[float]) -> Spread:
    """Mean and percentiles of at least one value."""
    ordered = sorted(values)
    return Spread(
        mean(ordered), percentile(ordered, 50), percentile(ordered, 90), percentile(ordered, 99)
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Nearest rank: element number ceil(p x n / 100), counted from 1, at least the first."""
    rank = max(1, -(-percent * len(ordered) // PERCENT))
    return ordered[rank - 1]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def jain_index(tenants: Sequence[Sequence[Outcome]]) -> float:
    """How evenly tenants are served, up to 1: by the inverse of their mean bounded slowdown."""
    served = [len(own) / sum(it.slowdown for it in own) for own in tenants]
    return sum(served) ** 2 / (len(served) * sum(value**2 for value in served))


def stranded(ran: Sequence[Outcome], gpus: int) -> int:
    """GPU-seconds free while at least one job waited, stopped ones included."""
    changes: list[tuple[int, int, int]] = []  # at, GPUs taken, jobs that begin to wait
    for own in ran:
        waits_from = own.job.submit
        for start, end in own.runs:
            changes += [(waits_from, 0, 1), (start, own.job.gpus, -1), (end, -own.job.gpus, 0)]
            waits_from = end
    total, free, waiting, since = 0, gpus, 0, 0
    for at, together in groupby(sorted(changes), key=lambda change: change[0]):
        total += free * (at - since) if waiting else 0
        since = at
        for _, taken, more in together:
            free -= taken
            waiting += more
    return total


def size_class(job: StreamJob) -> str:
    """The name of the class that `job` is in by its GPUs."""
    return max(
        (name for name, least in SIZE_CLASSES.items() if job.gpus >= least),
        key=lambda name: SIZE_CLASSES[name],
    )


def _by_size(ran: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    found = _grouped(ran, lambda own: size_class(own.job))
    return {name: found[name] for name in SIZE_CLASSES if name in found}


def _grouped(ran: Sequence[Outcome], key: Callable[[Outcome], str]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for own in ran:
        groups[key(own)].append(own)
    return {name: groups[name] for name in sorted(groups)}
