"""A watcher that begins on a large cluster: until all is listed, and the memory that it takes.

5,000 nodes of 8 GPUs, each GPU held by a member that is a pod of its own, and 20 pods of others on
each node; the cluster is simulated, in a process of its own.
"""

import multiprocessing
import resource
import shutil
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from simcluster.clock import Clock, seconds_of
from simcluster.cluster import Cluster
from simcluster.fleet import parse_nodes
from simcluster.http import App
from simcluster.kubeconfig import write_kubeconfig
from simcluster.resources import NODES, PODS
from simcluster.server import Server, listen
from simcluster.testing import START, TOKEN
from tests.bench.figures import Figure
from topology.kube import manifest, names
from topology.kube.live import connect
from topology.kube.values import GangSpec, Listed
from topology.kube.watch import ClusterWatch, collect_seldom

NODE_COUNT, MEMBERS_EACH, OTHERS_EACH = 5000, 8, 20
KINDS = {"nodes", "members", "groups", "others"}
PROTOCOL = "wall clock, process start to the last list taken from the watch; no rows are written"


def run():
    """Seconds from the start of the process, and the most memory it held."""
    context = multiprocessing.get_context("spawn")
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-cold-"))
    ready, answers = context.SimpleQueue(), context.SimpleQueue()
    server = context.Process(target=_serve, args=(folder / "kubeconfig", ready), daemon=True)
    server.start()
    try:
        ready.get()
        began = time.monotonic()
        watcher = context.Process(target=_watch, args=(folder / "kubeconfig", answers))
        watcher.start()
        counts, cpu, mib = answers.get()
        seconds = time.monotonic() - began
        watcher.join()
    finally:
        server.kill()
        server.join()
        shutil.rmtree(folder, ignore_errors=True)
    pods = NODE_COUNT * (MEMBERS_EACH + OTHERS_EACH)
    if counts != {"nodes": NODE_COUNT, "members": NODE_COUNT * MEMBERS_EACH}:
        raise AssertionError(f"not all were told: {counts}")
    of = {"cpu": f"{cpu:.1f} s of its own CPU"}
    said = {"bench": "watch-cold", "n": NODE_COUNT + pods, "of": of, "protocol": PROTOCOL}
    yield Figure(name="seconds", value=seconds, **said)
    yield Figure(name="peak-memory", value=mib, **said | {"unit": "MiB"})


def _serve(kubeconfig: Path, ready) -> None:
    """The cluster, until this process is killed."""
    cluster = Cluster(Clock(seconds_of(START), frozen=True))
    cluster.found(parse_nodes(f"{NODE_COUNT}xH100-SXM:8"))
    store = cluster.world.store
    nodes = [node["metadata"]["name"] for node in store.all(NODES)]
    specs = [_asking(gpus) for gpus in (0, 1)]
    pods = [(PODS, pod) for node in nodes for pod in _pods_on(node, specs)]
    store.load(pods, version=store.version + len(pods))
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    write_kubeconfig(kubeconfig, url=url, token=TOKEN)
    server = Server(App(cluster, token=TOKEN))
    threading.Thread(target=_say_when_up, args=(server, ready), daemon=True).start()
    server.run(sockets=[listener])


def _say_when_up(server: Server, ready) -> None:
    while not server.started:
        time.sleep(0.01)
    ready.put("up")


def _pods_on(node: str, specs):
    """Its pods, of which the first are members. specs: without a GPU, and with one."""
    job = f"j-{node.rpartition('-')[2]}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"{job}-main", "uid": job}
    for number in range(MEMBERS_EACH + OTHERS_EACH):
        is_member = number < MEMBERS_EACH
        labels = {names.JOB: job, names.GROUP: "main"} if is_member else {"app": "agent"}
        name = f"{job}-{number}"
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "muster-t",
                "uid": f"00000000-0000-4000-8000-{name:>024}",
                "resourceVersion": "7",
                "creationTimestamp": START,
                "labels": {**labels, names.RANK: str(number)},
                "annotations": {names.ATTEMPT: "1", names.RANK: str(number)},
                "ownerReferences": [owner],
            },
            "spec": {**specs[is_member], "nodeName": node},
            "status": _RUNNING,
        }


def _asking(gpus: int):
    """The spec of a pod of ours past its gate, with so many GPUs."""
    gang = GangSpec(
        namespace="muster-t",
        job="j-000001",
        group="main",
        attempt=1,
        members=MEMBERS_EACH,
        gpus_per_member=gpus,
        cpu_milli=500,
        memory_mib=256,
        image="registry.example.org/team/image:1",
        command=("train",),
    )
    return {**manifest.gang_job(gang)["spec"]["template"]["spec"], "schedulingGates": []}


_CONDITIONS = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_RUNNING = {
    "phase": "Running",
    "startTime": START,
    "conditions": [
        {"type": kind, "status": "True", "lastTransitionTime": START} for kind in _CONDITIONS
    ],
    "containerStatuses": [
        {
            "name": names.MAIN,
            "ready": True,
            "restartCount": 0,
            "image": "registry.example.org/team/image:1",
            "state": {"running": {"startedAt": START}},
        }
    ],
}


def _watch(kubeconfig: Path, answers) -> None:
    """What a watcher's process does until all kinds are listed, and what that took."""
    collect_seldom()
    stop = threading.Event()
    watch = ClusterWatch(
        lambda: connect(str(kubeconfig)).wire,
        wall=lambda: datetime.now(UTC),
        stop=stop,
        has_clock=True,
    )
    listed = {}
    with watch:
        for seen in watch:
            if isinstance(seen, Listed):
                listed[seen.kind] = len(seen.keys)
                if listed.keys() >= KINDS:
                    stop.set()
    counts = {kind: listed[kind] for kind in ("nodes", "members")}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answers.put((counts, time.process_time(), peak))
