"""A frozen cluster for each test, and a client that returns refusals instead of raising them."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass

import pytest

from simcluster.testing import RunningCluster, running_cluster

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
NODES = "/api/v1/nodes"
MEDIA_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True)
class Kube:
    """The API of one running cluster, as a test speaks to it."""

    cluster: RunningCluster

    def ask(self, method, path, body=None, *, media_type="application/json", **headers):
        """The code and the JSON of one answer."""
        request = urllib.request.Request(
            self.cluster.url + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Authorization": f"Bearer {self.cluster.token}",
                "Content-Type": media_type,
                **headers,
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, json.load(refusal)

    def get(self, path):
        return self.ask("GET", path)[1]

    def create(self, path, body):
        code, made = self.ask("POST", path, body)
        assert code == 201, made
        return made

    def patch(self, path, body, *, kind="strategic"):
        return self.ask("PATCH", path, body, media_type=MEDIA_TYPES[kind])

    def pods(self):
        """The pods of the default namespace, by name."""
        return {pod["metadata"]["name"]: pod for pod in self.get(PODS)["items"]}

    def pods_of(self, job):
        """A Job's pods in the order of their indexes."""
        selector = f"?labelSelector=job-name={job}"
        return sorted(self.get(PODS + selector)["items"], key=lambda pod: pod["metadata"]["name"])

    def job(self, name="train"):
        return self.get(f"{JOBS}/{name}")

    def step(self, seconds):
        self.cluster.step(seconds)


@pytest.fixture
def kube():
    """Two nodes of eight H100 each; the clock stands still at 2026-01-05 08:00:00."""
    with running_cluster("2xH100-SXM:8", frozen=True) as cluster:
        yield Kube(cluster)


@pytest.fixture
def pod():
    """A maker of pod manifests."""

    def make(name="a", *, gpus=0, gated=False, command=("sleep", "30"), **spec):
        container = {"name": "main", "image": "busybox:1", "command": list(command)}
        if gpus:
            container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
        if gated:
            spec["schedulingGates"] = [{"name": "muster.dev/gate"}]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"restartPolicy": "Never", "containers": [container], **spec},
        }

    return make


@pytest.fixture
def job(pod):
    """A maker of Job manifests; what is not for the pods goes into the Job's spec."""

    def make(name="train", *, members=2, gpus=1, gated=False, command=("sleep", "30"), **spec):
        template = pod(gpus=gpus, gated=gated, command=command)["spec"]
        counts = {"completions": members, "parallelism": members, "completionMode": "Indexed"}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {**counts, "template": {"spec": template}, **spec},
        }

    return make
