"""What is no manifest, no query, no fault: refused, and the cluster goes on."""

import copy
import json
from urllib.error import HTTPError

import pytest

from simcluster.errors import UsageError
from simcluster.fleet import parse_nodes, read_fleet
from simcluster.testing import running_cluster

CONTAINER = {"name": "c", "image": "i", "ports": [{"containerPort": 1}]}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
OWNER = {"kind": "Node", "name": "n", "uid": "u"}
SPEC = {
    "restartPolicy": "Never",
    "containers": [CONTAINER],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}},
    "schedulingGates": [{"name": "a/b"}],
}
POD = {"metadata": {"name": "p", "ownerReferences": [OWNER]}, "spec": SPEC}
RULES = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "x", "status": "True"}]}]}
JOB = {
    "metadata": {"name": "j"},
    "spec": {"parallelism": 1, "podFailurePolicy": RULES, "template": {"spec": SPEC}},
}
PODS, JOBS = "/api/v1/namespaces/default/pods", "/apis/batch/v1/namespaces/default/jobs"
ODD_VALUES = (None, 10**30, "x", [{}], {})
NONSENSE = (None, 0, 10**30, 1.5, "x", [], [None], [1], [{}], {}, {"a": [1]}, True)


@pytest.fixture(scope="module")
def cluster():
    with running_cluster("1xH100-SXM:8", frozen=True) as running:
        yield running


def status_of(cluster, method, path, body=None):
    try:
        cluster.call(method, path, body)
    except HTTPError as error:
        return error.code
    except json.JSONDecodeError:
        return 200  # a log is text
    return 200


def places(value, path=()):
    """The path of everything in `value`."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def with_at(value, path, odd):
    if not path:
        return odd
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = odd
    return changed


@pytest.mark.parametrize(("path", "whole"), [(PODS, POD), (JOBS, JOB)], ids=["pods", "jobs"])
def test_no_manifest_is_a_failure_of_the_cluster(cluster, path, whole):
    failed = []
    for place in places(whole):
        for odd in NONSENSE:
            body = with_at(whole, place, odd)
            if status_of(cluster, "POST", path, body) >= 500:
                failed.append((place, odd))
            status_of(cluster, "DELETE", f"{path}/{whole['metadata']['name']}")

    assert failed == []
    assert status_of(cluster, "GET", "/api/v1/nodes") == 200


AT = "2026-01-05T08:00:00Z"
CONDITIONS = [{"type": "Complete", "status": "True", "lastTransitionTime": AT}]
ENDED = {"exitCode": 1, "startedAt": AT, "finishedAt": AT}
CONTAINERS = [
    {"name": "c", "restartCount": 0, "state": {"running": {"startedAt": AT}, "terminated": ENDED}}
]
POD_STATUS = {
    "phase": "Running",
    "startTime": AT,
    "conditions": CONDITIONS,
    "containerStatuses": CONTAINERS,
}
JOB_STATUS = {
    "succeeded": 1,
    "completedIndexes": "0",
    "startTime": AT,
    "conditions": CONDITIONS,
}
RUNNING = {"restartPolicy": "Never", "containers": [CONTAINER]}
RUNNING_POD = {"metadata": {"name": "p"}, "spec": {**RUNNING, "activeDeadlineSeconds": 5}}
INDEXED = {"completions": 1, "completionMode": "Indexed", "ttlSecondsAfterFinished": 3}
RUNNING_JOB = {"metadata": {"name": "j"}, "spec": {**INDEXED, "template": {"spec": RUNNING}}}


@pytest.mark.parametrize(
    ("path", "whole", "status"),
    [(PODS, RUNNING_POD, POD_STATUS), (JOBS, RUNNING_JOB, JOB_STATUS)],
    ids=["pods", "jobs"],
)
def test_no_status_is_a_failure_of_the_cluster(cluster, path, whole, status):
    failed = []
    one = f"{path}/{whole['metadata']['name']}"
    # What is null is as good as left out.
    for place, odd in [(place, odd) for place in places(status) for odd in ODD_VALUES]:
        made = cluster.call("POST", path, whole)
        cluster.step(3)
        body = {**made, "status": with_at(status, place, odd)}
        body["metadata"].pop("resourceVersion")
        asked = [("PUT", f"{one}/status", body), ("GET", f"{one}/log", None)]
        asked += [("POST", "/simcluster/clock/step", {"seconds": 9}), ("DELETE", one, None)]
        if any(status_of(cluster, *request) >= 500 for request in asked):
            failed.append((place, odd))
        cluster.step(40)

    assert failed == []


@pytest.mark.parametrize(
    "query",
    ["limit=--5", "limit=" + "9" * 5000, "limit=x", "continue=NQ%3D%3D", "continue=WzEsMiwiMyJd"],
)
def test_a_query_that_makes_no_sense_is_refused(cluster, query):
    assert status_of(cluster, "GET", f"/api/v1/nodes?{query}") == 400


def test_a_limit_below_none_is_none(cluster):
    assert status_of(cluster, "GET", "/api/v1/namespaces/default/secrets?limit=-1") == 200


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": []},
        {"kind": "drop-watches", "resource": []},
        {"kind": "reject-pods", "next": "x"},
        {"kind": "reject-pods", "next": 10**12},
        {"kind": "error", "status": 99_999},
        {"kind": "latency", "seconds": -1},
        {"kind": "latency", "seconds": 10**30},
    ],
    ids=str,
)
def test_a_fault_that_cannot_be_is_refused(cluster, fault):
    assert status_of(cluster, "POST", "/simcluster/faults", fault) == 400


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e18, -1])
def test_the_clock_is_not_stepped_to_where_it_cannot_be_read(cluster, seconds):
    assert status_of(cluster, "POST", "/simcluster/clock/step", {"seconds": seconds}) == 400
    assert status_of(cluster, "GET", "/simcluster/clock") == 200


@pytest.mark.parametrize("text", ["999999xH100-SXM:8", "1xH100-SXM:999999", "1" * 5000 + "xA:1"])
def test_more_nodes_or_gpus_than_a_machine_can_hold_are_refused(text):
    with pytest.raises(UsageError):
        parse_nodes(text)


@pytest.mark.parametrize("gpus", ["8", -1, 10**9])
def test_a_fleet_says_numbers_of_gpus(tmp_path, gpus):
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps([{"name": "n", "model": "L4", "gpus": gpus}]))

    with pytest.raises(UsageError, match="no list of nodes"):
        read_fleet(file)
