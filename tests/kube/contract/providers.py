"""The two clusters that the suite is run against: how each gives the time, and plays the kubelet.

Where they differ, the simulated one is wrong.
"""

import json
import urllib.request
from contextlib import contextmanager
from functools import partial

import pytest

from simcluster.store import Store
from tests.kube.controlplane import kubelets
from tests.kube.controlplane.api import Api
from tests.kube.polling import eventually
from topology.kube.live import connect

NODES = ("h100-sxm-01", "h100-sxm-02")


class Simulated:
    """Two nodes of 8 GPUs in a thread of this process, on a clock that stands until moved."""

    nodes = NODES
    has_clock = True
    patience_seconds = 10
    notes = {"simcluster.muster.dev/run-seconds": "30"}
    fails = {"simcluster.muster.dev/exit-code": "3"}
    ignores_signals = {"simcluster.muster.dev/stop-seconds": "1000"}

    def __init__(self, cluster, kubeconfig):
        self.gateway = connect(str(cluster.write_kubeconfig(kubeconfig)))
        self.api = Api(cluster.url, cluster.token)
        self._cluster = cluster

    def until(self, question):
        """The first answer that is true, as time goes by."""

        def in_a_second():
            self._cluster.step(1)
            return question()

        return question() or eventually(in_a_second)

    def start_members(self, namespace):
        """The containers of the namespace's bound pods start."""
        self._cluster.step(5)

    def end_members(self, namespace):
        """They run 30 s, and end as their notes say."""
        self._cluster.step(60)

    @contextmanager
    def forgetting(self):
        """The changes before this are forgotten, as by a compaction."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Store, "is_too_old", lambda store, version: version < store.version)
            yield


class Real:
    """Two nodes of 8 GPUs in a real control plane, whose kubelets are simulated by KWOK."""

    nodes = NODES
    has_clock = False
    patience_seconds = 60  # some controllers look every 20 s, and the machine may be busy
    notes = {kubelets.DOES: "waits"}
    fails = {kubelets.EXIT_CODE: "3"}
    ignores_signals = {kubelets.STOPS_IN: "1000s"}

    def __init__(self, plane):
        self.gateway = connect(str(plane.kubeconfig()))
        self.api = plane.api
        self._plane = plane

    def until(self, question):
        """The first answer that is true, as time goes by."""
        return eventually(question, within=self.patience_seconds)

    def start_members(self, namespace):
        self._tell_kubelets(namespace, "runs")

    def end_members(self, namespace):
        self._tell_kubelets(namespace, "ends")

    def _tell_kubelets(self, namespace, does):
        path = f"/api/v1/namespaces/{namespace}/pods"
        told = {"metadata": {"annotations": {kubelets.DOES: does}}}
        for pod in self.api.get(path)["items"]:
            self.api.patch(f"{path}/{pod['metadata']['name']}", told, kind="merge")

    @contextmanager
    def forgetting(self):
        """The changes before this are forgotten: etcd is compacted."""
        version = self.api.get("/api/v1/nodes")["metadata"]["resourceVersion"]
        body = json.dumps({"revision": version, "physical": True}).encode()
        with urllib.request.urlopen(f"{self._plane.etcd}/v3/kv/compaction", body, timeout=30):
            yield


@contextmanager
def real_cluster(plane):
    """The provider of a control plane, with its nodes as long as the block lasts."""
    plane.add_nodes(*NODES)
    try:
        yield Real(plane)
    finally:
        plane.remove_nodes(*NODES)


class Kube:
    """The raw API in a namespace of its own, as somebody who may do everything."""

    def __init__(self, provider, namespace):
        self.provider = provider
        self.nodes = provider.nodes
        self.namespace = namespace
        home = f"/api/v1/namespaces/{namespace}"
        self.home, self.pods, self.maps = home, f"{home}/pods", f"{home}/configmaps"
        self.events = f"{home}/events"
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        api = provider.api
        self.api, self.ask, self.get, self.create = api, api.ask, api.get, api.create
        self.patch, self.delete, self.follow = api.patch, api.delete, api.follow
        self.until = provider.until

    def pod(self, name="a"):
        return self.get(f"{self.pods}/{name}")

    def job(self, name="train"):
        return self.get(f"{self.jobs}/{name}")

    def pods_of(self, job="train"):
        """A Job's pods in the order of their indexes."""
        items = self.get(self.pods, labelSelector=f"job-name={job}")["items"]
        return sorted(items, key=lambda pod: pod["metadata"]["name"])

    def members(self, count, job="train"):
        """That many pods of a Job, once there are so many."""

        def all_there():
            pods = self.pods_of(job)
            return pods if len(pods) == count else ()

        return self.until(all_there)

    def is_there(self, path):
        return self.ask("GET", path)[0] == 200

    def empty(self):
        """Remove what the test has left that could take room from the next one."""
        for path in (self.jobs, self.pods):
            self.delete(path, {"propagationPolicy": "Background"})
        self.until(lambda: not self.get(self.pods)["items"])

    def until_gone(self, path):
        self.until(lambda: not self.is_there(path))

    def until_bound(self, name="a"):
        """The node of a pod, once it has one."""
        return self.until(lambda: self.pod(name)["spec"].get("nodeName"))

    def start(self):
        self.provider.start_members(self.namespace)

    def end(self):
        self.provider.end_members(self.namespace)

    def until_phase(self, phase, name="a"):
        return self.until(partial(self._is_in_phase, phase, name))

    def _is_in_phase(self, phase, name):
        pod = self.pod(name)
        return pod["status"]["phase"] == phase and pod
