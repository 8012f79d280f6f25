"""The clients that people and Muster use: kubectl and the Python client, unchanged."""

import json
import os
import shutil
import subprocess

import pytest
from kubernetes import config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.fixture
def kubectl(kube, tmp_path):
    """kubectl, pointed at the test's cluster; returns what it printed."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed; it is an optional client")
    path = kube.cluster.write_kubeconfig(tmp_path / "kubeconfig")

    def run(*arguments, given=None, fails=False):
        environment = {**os.environ, "KUBECONFIG": str(path), "HOME": str(tmp_path)}
        done = subprocess.run(
            [program, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stdout + done.stderr

    return run


def rows(printed):
    return [line.split() for line in printed.splitlines()]


def test_kubectl_lists_nodes_pods_and_jobs(kubectl, kube, job):
    kube.create(JOBS, job(gated=True))
    (first, second) = kube.pods()

    nodes, jobs = rows(kubectl("get", "nodes")), rows(kubectl("get", "jobs"))
    pods = rows(kubectl("get", "pods", "--sort-by=.metadata.name"))

    assert [row[:2] for row in nodes[1:]] == [["h100-sxm-01", "Ready"], ["h100-sxm-02", "Ready"]]
    assert [row[:3] for row in pods[1:]] == [
        [first, "0/1", "SchedulingGated"],
        [second, "0/1", "SchedulingGated"],
    ]
    assert jobs[1][:3] == ["train", "Running", "0/2"]


def test_kubectl_describes_a_gated_pod_its_job_and_a_node(kubectl, kube, job):
    kube.create(JOBS, job(gated=True))
    name = next(iter(kube.pods()))

    pod = kubectl("describe", "pod", name)
    described_job = kubectl("describe", "job", "train")
    node = kubectl("describe", "node", "h100-sxm-01")

    assert "Controlled By:    Job/train" in pod
    assert ["PodScheduled", "False"] in rows(pod)
    assert "Completion Mode:    Indexed" in described_job
    assert "Created pod: train-0-" in described_job
    assert ["nvidia.com/gpu:", "8"] in rows(node)


def test_kubectl_creates_applies_patches_and_deletes(kubectl, kube, job):
    manifest = json.dumps(job(suspend=True))

    created = kubectl("apply", "-f", "-", given=manifest)
    kubectl("patch", "job", "train", "-p", '{"spec": {"suspend": false}}')
    served = kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=manifest)
    kubectl("delete", "job", "train")

    assert created == "job.batch/train created\n"
    assert served == "job.batch/train serverside-applied\n"
    assert kubectl("get", "jobs") == "No resources found in default namespace.\n"


def test_kubectl_watches_until_a_condition_holds(kubectl, kube, pod):
    kube.cluster.set_clock(speed=100, frozen=False)
    kube.create(PODS, pod(command=("sleep", "1000000")))

    waited = kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout=30s")
    log = kubectl("logs", "a", "--tail=1")

    assert waited == "pod/a condition met\n"
    assert len(log.splitlines()) == 1
    assert "loss" in log


def test_kubectl_watches_a_pod_through_its_life(kubectl, kube, pod):
    kube.cluster.set_clock(speed=100, frozen=False)
    kube.create(PODS, pod(command=("sleep", "100")))

    printed = kubectl("get", "pods", "--watch", "--request-timeout=4s")

    seen = [row[:3] for row in rows(printed) if row[:1] == ["a"]]
    assert seen[-1] == ["a", "0/1", "Completed"]
    assert ["a", "1/1", "Running"] in seen


def test_kubectl_makes_namespaces_and_config_maps(kubectl, kube):
    kubectl("create", "namespace", "team")
    kubectl("create", "configmap", "c", "--from-literal=a=1", "-n", "team")
    kubectl("create", "secret", "generic", "s", "--from-literal=b=2", "-n", "team")

    assert kube.get("/api/v1/namespaces/team/configmaps/c")["data"] == {"a": "1"}
    assert kube.get("/api/v1/namespaces/team/secrets/s")["data"] == {"b": "Mg=="}


def test_kubectl_drains_a_node(kubectl, kube, pod):
    kube.create(PODS, pod(nodeName="h100-sxm-01"))

    kubectl("drain", "h100-sxm-01", "--force", "--grace-period=0")

    assert kube.get("/api/v1/nodes/h100-sxm-01")["spec"]["unschedulable"] is True
    assert kube.pods() == {}


@pytest.fixture
def dynamic(kube, tmp_path):
    """The Python client's DynamicClient."""
    path = kube.cluster.write_kubeconfig(tmp_path / "kubeconfig")
    with config.new_client_from_config(str(path)) as client:
        yield DynamicClient(client)


def test_the_dynamic_client_discovers_creates_lists_and_watches(dynamic, pod):
    pods = dynamic.resources.get(api_version="v1", kind="Pod")

    made = pods.create(body=pod(gated=True), namespace="default")
    listed = pods.get(namespace="default", limit=1)
    events = pods.watch(namespace="default", resource_version="0", timeout=1)

    assert [item.metadata.name for item in listed.items] == ["a"]
    assert [(event["type"], event["object"].metadata.uid) for event in events] == [
        ("ADDED", made.metadata.uid)
    ]


def test_the_dynamic_client_patches_binds_and_deletes(dynamic, kube, pod):
    pods = dynamic.resources.get(api_version="v1", kind="Pod")
    pods.create(body=pod(schedulerName="other"), namespace="default")
    target = {"apiVersion": "v1", "kind": "Node", "name": "h100-sxm-01"}
    binding = {"metadata": {"name": "a"}, "target": target}

    bound = pods.subresources["binding"].create(body=binding, name="a", namespace="default")
    patch = [{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]
    content_type = "application/json-patch+json"
    pods.patch(body=patch, name="a", namespace="default", content_type=content_type)
    labelled = kube.pods()["a"]
    pods.delete(name="a", namespace="default", body={"gracePeriodSeconds": 0})

    assert bound.status == "Success"
    assert labelled["spec"]["nodeName"] == "h100-sxm-01"
    assert labelled["metadata"]["labels"] == {"x": "y"}
    assert kube.pods() == {}


def test_the_dynamic_client_suspends_and_applies(dynamic, kube, job):
    jobs = dynamic.resources.get(api_version="batch/v1", kind="Job")
    jobs.server_side_apply(body=job(), name="train", namespace="default", field_manager="muster")

    body = {"spec": {"suspend": True}}
    strategic = "application/strategic-merge-patch+json"
    jobs.patch(body=body, name="train", namespace="default", content_type=strategic)

    assert kube.job()["spec"]["suspend"] is True
    assert kube.pods() == {}


def test_the_dynamic_client_is_told_why(dynamic, pod):
    pods = dynamic.resources.get(api_version="v1", kind="Pod")

    with pytest.raises(ApiException) as refusal:
        pods.create(body=pod(gated=True, nodeName="x"), namespace="default")

    assert refusal.value.status == 422
    assert json.loads(refusal.value.body)["reason"] == "Invalid"
