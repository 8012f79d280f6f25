"""Every page and every REST door that answers a GET, walked from the URLconf, for each role."""

import time

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver

from portal.core.warmth import settle
from tests.bench.figures import Figure, percentile
from tests.bench.fill import Size, fill

SIZE = Size(nodes=40, jobs=10_000, running=300, queued=1_000)
ROLES = ("researcher", "lead", "operator")
ROUNDS = 20
NOT_MEASURED = ("backoffice/",)  # Django's own pages, for emergencies


def routes(patterns=None, before=""):
    """(route, its parameters) of every door, save those of others."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = before + str(pattern.pattern)
        if route.startswith(NOT_MEASURED):
            continue
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route, pattern.pattern


def paths(filled):
    """The path of every route whose parameters we know what to put in for."""
    node = filled.cluster.nodes.order_by("name").first()
    known = {
        "public_id": filled.job.public_id,
        "id": filled.job.public_id,
        "slug": filled.tenants[0].slug,
        "tenant": filled.tenants[0].slug,
        "name": node.name,
        "cluster": filled.cluster.slug,
    }
    found = set()
    for route, pattern in routes():
        if set(pattern.converters) <= set(known) and "(?" not in route and "^" not in route:
            path = route
            for name, converter in pattern.converters.items():
                spelt = [f"<{kind}{name}>" for kind in ("", "str:", "slug:", "int:", "uuid:")]
                assert converter is not None
                for text in spelt:
                    path = path.replace(text, known[name])
            found.add("/" + path)
    return sorted(path for path in found if "<" not in path)


def signed_in(person):
    client = Client()
    client.force_login(person)
    return client


def answering(filled, role):
    """(client, path) of every door that answers this role with something to read."""
    client = signed_in(filled.people[role])
    for path in paths(filled):
        if client.get(path).status_code == 200:
            yield client, path


def count_queries(client, path):
    with CaptureQueriesContext(connection) as captured:
        client.get(path)
    return len(captured)


def query_figures(filled):
    for role in ROLES:
        for client, path in answering(filled, role):
            yield Figure(
                bench="pages",
                name="queries",
                unit="queries",
                value=count_queries(client, path),
                of={"page": path, "role": role},
                protocol="the second answer to one session",
            )


def time_figures(filled, rounds=ROUNDS):
    for role in ROLES:
        for client, path in answering(filled, role):
            times = [_milliseconds(client, path) for _ in range(rounds)]
            yield Figure(
                bench="pages",
                name="p95_ms",
                unit="ms",
                n=rounds,
                value=percentile(times, 95),
                of={"page": path, "role": role},
                protocol=f"{rounds} answers in one process, through all middleware, no network",
            )


def _milliseconds(client, path):
    began = time.perf_counter()
    client.get(path)
    return (time.perf_counter() - began) * 1_000


def run():
    filled = fill(SIZE)
    _analyze()
    settle()  # as the web process has done before its first page
    yield from query_figures(filled)
    yield from time_figures(filled)


def _analyze():
    """As the server's own housekeeping would have done by then."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
