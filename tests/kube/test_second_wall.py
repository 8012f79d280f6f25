"""What the cluster's own gangs add where a plan meets a cluster that has changed meanwhile."""

import pytest

from scheduling.models import Job
from tests.kube.real_stage import (
    NODES,
    cancel,
    close,
    nodes_of,
    planned,
    state_of,
    until_looked,
    until_taken_back,
)
from topology.kube import podgroups
from topology.models import Cluster
from topology.services.check import check_cluster

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def offered(stage):
    """The cluster is found to have PodGroups, as the beat finds it."""
    check_cluster(stage.cluster, stage.gateway.wire, at=stage.now)
    assert Cluster.objects.get().has_pod_groups


def groups(control_plane):
    return control_plane.api.get(f"/apis/{podgroups.API}/{podgroups.PLURAL}")["items"]


def test_no_member_is_bound_where_a_node_was_closed_under_one_of_them(
    stage, submit, control_plane, offered, little_patience
):
    stage.meanwhile = lambda: close(control_plane, NODES[1])
    bound = []
    job = submit(2)

    stage.until(lambda: state_of(job) == "starting")
    while state_of(job) == "starting":
        bound += filter(None, nodes_of(stage, job))
        until_looked(stage, lambda: True)
    until_taken_back(stage, job)
    close(control_plane, NODES[1], closed=False)
    until_looked(stage, lambda: state_of(job) == "running")

    assert (bound, nodes_of(stage, job)) == ([], planned(job))
    assert Job.objects.get(pk=job.pk).attempt > 1


def test_nothing_is_left_of_a_gangs_group_when_the_job_is_cancelled(
    stage, submit, control_plane, offered
):
    job = submit(2)
    stage.until(lambda: state_of(job) == "running")
    there = [own["metadata"]["name"] for own in groups(control_plane)]

    cancel(stage, job)
    stage.until(lambda: state_of(job) == "cancelled" and not groups(control_plane))

    assert there == [podgroups.name_of(job.public_id)]
