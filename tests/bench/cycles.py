"""What a cycle costs: reading the cluster, and all of see, think, doubt and act."""

import time
from functools import partial

from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.core.db import consistent_read
from scheduling import cycle
from scheduling.engine.codec import encode
from scheduling.models import Job
from scheduling.snapshots import take_knowing
from scheduling.snapshots.known import Known
from scheduling.states import JobState
from tests.bench.figures import Figure, percentile
from tests.bench.fill import NOW, Size, fill, move_on
from tests.bench.measuring import PROTOCOL, ROUNDS, cpu_clock_with_database, cpu_seconds

LARGE = Size(nodes=1_000, jobs=5_000, running=2_000, queued=3_000, gpus=4)
LARGEST = Size(nodes=5_000, jobs=20_000, running=20_000, gpus=2)
BURST = Size(nodes=200, jobs=1_000, queued=1_000)


def snapshot_queries(filled):
    with CaptureQueriesContext(connection) as captured:
        take_knowing(Known(), filled.cluster, at=NOW)
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
    times = [_seconds(lambda: _take(filled, Known())) for _ in range(ROUNDS)]
    yield Figure(
        bench="snapshot",
        name="seconds",
        value=percentile(times, 50),
        n=len(times),
        of={"cluster": "1,000 nodes, 8,000 GPUs, 2,000 jobs running, 3,000 waiting"},
        protocol=f"median of {ROUNDS}, in a transaction of its own, knowing nothing",
    )


def large_snapshot():
    """The largest cluster: what a process pays that knows nothing of it, and one that does."""
    filled = fill(LARGEST)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as the server does by itself, a minute later
    known = Known()
    take_cold, take_warm = (lambda _: _take(filled, Known())), (lambda _: _take(filled, known))
    for name, work in (("seconds", take_cold), ("seconds-warm", take_warm)):
        yield Figure(
            bench="snapshot-5000",
            name=name,
            value=cpu_seconds(work, handed=partial(move_on, filled), clock=cpu_clock_with_database),
            n=ROUNDS,
            of={"cluster": "5,000 nodes, 40,000 GPUs, 20,000 jobs running"},
            protocol=f"{PROTOCOL}; with the database's; before each a job ended and another came",
        )
    assert encode(_take(filled, known)) == encode(_take(filled, Known()))


def _take(filled, known):
    with consistent_read():
        return take_knowing(known, filled.cluster, at=NOW)


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
