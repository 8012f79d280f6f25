"""What pages cost that nobody touches, and the map of a cluster of 4,096 GPUs."""

import statistics

from django.db import connection

from portal.core.warmth import settle
from scheduling.web import cluster, job, jobs, queue
from tests.bench.figures import Figure
from tests.bench.fill import Size, fill
from tests.bench.measuring import cpu_clock_with_database
from tests.bench.pages import signed_in

BUSY = Size(nodes=128, jobs=10_000, running=800, queued=1_000, tenants=20)
WIDE = Size(nodes=512, jobs=4_000, running=3_000, queued=500, tenants=20)
ROUNDS = 20
FRAGMENT = {"HX-Request": "true"}


def idle_tabs():
    """Fifty open pages of a researcher in which nothing changes, by CPU seconds a second."""
    filled = fill(BUSY)
    _prepare()
    client = signed_in(filled.people["researcher"])
    open_tabs = {
        f"/jobs/{filled.job.public_id}/": (20, job.LOOK_EVERY),
        "/jobs/?owner=me": (15, jobs.LOOK_EVERY),
        "/queue/": (10, queue.LOOK_EVERY),
        "/cluster/": (5, cluster.LOOK_EVERY),
    }
    cores = sum(
        tabs / every * _seconds(client, path, unchanged=True)
        for path, (tabs, every) in open_tabs.items()
    )
    yield Figure(
        bench="idle-tabs-50",
        name="cores",
        unit="cores",
        value=cores,
        n=ROUNDS,
        protocol="CPU of process and server for answers 304, times how often each page asks",
    )


def large_map():
    """The page of the map, one cell a node."""
    filled = fill(WIDE)
    _prepare()
    client = signed_in(filled.people["operator"])
    yield Figure(
        bench="map-4096",
        name="ms",
        unit="ms",
        value=_seconds(client, "/cluster/", unchanged=False) * 1_000,
        n=ROUNDS,
        protocol="CPU of process and server for the whole page, median",
    )


def _prepare():
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    settle()


def _seconds(client, path, *, unchanged):
    """CPU of one answer: of a fragment that has not changed, or of the whole page."""
    wanted, headers = (304, dict(FRAGMENT)) if unchanged else (200, {})
    times = []
    for _ in range(ROUNDS):
        began = cpu_clock_with_database()
        answer = client.get(path, headers=headers)
        spent = cpu_clock_with_database() - began
        if unchanged:
            headers["If-None-Match"] = answer["ETag"]
        if answer.status_code == wanted:  # else the first, or a minute that has begun
            times.append(spent)
    return statistics.median(times)
