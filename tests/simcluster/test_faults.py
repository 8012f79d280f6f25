"""Faults on request."""

import time

import pytest

PODS = "/api/v1/namespaces/default/pods"
FAULTS = "/simcluster/faults"


def test_the_next_two_matching_requests_fail_and_no_other(kube, pod):
    kube.cluster.fault("error", status=503, next=2, path="/pods", method="POST")

    codes = [kube.ask("POST", PODS, pod(name))[0] for name in ("a", "b", "c")]
    listed = kube.ask("GET", PODS)[0]

    assert (codes, listed) == ([503, 503, 201], 200)
    assert kube.get(FAULTS)["faults"] == []


def test_a_fault_lasts_until_it_is_ended(kube):
    fault = kube.cluster.fault("error", status=429, path="^/api/v1/nodes")

    during = kube.ask("GET", "/api/v1/nodes")
    kube.ask("DELETE", f"{FAULTS}/{fault['id']}")

    assert (during[0], during[1]["reason"]) == (429, "TooManyRequests")
    assert kube.ask("GET", "/api/v1/nodes")[0] == 200


def test_a_fault_that_never_strikes(kube):
    kube.cluster.fault("error", probability=0)

    assert kube.ask("GET", PODS)[0] == 200


def test_latency_delays_an_answer(kube):
    kube.cluster.fault("latency", seconds=0.3, next=1)
    started = time.monotonic()

    kube.get(PODS)

    assert time.monotonic() - started >= 0.3


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"kind": "flood"}, 400),
        ({"kind": "error", "path": "("}, 400),
        ({"kind": "node-down", "node": "none"}, 404),
        ({"kind": "gpu-health", "node": "h100-sxm-01", "index": 8}, 400),
    ],
)
def test_a_fault_that_is_none_is_refused(kube, body, code):
    assert kube.ask("POST", FAULTS, body)[0] == code
