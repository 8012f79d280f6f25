"""Cases of people who run such clusters, on a real control plane: C03, C29 and C30.

C33 is in tests/scheduling/test_lost_submissions.py.
"""

import pytest

from portal.core.errors import ClusterAway
from scheduling.models import Job
from scheduling.services import binding
from tenants.services.tenancy import namespace_of, prepare_tenancy
from tests.kube.controlplane import kubelets
from tests.kube.real_stage import (
    cancel,
    nodes_of,
    path_of,
    planned,
    pods_of,
    state_of,
    until_looked,
)
from topology.kube.live import LiveGateway

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def namespace(stage, tenant):
    """The tenant's, which is there already."""
    prepare_tenancy(tenant, stage.cluster, stage.gateway)
    return f"/api/v1/namespaces/{namespace_of(tenant)}"


def test_c03_a_gang_whose_pods_cannot_all_be_made_leaves_its_room_to_others_and_keeps_its_place(
    stage, submit, namespace, control_plane, little_patience
):
    quotas, name = f"{namespace}/resourcequotas", "three-pods"
    quota = {"metadata": {"name": name}, "spec": {"hard": {"count/pods": "3"}}}
    control_plane.api.create(quotas, quota)
    gang = submit(4, gpus=4)
    seen = []

    def made_in_part():
        seen.append(nodes_of(stage, gang))
        return seen[-1] == [""] * 3

    stage.until(made_in_part)
    next_one = submit(2)
    until_looked(stage, lambda: state_of(next_one) == "running")
    given_up = Job.objects.get(pk=gang.pk)
    left = nodes_of(stage, gang)
    control_plane.api.delete(f"{quotas}/{name}")
    cancel(stage, next_one)
    until_looked(stage, lambda: state_of(gang) == "running")

    assert [node for nodes in seen for node in nodes if node] == left == []
    assert (given_up.state, given_up.attempt, given_up.failed_starts) == ("queued", 1, 1)
    told = list(gang.events.order_by("pk").values_list("to_state", "reason"))[2:4]
    assert told == [("stopping", "not bound in time"), ("queued", "stopped")]
    started = Job.objects.get(pk=gang.pk)
    assert (started.submitted_at, started.failed_starts) == (gang.submitted_at, 0)
    assert nodes_of(stage, gang) == planned(gang)


def test_c29_what_a_cancelled_job_held_goes_to_the_next_when_it_is_gone_and_not_before(
    stage, submit
):
    first = submit(2, **{kubelets.STOPS_IN: "3s"})
    stage.until(lambda: state_of(first) == "running")
    second = submit(2)
    together = []

    def both():
        together.append((len(pods_of(stage, first)), len(pods_of(stage, second))))
        return state_of(second) == "running"

    cancel(stage, first)
    until_looked(stage, both)

    assert state_of(first) == "cancelled"
    assert [pair for pair in together if all(pair)] == []
    assert together[0] == (2, 0)


def test_c29_a_member_that_is_deleted_alone_is_never_there_twice(stage, submit, control_plane):
    job = submit(2, **{kubelets.STOPS_IN: "2s"})
    stage.until(lambda: state_of(job) == "running")
    ranks = []

    def again():
        ranks.append([pod.rank for pod in pods_of(stage, job)])
        return state_of(job) == "running" and Job.objects.get(pk=job.pk).attempt == 2

    control_plane.api.delete(path_of(pods_of(stage, job)[1]))
    until_looked(stage, again)

    assert [own for own in ranks if len(own) != len(set(own))] == []
    assert nodes_of(stage, job) == planned(job)


class Unheard(LiveGateway):
    """A gateway that does not hear the answer when it makes a Job, the first time."""

    heard = False

    def ensure_gang(self, spec):
        made = super().ensure_gang(spec)
        if not self.heard:
            self.heard = True
            raise ClusterAway("the answer did not come in time")
        return made


def test_c30_a_job_whose_making_timed_out_is_made_once(stage, submit):
    stage.gateway = Unheard(stage.gateway.wire)
    job = submit(2)
    with pytest.raises(ClusterAway):
        stage.until(lambda: state_of(job) == "running")

    job.refresh_from_db()
    binding.bind(job.pk, job.attempt, stage.gateway, at=stage.now)
    stage.until(lambda: state_of(job) == "running")

    assert [group.job for group in stage.gateway.gangs()] == [job.public_id]
    assert [pod.rank for pod in pods_of(stage, job)] == [0, 1]
    assert job.placements.active().count() == 2
    assert Job.objects.get(pk=job.pk).attempt == 1


def test_c30_a_job_of_that_name_that_somebody_else_made_is_left_as_it_is(
    stage, submit, namespace, control_plane
):
    stage.meanwhile = lambda: control_plane.api.create(jobs, theirs)
    job = submit(1)
    jobs = namespace.replace("/api/v1", "/apis/batch/v1") + "/jobs"
    container = {"name": "main", "image": "busybox:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    name = f"{job.public_id}-main"
    theirs = {"metadata": {"name": name}, "spec": {"suspend": True, "template": template}}

    stage.until(lambda: Job.objects.get(pk=job.pk).is_held)
    stage.until(lambda: state_of(job) == "queued")

    there = control_plane.api.get(f"{jobs}/{name}")
    control_plane.api.delete(f"{jobs}/{name}", propagationPolicy="Background")
    assert "is not ours; remove it" in Job.objects.get(pk=job.pk).held_because
    assert (there["spec"]["suspend"], there["metadata"]["generation"]) == (True, 1)
    assert pods_of(stage, job) == []
