"""What all rounds share: a control plane with nodes, a bad line to it, a nursery, a broker."""

import itertools
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import psycopg
import pytest
import redis
from celery import Celery
from django.db import connection

from tenants.models import Role
from tests.factories import (
    ClusterFactory,
    FlavorFactory,
    MembershipFactory,
    QuotaFactory,
    TenantFactory,
)
from tests.kube.chaos.crew import Crew
from tests.kube.chaos.nursery import running_nursery
from tests.kube.chaos.rounds import NobodyDied, Round
from tests.kube.chaos.script import GPUS, NODES, script_of
from tests.kube.chaos.weather import Weather, running_line
from tests.kube.chaos.witness import ENDED, Witness
from tests.kube.real_stage import forget_classes
from topology.kube import names

POOL = {"key": names.POOL, "value": "gpu", "effect": "NoSchedule"}
PRODUCT = "NVIDIA-H100-80GB-HBM3"
LABELS = {names.GPU_PRODUCT: PRODUCT, names.GPU_MEMORY: "81559"}
NAMES = tuple(f"chaos-{number}" for number in range(NODES))

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Place:
    """A namespace of the control plane, as somebody sees and changes it who may do everything."""

    api: Any
    namespace: str

    def close(self, node, *, closed=True):
        code, said = self.api.patch(
            f"/api/v1/nodes/{node}", {"spec": {"unschedulable": closed}}, kind="merge"
        )
        assert code == 200, said

    def is_gated(self, path):
        """Whether the pod there still waits at a gate."""
        code, pod = self.api.ask("GET", path)
        return code == 200 and bool(pod["spec"].get("schedulingGates"))

    def open_all(self):
        for node in NAMES:
            self.close(node, closed=False)

    def left(self):
        """Names of what is there; a pod that has ended goes by its Job's."""
        home = f"/api/v1/namespaces/{self.namespace}"
        jobs = self.api.get(f"/apis/batch/v1/namespaces/{self.namespace}/jobs")["items"]
        found = {job["metadata"]["name"] for job in jobs}
        for pod in self.api.get(f"{home}/pods")["items"]:
            own, has_ended = pod["metadata"], pod["status"]["phase"] in ENDED
            found.add(own["labels"]["job-name"] if has_ended else own["name"])
        for service in self.api.get(f"{home}/services")["items"]:
            found.add(service["metadata"]["name"])
        return found

    def vanish(self):
        """Have all of it removed, which takes the cluster a while."""
        self.api.delete(f"/api/v1/namespaces/{self.namespace}")


class Broker:
    """The broker that the workers take from, as somebody outside of them sees it."""

    def __init__(self, url):
        self._server = redis.Redis.from_url(url)
        address = url.replace("unix://", "redis+socket://")
        self._app = Celery(broker=address, set_as_current=False)

    def post(self, name, arguments):
        self._app.send_task(name, kwargs=arguments)

    def is_idle(self):
        """Whether no message waits for a worker."""
        return not self._server.llen("celery")

    def empty(self):
        self._server.flushall()


@dataclass(frozen=True)
class Board:
    """Where rounds are played, one after the other."""

    api: Any
    line: Any
    nursery: Any
    kubeconfig: str
    broker: Any
    database: str
    log: Any

    def play(self, seed, sent):
        """One round; what it made goes with its namespace.

        Whether a step is come to at all depends on who is how fast: a round without it is played
        again, and fails if it never is.
        """
        for last in (False, False, True):
            self.broker.empty()
            sent.clear()
            self.log.write_text("")
            with ExitStack() as throughout:
                try:
                    self._round(script_of(seed), sent, throughout).play()
                except NobodyDied:
                    if last:
                        raise
                else:
                    return

    def _round(self, script, sent, throughout):
        label = f"round-{next(_numbers)}"
        cluster = ClusterFactory(slug=label, kubeconfig_path=self.kubeconfig, is_simulated=False)
        tenant = TenantFactory(slug=label)
        flavor = FlavorFactory(cluster=cluster, gpu_model=PRODUCT)
        QuotaFactory(tenant=tenant, flavor=flavor, nominal=NODES * GPUS)
        place = Place(self.api, f"muster-{label}")
        throughout.callback(place.open_all)
        throughout.callback(place.vanish)
        random = Random(script.seed)  # noqa: S311 - hides nothing
        self.line.weather = Weather(
            random, script.slow, script.fails, script.strays, script.watch_seconds
        )
        crew = Crew(self.nursery, label, script, self.log)
        throughout.callback(crew.end)
        return Round(
            script=script,
            cluster=cluster,
            tenant=tenant,
            person=MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user,
            crew=crew,
            weather=self.line.weather,
            witness=throughout.enter_context(self._witness(place)),
            place=place,
            broker=self.broker,
            sent=sent,
        )

    @contextmanager
    def _witness(self, place):
        since = self.api.get("/api/v1/pods")["metadata"]["resourceVersion"]
        with psycopg.connect(self.database, autocommit=True) as database:
            witness = Witness(self.api, place.namespace, database, since=since)
            witness.start()
            try:
                yield witness
            finally:
                witness.end()


@pytest.fixture(scope="module")
def board(control_plane, throwaway, database_url, redis_url, django_db_setup):
    """A control plane with its own nodes, a bad line to it, and a nursery."""
    log = throwaway / "nursery.log"
    server, _, socket = database_url.partition("?")
    database = f"{server.rpartition('/')[0]}/{connection.settings_dict['NAME']}?{socket}"
    with ExitStack() as throughout:
        control_plane.add_nodes(*NAMES, labels=LABELS, taints=[POOL])
        throughout.callback(control_plane.remove_nodes, *NAMES)
        throughout.callback(forget_classes, control_plane.api)
        line = throughout.enter_context(running_line(control_plane))
        kubeconfig = throwaway / "bad-line.kubeconfig"
        kubeconfig.write_text(line.kubeconfig(control_plane.tokens["admin"]))
        env = {
            "DATABASE_URL": database,
            "DJANGO_SETTINGS_MODULE": "portal.settings.test",
            "REDIS_URL": redis_url,
        }
        yield Board(
            api=control_plane.api,
            line=line,
            nursery=throughout.enter_context(running_nursery(log, env)),
            kubeconfig=str(kubeconfig),
            broker=Broker(redis_url),
            database=database,
            log=log,
        )
