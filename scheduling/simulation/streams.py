"""A trace under a policy: which path runs it, and what is said of it afterwards."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from scheduling.engine.policy import Order, Policy
from scheduling.simulation.metrics import Metrics, Spread, measure
from scheduling.simulation.pool import PoolJob, PoolPolicy, run_pool
from scheduling.simulation.replay import Site, run_engine
from scheduling.simulation.trace import Keep, TraceFormat, in_steps_of, read_trace

USUAL_COMPRESSION: Final = {TraceFormat.KALOS: 4}
"""Kalos was recorded on a cluster too large for its jobs; squeezed, they contend."""

NAMED_POLICIES: Final[Mapping[str, Policy]] = {
    "fifo": Policy(order=Order.FIFO, strict=True),
    "firstfit": Policy(order=Order.FIFO, reservations=0),
    "easy": Policy(order=Order.FIFO, reservations=1),
    "fair": Policy(order=Order.FAIR),
    "expansion": Policy(order=Order.EXPANSION),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Jobs of a trace as they are submitted. keys: the trace's own ids, in the same order."""

    keys: tuple[str, ...]
    jobs: tuple[PoolJob, ...]
    bad_rows: int


@dataclass(frozen=True, slots=True)
class Result:
    """A stream that was run: when each job started, and the figures."""

    stream: Stream
    starts: tuple[int | None, ...]
    metrics: Metrics


def read_stream(
    path: Path, kind: TraceFormat, *, keep: Keep, compress: int | None = None, estimates: int = 1
) -> Stream:
    """The wanted jobs of a trace; estimates are so many times the run time.

    Raises TraceError for a file that cannot be read as such a trace.
    """
    trace = read_trace(path, kind, keep=keep)
    by = compress or USUAL_COMPRESSION.get(kind, 1)
    rows = [in_steps_of(job, by) for job in trace.jobs]
    jobs = tuple(
        PoolJob(
            job.submit_seconds,
            job.duration_seconds,
            job.gpus,
            job.duration_seconds * estimates,
            job.tenant,
        )
        for job in rows
    )
    return Stream(keys=tuple(job.key for job in rows), jobs=jobs, bad_rows=len(trace.bad))


def run_stream(stream: Stream, site: Site, name: str, changes: Mapping[str, Any]) -> Result:
    """Run the jobs under the policy of that name, with some of its knobs changed.

    The textbook policies on one node take the pool's path, which decides as the engine does.
    """
    gpus = site.nodes * site.gpus_per_node
    if site.nodes == 1 and name in set(PoolPolicy) and not changes:
        starts = run_pool(stream.jobs, gpus, PoolPolicy(name))
    else:
        policy = replace(NAMED_POLICIES[name], **changes)
        starts = run_engine(stream.jobs, site, policy)
    return Result(stream, tuple(starts), measure(stream.jobs, starts, gpus))


def start_rows(result: Result) -> Iterator[tuple[str, int, int | str, int | str]]:
    """(job, submit, start, end) of every job in order; blanks for one that was refused."""
    for key, job, start in zip(result.stream.keys, result.stream.jobs, result.starts, strict=True):
        end = "" if start is None else start + job.runtime
        yield key, job.submit, "" if start is None else start, end


def as_json(result: Result) -> str:
    """The figures as one JSON object with sorted keys."""
    figures = asdict(result.metrics) | {"bad_rows": result.stream.bad_rows}
    return json.dumps(figures, sort_keys=True)


def as_lines(result: Result) -> list[str]:
    """The figures for people."""
    figures = result.metrics
    by_tenant: Sequence[tuple[str, float]] = sorted(figures.wait_by_tenant.items())
    tenants = [f"wait of {name or 'all'}: mean {wait:.0f} s" for name, wait in by_tenant]
    return [
        f"jobs {figures.jobs}, refused {figures.refused}, bad rows {result.stream.bad_rows}",
        f"wait: {_spread_text(figures.wait)}",
        f"completion: {_spread_text(figures.completion)}",
        f"wait of jobs of 8 GPUs and more: mean {figures.wide_wait:.0f} s",
        f"utilisation {figures.utilisation:.4f}, bounded slowdown {figures.slowdown:.1f}",
        f"Jain's index {figures.jain:.4f}",
        *(tenants if len(tenants) > 1 else []),
    ]


def _spread_text(spread: Spread) -> str:
    return f"mean {spread.mean:.0f} s, p50 {spread.p50} s, p90 {spread.p90} s, p99 {spread.p99} s"
