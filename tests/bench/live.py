"""Starts carried out on a real control plane, whose kubelets are simulated; by the wall clock.

The control plane, the workers and the database share the machine, as they do on nobody's cluster:
what is asked for holds for 2 cores that do nothing else.
"""

import multiprocessing
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path

from django.db import connections

from scheduling import cycle
from scheduling.models import Job
from scheduling.services import binding
from scheduling.services.binding_together import bind_together
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.starts import TOGETHER
from scheduling.services.submission import submit_job
from tenants.models import Role
from tests.bench.figures import Figure, NotRun
from tests.factories import ClusterFactory, MembershipFactory, QuotaFactory, TenantFactory
from tests.kube.controlplane import build, kubelets
from tests.kube.controlplane.running import ControlPlane, running_control_plane
from tests.kube.polling import eventually
from topology.kube import live, manifest, names
from topology.kube.values import GangSpec
from topology.kube.wire import Request
from topology.models import Cluster, ResourceFlavor
from topology.services.inventory import observe_node

NODES, SINGLES = 512, 1000
WORKERS = 2  # processes, as a worker has where nobody says otherwise
PATIENCE = 240.0
LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
PROTOCOL = (
    "wall clock; etcd, API server, controllers, scheduler, KWOK, PostgreSQL, and all of Muster on"
    " this machine"
)
WAITS = {kubelets.DOES: "waits"}


@dataclass
class Pods:
    """When each pod was first seen, when its gate was gone and when it had a node; by name."""

    plane: ControlPlane
    seen: dict[str, float] = field(default_factory=dict)
    open: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    is_over: threading.Event = field(default_factory=threading.Event)

    def follow(self) -> None:
        """Note what happens until the control plane ends.

        The server ends a watch that cannot keep up; the next one begins with all there is.
        """
        while not self.is_over.is_set():
            with suppress(OSError, HTTPException, KeyError, ValueError):
                events = self.plane.api.follow(
                    "/api/v1/pods", seconds=1800, labelSelector=names.JOB
                )
                for event in events:
                    self._note(event["object"], time.monotonic())

    def _note(self, pod, now: float) -> None:
        name, spec = pod["metadata"]["name"], pod["spec"]
        self.seen.setdefault(name, now)
        if not manifest.gates_of(pod):
            self.open.setdefault(name, now)
        if spec.get("nodeName"):
            self.bound.setdefault(name, now)


@dataclass
class Site:
    plane: ControlPlane
    pods: Pods
    cluster: Cluster
    person: object

    @property
    def tenant(self):
        return self.person.memberships.get().tenant

    def submit(self, members: int, gpus: int) -> Job:
        request = JobRequest(
            name="bench",
            cluster=self.cluster,
            groups=(GroupRequest(members=members, gpus_per_member=gpus),),
            annotations=WAITS,
        )
        return submit_job(request, tenant=self.tenant, by=self.person, at=datetime.now(UTC))

    def plan(self) -> None:
        cycle.run(self.cluster.pk, at=datetime.now(UTC))

    def gateway(self) -> live.LiveGateway:
        return live.connect(self.cluster.kubeconfig_path)

    def until_bound(self, count: int) -> list[float]:
        """When each of so many pods was bound, the earliest first."""
        eventually(lambda: len(self.pods.bound) >= count, within=PATIENCE)
        return sorted(self.pods.bound.values())


@contextmanager
def site() -> Iterator[Site]:
    """A control plane of 512 nodes of 8 GPUs, known to us, and a tenant that may use them all."""
    try:
        programs = build.ensure_built(print)
    except build.CannotBuild as reason:
        raise NotRun(str(reason)) from reason
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-plane-"))
    try:
        with running_control_plane(folder, programs) as plane:
            plane.add_nodes(*(f"h100-{number:03}" for number in range(NODES)), labels=LABELS)
            pods = Pods(plane)
            threading.Thread(target=pods.follow, daemon=True).start()
            yield _site(plane, pods)
            pods.is_over.set()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _site(plane: ControlPlane, pods: Pods) -> Site:
    cluster = ClusterFactory(kubeconfig_path=str(plane.kubeconfig()), is_simulated=False)
    for node in live.connect(cluster.kubeconfig_path).nodes():
        observe_node(cluster, node, at=datetime.now(UTC))
    tenant = TenantFactory()
    for flavor in ResourceFlavor.objects.all():
        QuotaFactory(tenant=tenant, flavor=flavor, nominal=8 * NODES)
    return Site(plane, pods, cluster, MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user)


@dataclass(frozen=True, slots=True)
class Rate:
    """cpu: seconds of it, of all that took part."""

    per_second: float
    cpu: float


def cpu_of_all() -> float:
    """Seconds of CPU of this process and of all that it has started, the control plane's too.

    Beside other work the wall clock says little, and this what a quiet machine would take.
    """
    ticks, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    while further := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= further
    return sum(ticks.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def gang():
    """A gang of 512 members of 8 GPUs, from the decision to its last pod on its node."""
    with site() as there:
        job = there.submit(NODES, 8)
        there.plan()
        decided, busy = time.monotonic(), cpu_of_all()
        is_open = binding.bind(job.pk, 1, there.gateway(), at=datetime.now(UTC))
        while not is_open:
            is_open = binding.bind(job.pk, 1, there.gateway(), at=datetime.now(UTC))
        bound = there.until_bound(NODES)
        busy = cpu_of_all() - busy
        opened, seen = max(there.pods.open.values()), max(there.pods.seen.values())
    of = {"cpu": f"{busy:.1f} s of CPU"}
    said = {"bench": "gang-512-bound", "n": NODES, "of": of, "protocol": PROTOCOL}
    yield Figure(name="gates-after-last-pod", value=opened - seen, **said)
    yield Figure(name="bound-after-decision", value=bound[-1] - decided, **said)


def singles():
    """1,000 jobs of one member submitted at once, beside the same Jobs unsuspended by patch."""
    with site() as there:
        alone = _unsuspended(there)
        rate = _started(there)
    said = {"bench": "singles-1000", "n": SINGLES, "unit": "", "protocol": PROTOCOL}
    of = {
        "muster": f"{rate.per_second:.1f}/s in {rate.cpu:.0f} s of CPU",
        "alone": f"{alone.per_second:.1f}/s in {alone.cpu:.0f} s of CPU",
    }
    value = alone.per_second / rate.per_second
    yield Figure(name="times-slower", value=value, of=of, **said)


def _unsuspended(there: Site) -> Rate:
    """Of Jobs that are bound once their suspension is lifted, and that nobody holds."""
    gateway = there.gateway()
    made = [
        GangSpec(
            namespace="default",
            job=f"j-{number:06}",
            group="main",
            attempt=1,
            members=1,
            gpus_per_member=1,
            annotations=WAITS,
        )
        for number in range(SINGLES)
    ]
    with ThreadPoolExecutor(live.PARALLEL) as pool:
        list(pool.map(lambda spec: _make_ungated(gateway, spec), made))
        began, busy = time.monotonic(), cpu_of_all()
        list(pool.map(lambda spec: gateway.open_gang(spec.key), made))
        last = there.until_bound(SINGLES)[-1]
        busy = cpu_of_all() - busy
        list(pool.map(lambda spec: gateway.delete_gang(spec.key), made))
    eventually(lambda: not gateway.members(), within=PATIENCE)
    there.pods.bound.clear()
    return Rate(SINGLES / (last - began), busy)


def _make_ungated(gateway: live.LiveGateway, spec: GangSpec) -> None:
    job = manifest.gang_job(spec)
    job["spec"]["suspend"] = True
    del job["spec"]["template"]["spec"]["schedulingGates"]
    path = f"/apis/batch/v1/namespaces/{spec.namespace}/jobs"
    gateway.wire.ask(Request(method="POST", path=path, body=job))


def _started(there: Site) -> Rate:
    """Of jobs from the first cycle after the last submission to the last one's binding."""
    jobs = [there.submit(1, 1).pk for _ in range(SINGLES)]
    began, busy = time.monotonic(), cpu_of_all()
    there.plan()
    context = multiprocessing.get_context("fork")
    connections.close_all()
    batches = [jobs[first : first + TOGETHER] for first in range(0, len(jobs), TOGETHER)]
    workers = [
        context.Process(target=_work, args=(batches[number::WORKERS],)) for number in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    last = there.until_bound(SINGLES)[-1]
    busy = cpu_of_all() - busy
    for worker in workers:
        worker.join()
    return Rate(SINGLES / (last - began), busy)


def _work(batches: list[list[int]]) -> None:
    """What a worker's process does with the messages of these starts."""
    live._gateways.clear()  # noqa: SLF001 - another process' connections
    left = batches
    while left:
        left = [jobs for jobs in left if not _bind(jobs)]


def _bind(jobs: list[int]) -> bool:
    cluster = Cluster.objects.get(jobs=jobs[0])
    gateway = live.connect(cluster.kubeconfig_path)
    return bind_together(dict.fromkeys(jobs, 1), gateway, at=datetime.now(UTC))
