"""What pages cost that nobody touches, and the map of a cluster of 4,096 GPUs."""

import statistics
from types import MappingProxyType

from django.db import connection

from portal.core.warmth import settle
from scheduling.web import cluster, job, jobs, queue
from tests.bench.browser import drawing_seconds
from tests.bench.figures import Figure
from tests.bench.fill import Size, fill
from tests.bench.measuring import cpu_clock_with_database
from tests.bench.pages import signed_in

BUSY = Size(nodes=128, jobs=10_000, running=800, queued=1_000, tenants=20)
WIDE = Size(nodes=512, jobs=4_000, running=3_000, queued=500, tenants=20)
ROUNDS = 20
MINUTE = 60
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
    anew = sum(
        tabs / MINUTE * _seconds(client, path, unchanged=False, headers=FRAGMENT)
        for path, (tabs, _every) in open_tabs.items()
        if path != "/cluster/"  # which says of nothing how long ago it was
    )
    yield Figure(
        bench="idle-tabs-50",
        name="cores",
        unit="cores",
        value=cores,
        n=ROUNDS,
        protocol="CPU of process and server for answers 304, times how often each page asks",
    )
    yield Figure(
        bench="idle-tabs-50",
        name="cores-with-minutes",
        unit="cores",
        value=cores + anew,
        n=ROUNDS,
        protocol="the same, and CPU for the fragments that each page is sent anew every minute",
    )


def large_map():
    """The page of the map, one cell a node."""
    filled = fill(WIDE)
    _prepare()
    client = signed_in(filled.people["operator"])
    written = _seconds(client, "/cluster/", unchanged=False)
    yield Figure(
        bench="map-4096",
        name="ms",
        unit="ms",
        value=written * 1_000,
        n=ROUNDS,
        protocol="CPU of process and server for the whole page, median",
    )
    yield Figure(
        bench="map-4096",
        name="drawn_ms",
        unit="ms",
        value=(written + drawing_seconds(client, "/cluster/", ROUNDS)) * 1_000,
        n=ROUNDS,
        protocol="the same, and CPU of Chromium's process until the page is painted, median",
    )


def _prepare():
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    settle()


def _seconds(client, path, *, unchanged, headers=MappingProxyType({})):
    """CPU of one answer: of a fragment that has not changed, or of what `headers` ask for."""
    wanted, headers = (304, dict(FRAGMENT)) if unchanged else (200, dict(headers))
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
