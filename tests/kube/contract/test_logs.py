"""What a cluster says of a pod that has written nothing yet."""

import pytest

from topology.kube.gateway import NotThere
from topology.kube.values import LogAsked


def asked(spec, pod_name):
    return LogAsked(namespace=spec.namespace, pod_name=pod_name, lines=10, most=1000)


def test_a_pod_at_the_gate_has_written_nothing(cluster_api):
    spec = cluster_api.spec()
    first, _second = cluster_api.held(spec)

    assert cluster_api.gateway.log(asked(spec, first.pod_name)) == b""


def test_a_pod_that_is_not_there_has_no_log(cluster_api):
    with pytest.raises(NotThere):
        cluster_api.gateway.log(asked(cluster_api.spec(), "nobody"))
