"""A trace under a policy: which path runs it, and what is said of it afterwards."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from scheduling.engine.policy import Order, Policy
from scheduling.simulation.metrics import Figures, Metrics, Spread, measure
from scheduling.simulation.outcome import Outcome, StreamJob, Watch
from scheduling.simulation.pool import can_run, run_pool
from scheduling.simulation.replay import Site, run_engine
from scheduling.simulation.sharing import fair_quotas
from scheduling.simulation.trace import (
    Keep,
    TraceError,
    TraceFormat,
    TraceJob,
    in_steps_of,
    read_trace,
)

USUAL_COMPRESSION: Final = {TraceFormat.KALOS: 4}
"""Kalos was recorded on a cluster too large for its jobs; squeezed, they contend."""

NAMED_POLICIES: Final[Mapping[str, Policy]] = {
    "fifo": Policy(order=Order.FIFO, strict=True),
    "firstfit": Policy(order=Order.FIFO, reservations=0),
    "easy": Policy(order=Order.FIFO, reservations=1),
    "fair": Policy(order=Order.FAIR),
    "expansion": Policy(order=Order.EXPANSION),
}

ROUND_LIMITS: Final = (600, 3600, 14_400, 86_400, 259_200, 604_800, 1_209_600, 2_592_000, 7_776_000)
"""Walltimes that people write down: ten minutes, an hour, four, 1, 3, 7, 14, 30 and 90 days."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """What users say their jobs take: `factor` times the run time, or the next round limit."""

    factor: int = 1
    is_round: bool = False

    def of(self, runtime: int) -> int:
        if not self.is_round:
            return self.factor * runtime
        return next((limit for limit in ROUND_LIMITS if limit >= runtime), runtime)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Jobs of a trace as they are submitted. keys: the trace's own ids, in the same order."""

    keys: tuple[str, ...]
    jobs: tuple[StreamJob, ...]
    bad_rows: int


@dataclass(frozen=True, slots=True)
class Result:
    """A stream that was run: what became of each job, and the figures."""

    stream: Stream
    outcomes: tuple[Outcome | None, ...]
    metrics: Metrics


def read_stream(
    path: Path,
    kind: TraceFormat,
    *,
    keep: Keep,
    compress: int | None = None,
    estimates: Estimates = Estimates(),
) -> Stream:
    """The wanted jobs of a trace, in order of submission.

    Raises TraceError for a file that cannot be read as such a trace, or without a wanted job.
    """
    trace = read_trace(path, kind, keep=keep)
    by = compress or USUAL_COMPRESSION.get(kind, 1)
    rows = [in_steps_of(job, by) for job in trace.jobs]
    if not rows:
        raise TraceError(f"{path} has no job in that window, {len(trace.bad)} bad rows")
    return Stream(
        keys=tuple(job.key for job in rows),
        jobs=tuple(_asked(job, estimates) for job in rows),
        bad_rows=len(trace.bad),
    )


def _asked(job: TraceJob, estimates: Estimates) -> StreamJob:
    return StreamJob(
        job.submit_seconds,
        job.duration_seconds,
        job.gpus,
        estimates.of(job.duration_seconds),
        job.tenant,
    )


def with_fair_quotas(site: Site, stream: Stream) -> Site:
    """The site with a quota for each tenant, by the GPU time that its jobs ask for."""
    fitting = [job for job in stream.jobs if job.gpus <= site.gpus]
    return replace(site, quotas=fair_quotas(fitting, site.gpus))


def run_stream(
    stream: Stream,
    site: Site,
    policy: Policy,
    *,
    by_engine: bool = False,
    watch: Watch | None = None,
) -> Result:
    """Run the jobs under a policy.

    What the pool can decide is spared the engine, to the same end; by_engine: plan every cycle.
    """
    if not by_engine and site.nodes == 1 and site.quotas is None and can_run(policy):
        outcomes = run_pool(stream.jobs, site.gpus, policy, watch=watch)
    else:
        outcomes = run_engine(stream.jobs, site, policy, spare=not by_engine, watch=watch)
    return Result(stream, tuple(outcomes), measure(outcomes, site.gpus))


def start_rows(result: Result) -> Iterator[tuple[str, int, int | str, int | str]]:
    """(job, submit, start, end) of every job in order; blanks for one that was refused."""
    for key, job, own in zip(result.stream.keys, result.stream.jobs, result.outcomes, strict=True):
        yield key, job.submit, "" if own is None else own.start, "" if own is None else own.end


def as_json(result: Result) -> str:
    """The figures as one JSON object with sorted keys; those of all jobs stand on top."""
    plain = asdict(result.metrics)
    plain |= plain.pop("all")
    worse_off = [name for name, own in result.metrics.sharing.items() if own.is_worse_off]
    plain |= {"worse_off": worse_off, "bad_rows": result.stream.bad_rows}
    return json.dumps(plain, sort_keys=True)


def as_lines(result: Result) -> list[str]:
    """The figures for people."""
    metrics = result.metrics
    own = metrics.all
    return [
        f"jobs {own.jobs}, refused {metrics.refused}, bad rows {result.stream.bad_rows}",
        f"wait: {_spread_text(own.wait, ' s')}",
        f"completion: {_spread_text(own.completion, ' s')}",
        f"bounded slowdown: {_spread_text(own.slowdown, '', digits=1)}",
        f"wait of jobs of 8 GPUs and more: mean {metrics.wide_wait:.0f} s",
        f"utilisation: {metrics.utilisation:.4f}",
        f"free while jobs waited: {metrics.stranded_gpu_hours:.0f} GPU-hours",
        f"preemptions: {metrics.total_preemptions}",
        f"work lost: {metrics.total_lost_gpu_hours:.0f} GPU-hours",
        *_class_lines("GPUs", metrics.by_size),
        *_tenant_lines(metrics),
    ]


def _class_lines(what: str, classes: Mapping[str, Figures]) -> Sequence[str]:
    return [
        f"{what} {name}: {own.jobs} jobs, wait {_spread_text(own.wait, ' s')}"
        for name, own in classes.items()
    ]


def _tenant_lines(metrics: Metrics) -> Iterator[str]:
    if len(metrics.by_tenant) == 1:
        return
    yield f"Jain's index over tenants {metrics.jain:.4f}"
    yield from _class_lines("tenant", metrics.by_tenant)
    for name, own in metrics.sharing.items():
        if own.is_worse_off:
            yield (
                f"tenant {name} is worse off than alone on {own.quota} GPUs:"
                f" mean wait {own.shared_wait:.0f} s instead of {own.alone_wait:.0f} s"
            )


def _spread_text(spread: Spread, unit: str, *, digits: int = 0) -> str:
    parts = {"mean": spread.mean, "p50": spread.p50, "p90": spread.p90, "p99": spread.p99}
    return ", ".join(f"{name} {value:.{digits}f}{unit}" for name, value in parts.items())
