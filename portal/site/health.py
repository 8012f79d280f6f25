"""What machines ask of the portal: is it alive, can it work, how is it doing."""

from collections.abc import Callable, Iterator
from http import HTTPStatus

from celery import current_app
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from scheduling.reports.vitals import Vitals, vitals
from tenants.services.tokens import user_of_token

SCOPE = "metrics:read"
_PATIENCE = {"socket_connect_timeout": 1, "socket_timeout": 1}  # seconds
_LOOPBACK = frozenset({"127.0.0.1", "::1"})
_FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP")


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """Whether this process answers. It asks nobody else, so a sick database restarts no web."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Whether requests can be served here: each thing they need, by name."""
    found = {name: check() for name, check in CHECKS.items()}
    is_ready = set(found.values()) == {"ok"}
    status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return JsonResponse(found, status=status)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "away"
    return "ok"


def _broker() -> str:
    with current_app.connection_for_write() as broker:
        broker.transport_options = {**broker.transport_options, **_PATIENCE}
        try:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=1)
        except OperationalError:
            return "away"
    return "ok"


def _migrations() -> str:
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return "away"
    return "missing" if missing else "ok"


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "broker": _broker,
    "migrations": _migrations,
}


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus text, for a scraper on this machine or one with an operator's token."""
    if not _is_local(request) and not _is_operator(request):
        return HttpResponse(
            f"An operator's token with the scope {SCOPE} is needed.\n",
            content_type="text/plain",
            status=HTTPStatus.UNAUTHORIZED,
            headers={"WWW-Authenticate": "Bearer"},
        )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Gauges(vitals(wall=timezone.now())))
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _is_local(request: HttpRequest) -> bool:
    """Whether the request comes from this machine itself, not from a proxy that runs here."""
    is_forwarded = any(name in request.META for name in _FORWARDED)
    return request.META.get("REMOTE_ADDR") in _LOOPBACK and not is_forwarded


def _is_operator(request: HttpRequest) -> bool:
    scheme, _space, text = request.headers.get("Authorization", "").partition(" ")
    token = user_of_token(text.strip(), at=timezone.now()) if scheme.lower() == "bearer" else None
    return token is not None and token.user.is_operator and SCOPE in token.scopes


class _Gauges(Collector):
    """One answer's numbers, as Prometheus names them."""

    def __init__(self, clusters: list[Vitals]) -> None:
        self.clusters = clusters

    def collect(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily(
            "muster_jobs", "Jobs that have not ended.", labels=["cluster", "state"]
        )
        for cluster in self.clusters:
            for state, count in cluster.jobs.items():
                jobs.add_metric([cluster.cluster, state.value], count)
        yield jobs
        yield self._ages(
            "muster_cycle_age_seconds", "Since the last cycle.", lambda it: it.cycle_age_seconds
        )
        yield self._ages(
            "muster_cluster_seen_age_seconds",
            "Since the cluster last answered.",
            lambda it: it.seen_age_seconds,
        )

    def _ages(self, name: str, text: str, age: Callable[[Vitals], float | None]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["cluster"])
        for cluster in self.clusters:
            seconds = age(cluster)
            if seconds is not None:
                family.add_metric([cluster.cluster], seconds)
        return family
