"""What it costs to replay a year's jobs: on a pool, and with the cycle that plans in production."""

import os
from pathlib import Path

from scheduling.simulation.outcome import start_of
from scheduling.simulation.pool import run_pool
from scheduling.simulation.replay import Site, run_engine
from scheduling.simulation.streams import NAMED_POLICIES, read_stream
from scheduling.simulation.trace import KEEP_ALL, TraceFormat
from tests.bench.figures import Figure, NotRun
from tests.bench.measuring import least_cpu_seconds, timed

VARIABLE = "MUSTER_PHILLY"
USUAL = Path(__file__).parents[3] / "shared" / "traces" / "philly" / "philly_vc_jobs.csv.gz"
GPUS, ROUNDS = 512, 3
EASY = NAMED_POLICIES["easy"]


def jobs():
    """All jobs of the file that the environment names, or that lies beside the project."""
    file = Path(os.environ.get(VARIABLE, USUAL))
    if not file.is_file():
        raise NotRun(f"{VARIABLE} must name philly_vc_jobs.csv.gz: there is no {file}")
    return read_stream(file, TraceFormat.PHILLY, keep=KEEP_ALL).jobs


def easy():
    """EASY backfill of the whole trace, from the jobs as read to the last end, on both paths.

    Both must start every job at the same second, or there is no figure.
    """
    stream = jobs()
    of = {"stream": f"{len(stream):,} jobs on one pool of {GPUS} GPUs"}
    starts = [start_of(own) for own in run_pool(stream, GPUS, EASY)]
    yield Figure(
        bench="philly-full-easy",
        name="seconds",
        value=least_cpu_seconds(lambda: run_pool(stream, GPUS, EASY), ROUNDS),
        n=ROUNDS,
        of=of,
        protocol=f"CPU seconds on the pool's path, least of {ROUNDS} after a warm-up, one core",
    )
    outcomes, seconds = timed(lambda: run_engine(stream, Site(1, GPUS), EASY))
    if [start_of(own) for own in outcomes] != starts:
        raise AssertionError("the engine and the pool start jobs at different times")
    yield Figure(
        bench="philly-full-easy",
        name="engine-seconds",
        value=seconds,
        of=of,
        protocol="CPU seconds, a plan_cycle at every event while jobs wait, once, one core",
    )


BENCHES = {"philly-full-easy": easy}
