"""Every page and every REST door that answers a GET, walked from the URLconf, for each role."""

from itertools import product

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, get_resolver
from django.utils.regex_helper import normalize

from portal.core.warmth import settle
from tenants.services.invitations import path_of
from tests.bench.around import surround
from tests.bench.figures import Figure, percentile
from tests.bench.fill import Size, fill
from tests.bench.measuring import cpu_clock_with_database

SIZE = Size(nodes=1_000, jobs=10_000, running=4_000, queued=1_000, tenants=200)
ROLES = ("researcher", "lead", "operator")
ROUNDS = 20
ANSWERS = {200, 302}  # a notice leads on to what it is about
NOT_MEASURED = (
    "backoffice/",  # Django's own pages, for emergencies
    "sign-in/link/",  # a link that nobody made
)


def routes(patterns=None, before=("",)):
    """Every door, as a form for its parameters: jobs/%(public_id)s/; save those of others."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        forms = [form for form, _names in normalize(pattern.pattern.regex.pattern)]
        here = ["".join(parts) for parts in product(before, forms)]
        if not isinstance(pattern, URLPattern):
            yield from routes(pattern.url_patterns, here)
        else:
            yield from (form for form in here if not form.startswith(NOT_MEASURED))


def values(filled, around, role, route):
    """What to put in for the parameters of `route`, for a person of that role."""
    node = filled.cluster.nodes.earliest("name").name
    entry = around.window if "/windows/" in route else around.block
    person = filled.people[role]
    return {
        "public_id": filled.job.public_id,
        "slug": filled.tenants[0].slug,
        "username": around.member.username,
        "name": filled.tenants[0].slug if "/namespaces/" in route else node,
        "cluster": filled.cluster.slug,
        "number": around.request.pk,
        "request_id": around.request.public_id,
        "pk": filled.tenants[0].quotas.earliest("pk").pk,
        "entry": entry.pk,
        "priority": "high",
        "layout": around.layout.slug,
        "rollout": around.rollout.pk,
        "notification": person.notifications.earliest("pk").pk,
        "prefix": person.tokens.get().prefix,
        "view": person.job_views.get().pk,
        "array_id": around.array.public_id,
        "announcement": around.announcement.pk,
        "account": around.member.username,
        "error_code": "not-found",
        "secret": path_of(around.invitation).rstrip("/").rpartition("/")[2],
        "invited": around.invitation.pk,
        "webhook": around.webhook.pk,
        "hook": around.webhook.pk,
        "cohort": filled.tenants[0].cohort_id,
    }


def paths(filled, around, role):
    """The path of every route, with what a person of that role has."""
    return sorted({"/" + route % values(filled, around, role, route) for route in routes()})


def signed_in(person):
    client = Client()
    client.force_login(person)
    return client


def answering(filled, around, role):
    """(client, path) of every door that answers this role with something to read."""
    client = signed_in(filled.people[role])
    for path in paths(filled, around, role):
        if client.get(path).status_code in ANSWERS:
            yield client, path


def count_queries(client, path):
    with CaptureQueriesContext(connection) as captured:
        client.get(path)
    return len(captured)


def query_figures(filled, around):
    for role in ROLES:
        for client, path in answering(filled, around, role):
            yield Figure(
                bench="pages",
                name="queries",
                unit="queries",
                value=count_queries(client, path),
                of={"page": path, "role": role},
                protocol="the second answer to one session",
            )


def time_figures(filled, around, rounds=ROUNDS):
    for role in ROLES:
        for client, path in answering(filled, around, role):
            times = [_milliseconds(client, path) for _ in range(rounds)]
            yield Figure(
                bench="pages",
                name="p95_ms",
                unit="ms",
                n=rounds,
                value=percentile(times, 95),
                of={"page": path, "role": role},
                protocol=f"CPU of process and server for {rounds} answers, through all middleware",
            )


def _milliseconds(client, path):
    began = cpu_clock_with_database()
    client.get(path)
    return (cpu_clock_with_database() - began) * 1_000


def run():
    filled = fill(SIZE)
    around = surround(filled)
    _analyze()
    settle()  # as the web process has done before its first page
    yield from query_figures(filled, around)
    yield from time_figures(filled, around)


def _analyze():
    """As the server's own housekeeping would have done by then."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
