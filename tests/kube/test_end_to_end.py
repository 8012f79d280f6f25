"""From a submitted job to its end: planned by a cycle, carried out on a real control plane."""

import pytest

from scheduling.models import Job
from scheduling.services import binding
from tests.kube.controlplane import kubelets
from tests.kube.real_stage import (
    LABELS,
    NODES,
    POOL,
    cancel,
    close,
    nodes_of,
    planned,
    state_of,
    tell_kubelets,
    until_looked,
    until_taken_back,
)

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]


class Dying:
    """A gateway whose process is gone once the first gate is open."""

    def __init__(self, gateway):
        self._gateway = gateway

    def __getattr__(self, name):
        return getattr(self._gateway, name)

    def release_all(self, releases):
        self._gateway.release(releases[0])
        raise SystemExit


class Losing:
    """A gateway that loses something when all pods of a gang are seen, and no gate is open."""

    def __init__(self, gateway, lose):
        self._gateway, self._lose = gateway, lose

    def __getattr__(self, name):
        return getattr(self._gateway, name)

    def release_all(self, releases):
        self._lose()
        return self._gateway.release_all(releases)


def test_a_gang_of_two_is_bound_where_it_was_planned_and_succeeds(stage, submit):
    job = submit(2, **{kubelets.RUNS_FOR: "2s"})

    stage.until(lambda: state_of(job) == "running")

    assert sorted(planned(job)) == list(NODES)
    assert nodes_of(stage, job) == planned(job)
    stage.until(lambda: state_of(job) == "succeeded")


def test_a_gang_that_does_not_fit_whole_has_no_pod_bound(stage, submit):
    first = submit(1)
    stage.until(lambda: state_of(first) == "running")

    second = submit(2)
    stage.until(lambda: Job.objects.get(pk=second.pk).reason)

    assert nodes_of(stage, second) == []
    cancel(stage, first)
    stage.until(lambda: state_of(second) == "running")
    assert sorted(nodes_of(stage, second)) == list(NODES)


def test_a_cancelled_gang_leaves_nothing_in_the_cluster(stage, submit):
    job = submit(2)
    stage.until(lambda: state_of(job) == "running")

    cancel(stage, job)
    stage.until(lambda: state_of(job) == "cancelled" and not nodes_of(stage, job))

    assert [group for group in stage.gateway.gangs() if group.job == job.public_id] == []


def test_a_gang_that_is_bound_in_part_is_taken_back_whole(
    stage, submit, control_plane, little_patience
):
    stage.meanwhile = lambda: close(control_plane, NODES[1])
    job = submit(2)
    stage.until(lambda: sorted(nodes_of(stage, job)) == ["", NODES[0]])

    until_taken_back(stage, job)

    assert [group for group in stage.gateway.gangs() if group.job == job.public_id] == []
    close(control_plane, NODES[1], closed=False)
    until_looked(stage, lambda: state_of(job) == "running")
    assert nodes_of(stage, job) == planned(job)
    assert Job.objects.get(pk=job.pk).attempt == 2


def test_a_gang_whose_node_vanishes_before_it_is_bound_is_taken_back_whole(
    stage, submit, control_plane, little_patience
):
    stage.meanwhile = lambda: control_plane.remove_nodes(NODES[1])
    job = submit(2)

    until_taken_back(stage, job)

    control_plane.add_nodes(NODES[1], labels=LABELS, taints=[POOL])
    until_looked(stage, lambda: state_of(job) == "running")
    assert sorted(nodes_of(stage, job)) == list(NODES)


def test_a_gang_whose_node_vanishes_while_it_waits_at_the_gate_is_taken_back_whole(
    stage, submit, control_plane, little_patience
):
    living = stage.gateway
    stage.gateway = Losing(living, lambda: control_plane.remove_nodes(NODES[1]))
    job = submit(2)

    until_taken_back(stage, job)

    stage.gateway = living
    control_plane.add_nodes(NODES[1], labels=LABELS, taints=[POOL])
    until_looked(stage, lambda: state_of(job) == "running")
    assert sorted(nodes_of(stage, job)) == list(NODES)
    assert Job.objects.get(pk=job.pk).attempt == 2


def test_a_worker_that_dies_between_two_gates_is_followed_by_one_that_goes_on(stage, submit):
    job = submit(2)
    living, stage.gateway = stage.gateway, Dying(stage.gateway)
    with pytest.raises(SystemExit):
        stage.until(lambda: state_of(job) == "running")
    stage.gateway = living
    opened = [pod for pod in stage.gateway.members() if pod.phase != "gated"]

    job.refresh_from_db()
    binding.bind(job.pk, job.attempt, stage.gateway, at=stage.now)
    stage.until(lambda: state_of(job) == "running")

    assert len(opened) == 1
    assert nodes_of(stage, job) == planned(job)
    assert job.attempt == 1


@pytest.mark.parametrize("does", ["rejects", "lacks-cpu"])
def test_a_gang_that_its_nodes_refuse_is_placed_again_and_has_not_failed(
    stage, submit, control_plane, does
):
    job = submit(2, **{kubelets.DOES: "waits"})
    stage.until(lambda: nodes_of(stage, job) == planned(job) != [])

    tell_kubelets(stage, control_plane, job, does)

    stage.until(lambda: Job.objects.get(pk=job.pk).attempt == 2)
    stage.until(lambda: nodes_of(stage, job) == planned(job))
    tell_kubelets(stage, control_plane, job, "runs")
    stage.until(lambda: state_of(job) == "running")
