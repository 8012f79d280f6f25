"""What a cycle costs: reading the cluster, and all of see, think, doubt and act."""

import time

from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.core.db import consistent_read
from scheduling import cycle
from scheduling.models import Job
from scheduling.snapshots import take
from scheduling.states import JobState
from tests.bench.figures import Figure, percentile
from tests.bench.fill import NOW, Size, fill

LARGE = Size(nodes=1_000, jobs=5_000, running=2_000, queued=3_000, gpus=4)
LARGEST = Size(nodes=5_000, jobs=20_000, running=20_000, gpus=2)
BURST = Size(nodes=200, jobs=1_000, queued=1_000)
ROUNDS = 5


def snapshot_queries(filled):
    with CaptureQueriesContext(connection) as captured:
        take(filled.cluster, at=NOW)
    return Figure(
        bench="snapshot",
        name="queries",
        value=len(captured),
        unit="queries",
        protocol="one take()",
    )


def snapshot():
    filled = fill(LARGE)
    yield snapshot_queries(filled)
    times = [_seconds(lambda: _take(filled.cluster)) for _ in range(ROUNDS)]
    yield Figure(
        bench="snapshot",
        name="seconds",
        value=percentile(times, 50),
        n=len(times),
        of={"cluster": "1,000 nodes, 8,000 GPUs, 2,000 jobs running, 3,000 waiting"},
        protocol=f"median of {ROUNDS}, in a transaction of its own",
    )


def large_snapshot():
    """The largest cluster: what one reading of the database costs, the first and a later one."""
    filled = fill(LARGEST)
    of = {"cluster": "5,000 nodes, 40,000 GPUs, 20,000 jobs running"}
    first = _seconds(lambda: _take(filled.cluster))
    later = [_seconds(lambda: _take(filled.cluster)) for _ in range(ROUNDS)]
    for name, value, n in (("seconds", first, 1), ("seconds-warm", percentile(later, 50), ROUNDS)):
        yield Figure(
            bench="snapshot-5000",
            name=name,
            value=value,
            n=n,
            of=of,
            protocol="in a transaction of its own; warm: the median of those after the first",
        )


def _take(cluster):
    with consistent_read():
        take(cluster, at=NOW)


def burst():
    filled = fill(BURST)
    seconds = _seconds(lambda: cycle.run(filled.cluster.pk, at=NOW))
    started = Job.objects.filter(state=JobState.STARTING).count()
    yield Figure(
        bench="cycle",
        name="burst_seconds",
        value=seconds,
        of={"cluster": f"200 nodes, 1,000 jobs of 1 GPU waiting; {started} started"},
        protocol="one cycle, from its first query to its last commit",
    )


def deep_queue():
    filled = fill(LARGE)
    cycle.run(filled.cluster.pk, at=NOW)
    times = [_seconds(lambda: cycle.run(filled.cluster.pk, at=NOW)) for _ in range(3)]
    yield Figure(
        bench="cycle",
        name="deep_queue_seconds",
        value=percentile(times, 50),
        n=len(times),
        of={"cluster": "1,000 nodes, all full, 3,000 jobs waiting"},
        protocol="median of 3 cycles after a first one",
    )


def _seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
