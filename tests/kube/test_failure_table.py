"""What goes wrong between a plan and its pods, on a real control plane: one test for each way.

Tests that stand elsewhere: `e` is test_end_to_end, `c` the contract suite.

| failure | test |
|---|---|
| node vanishes before its pod is bound | e: a gang whose node vanishes …, before or at the gate |
| node is cordoned after its pod was pinned to it | e: a gang that is bound in part … |
| node is tainted after its pod was pinned to it | a node that is tainted … |
| node is lost under a running gang | a gang that loses a node … |
| a gang is bound in part | a place that somebody took by hand … |
| a pod that is not ours takes room | what an administrator runs … |
| a worker dies while it opens gates | e: a worker that dies … |
| a kubelet refuses a pod | e: a gang that its nodes refuse …; c: an ignored condition spares … |
| a device plugin picks other devices | nobody is told which; nodes alone are promised |
| a second scheduler hands out GPUs | a node whose GPUs another scheduler hands out … |
| a gate that is not ours | a gate of somebody else's … |
| a victim does not end when it is told to | a member that does not end … |
| an old worker goes on after a new attempt | c: a member of another attempt … |
| a person calls a Job failed while its pods run | a job that somebody called failed … |
| a pod in the likeness of a member | what was made by hand in the likeness … |
"""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from scheduling.models import Job
from scheduling.services import binding
from tests.kube.controlplane import kubelets
from tests.kube.polling import eventually
from tests.kube.real_stage import (
    LABELS,
    NODES,
    POOL,
    cancel,
    nodes_of,
    path_of,
    planned,
    pods_of,
    state_of,
    taint,
    until_looked,
    until_taken_back,
)
from topology.models import Node

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]

PODS = "/api/v1/namespaces/default/pods"
TAINT = {"key": "team", "value": "storage", "effect": "NoSchedule"}
GATE = "example.org/check"


@pytest.fixture
def by_hand(control_plane):
    """Makes a pod as an administrator does, past the plan; it is there once it has its node."""
    api, made = control_plane.api, []

    def make(name, *, node, gpus=8, scheduler="", **metadata):
        limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
        spec = {
            "containers": [{"name": "main", "image": "busybox:1", "resources": limits}],
            "tolerations": [{"key": POOL["key"], "operator": "Exists"}],
            "nodeSelector": {"kubernetes.io/hostname": node},
        }
        spec |= {"schedulerName": scheduler} if scheduler else {}
        api.create(PODS, {"metadata": {"name": name, **metadata}, "spec": spec})
        made.append(name)
        return f"{PODS}/{name}"

    yield make
    for name in made:
        api.delete(f"{PODS}/{name}", gracePeriodSeconds="0")


def foreign_gpus(name):
    return Node.objects.get(name=name).foreign_gpus


def reason_of(job):
    return Job.objects.get(pk=job.pk).reason


def test_a_node_that_is_tainted_before_its_pod_is_bound_gets_no_more_of_the_gang(
    stage, submit, control_plane, little_patience
):
    stage.meanwhile = lambda: taint(control_plane, NODES[1], TAINT)
    job = submit(2)

    until_taken_back(stage, job)
    stage.until(lambda: reason_of(job))

    assert (state_of(job), Node.objects.get(name=NODES[1]).is_open) == ("queued", False)
    taint(control_plane, NODES[1])
    until_looked(stage, lambda: state_of(job) == "running")
    assert nodes_of(stage, job) == planned(job)


def test_a_gang_that_loses_a_node_is_taken_down_whole_and_starts_again_when_it_can(
    stage, submit, control_plane
):
    job = submit(2)
    stage.until(lambda: state_of(job) == "running")

    control_plane.remove_nodes(NODES[1])

    stage.patience = 240  # the cluster itself gives a node that is gone most of a minute
    until_taken_back(stage, job)
    control_plane.add_nodes(NODES[1], labels=LABELS, taints=[POOL])
    stage.until(lambda: state_of(job) == "running")
    assert (nodes_of(stage, job), Job.objects.get(pk=job.pk).attempt) == (planned(job), 2)


def test_a_place_that_somebody_took_by_hand_costs_the_gang_its_start_and_no_more(
    stage, submit, control_plane, by_hand, little_patience
):
    def occupy():
        path = by_hand("occupier", node=NODES[1])
        eventually(lambda: control_plane.api.get(path)["spec"].get("nodeName"), within=60)

    stage.meanwhile = occupy
    job = submit(2)

    until_taken_back(stage, job)
    stage.until(lambda: foreign_gpus(NODES[1]) == 8 and reason_of(job))
    attempt = Job.objects.get(pk=job.pk).attempt
    until_looked(stage, lambda: not stage.sent)

    assert (state_of(job), Job.objects.get(pk=job.pk).attempt) == ("queued", attempt)
    control_plane.api.delete(f"{PODS}/occupier", gracePeriodSeconds="0")
    until_looked(stage, lambda: state_of(job) == "running")


def test_what_an_administrator_runs_is_taken_off_what_may_be_planned(
    stage, submit, control_plane, by_hand
):
    by_hand("stray", node=NODES[1], gpus=1)
    stage.until(lambda: foreign_gpus(NODES[1]) == 1)

    job = submit(2)
    stage.until(lambda: reason_of(job))

    assert (state_of(job), nodes_of(stage, job)) == ("queued", [])
    control_plane.api.delete(f"{PODS}/stray", gracePeriodSeconds="0")
    stage.until(lambda: state_of(job) == "running")


def test_a_node_whose_gpus_another_scheduler_hands_out_is_left_to_it(
    stage, submit, control_plane, by_hand
):
    path = by_hand("theirs", node=NODES[1], gpus=1, scheduler="volcano")
    body = {"metadata": {"name": "theirs"}, "target": {"kind": "Node", "name": NODES[1]}}
    control_plane.api.create(f"{path}/binding", body)
    stage.until(lambda: foreign_gpus(NODES[1]) == 1)

    job = submit(3, gpus=4)
    stage.until(lambda: reason_of(job))

    assert Node.objects.get(name=NODES[1]).foreign_schedulers == ["volcano"]
    assert (state_of(job), nodes_of(stage, job)) == ("queued", [])
    control_plane.api.delete(path, gracePeriodSeconds="0")
    stage.until(lambda: state_of(job) == "running")


class Gating:
    """A gateway to a cluster where somebody's webhook gives each pod of a gang another gate."""

    def __init__(self, gateway, plane):
        self._gateway, self._api = gateway, plane.api

    def __getattr__(self, name):
        return getattr(self._gateway, name)

    def ensure_gang(self, spec):
        uid = self._gateway.ensure_gang(spec)
        path = f"/apis/batch/v1/namespaces/{spec.namespace}/jobs/{spec.key.name}"
        template = {"spec": {"schedulingGates": [{"name": GATE}]}}
        self._api.patch(path, {"spec": {"template": template}})
        return uid


def test_a_gate_of_somebody_elses_is_left_alone_and_said(
    stage, submit, control_plane, little_patience
):
    ours, stage.gateway = stage.gateway, Gating(stage.gateway, control_plane)
    job = submit(2)
    stage.until(lambda: [pod.foreign_gates for pod in pods_of(stage, job)] == [(GATE,)] * 2)
    stage.until(lambda: job.members.filter(foreign_gates=[GATE]).count() == 2)
    phases = [pod.phase for pod in pods_of(stage, job)]

    until_taken_back(stage, job)
    stage.until(lambda: reason_of(job) == "foreign_gate")
    stage.gateway = ours
    Job.objects.filter(pk=job.pk).update(gates_until=timezone.now() - timedelta(seconds=1))
    until_looked(stage, lambda: state_of(job) == "running")

    assert phases == ["gated", "gated"]
    assert nodes_of(stage, job) == planned(job)


def test_a_member_that_does_not_end_when_it_is_told_to_is_put_out_in_the_end(
    stage, submit, monkeypatch
):
    monkeypatch.setattr(binding, "_OVERDUE", timedelta(seconds=1))
    victim = submit(2, **{kubelets.STOPS_IN: "1000s"})
    Job.objects.filter(pk=victim.pk).update(grace_seconds=1)
    stage.until(lambda: state_of(victim) == "running")
    next_one = submit(2)

    cancel(stage, victim)
    stage.work()
    held = state_of(next_one), nodes_of(stage, next_one)
    until_looked(stage, lambda: state_of(next_one) == "running")

    assert held == ("queued", [])
    assert (state_of(victim), nodes_of(stage, victim)) == ("cancelled", [])


def test_a_job_that_somebody_called_failed_while_its_pods_run_has_failed(
    stage, submit, control_plane
):
    job = submit(1)
    stage.until(lambda: state_of(job) == "running")
    [group] = [found for found in stage.gateway.gangs() if found.job == job.public_id]

    call_failed(control_plane.api, group.key)
    until_looked(stage, lambda: state_of(job) == "failed" and not nodes_of(stage, job))

    assert job.events.order_by("pk").last().reason == "called over while its members ran"


def call_failed(api, key):
    """As somebody does who may write the status of Jobs."""
    path = f"/apis/batch/v1/namespaces/{key.namespace}/jobs/{key.name}/status"
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = [
        {"type": kind, "status": "True", "reason": "ByHand", "lastTransitionTime": now}
        for kind in ("FailureTarget", "Failed")
    ]
    counts = {"active": None, "ready": 0, "terminating": 0}
    code, answer = api.patch(path, {"status": {**counts, "conditions": said}}, kind="merge")
    assert code == 200, answer


def test_what_was_made_by_hand_in_the_likeness_of_a_member_holds_what_it_holds(
    stage, submit, control_plane, by_hand
):
    first = submit(1)
    stage.until(lambda: state_of(first) == "running")
    [pod] = pods_of(stage, first)
    real = control_plane.api.get(path_of(pod))["metadata"]
    free = next(node for node in NODES if node != pod.node)
    likeness = {"labels": real["labels"], "annotations": real["annotations"]}

    by_hand("likeness", node=free, **likeness)
    stage.until(lambda: foreign_gpus(free) == 8)
    cancel(stage, first)
    stage.until(lambda: state_of(first) == "cancelled")
    second = submit(2)
    stage.until(lambda: reason_of(second))

    assert (state_of(second), foreign_gpus(free)) == ("queued", 8)
    control_plane.api.delete(f"{PODS}/likeness", gracePeriodSeconds="0")
    stage.until(lambda: state_of(second) == "running")
