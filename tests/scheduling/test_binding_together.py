"""Jobs of one member that a plan starts together are bound together, and each as if alone."""

from contextlib import closing
from dataclasses import replace

import pytest
from django.db import connection

from portal.core.locks import LockSpace, held_of
from scheduling.models import Job
from scheduling.services.binding_together import bind_together
from scheduling.services.lifecycle import stop
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from scheduling.states import JobState
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.stage import a_stage
from topology.kube.gateway import RefusedByCluster
from topology.models import ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stage(tmp_path, sent):
    with a_stage("2xH100-SXM:8", folder=tmp_path, sent=sent) as stage:
        yield stage


@pytest.fixture
def submit(stage, sent):
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=16)
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user

    def submit(*, members=1, most=None, gpus=1):
        group = GroupRequest(members=members, max_member=most, gpus_per_member=gpus)
        request = JobRequest(name="train", cluster=stage.cluster, groups=(group,))
        return submit_job(request, tenant=tenant, by=person, at=stage.now)

    return submit


@pytest.fixture
def started(stage, submit, sent):
    """Four jobs that a cycle has just decided to start."""
    jobs = [submit() for _ in range(4)]
    stage.run_cycle(stage.cluster.pk)
    sent.clear()
    return jobs


def phases(stage):
    return {pod.job: pod.phase for pod in stage.gateway.members()}


def test_jobs_of_one_member_are_sent_together_and_gangs_alone(stage, submit, sent):
    first, gang, second = submit(), submit(members=2), submit()
    sent.clear()

    stage.run_cycle(stage.cluster.pk)

    starts = [[first.pk, 1], [second.pk, 1]]
    assert [message for message in sent if "bind" in message[0]] == [
        ("scheduling.bind_job", {"job_id": gang.pk, "attempt": 1}),
        ("scheduling.bind_jobs", {"cluster_id": stage.cluster.pk, "starts": starts}),
    ]


def test_all_gates_are_opened_onto_the_nodes_of_the_plan(stage, started):
    assert bind_together({job.pk: 1 for job in started}, stage.gateway, at=stage.now)
    stage.until(lambda: not Job.objects.exclude(state="running").exists())

    planned = {job.public_id: job.members.get().placement.node.name for job in Job.objects.all()}
    assert {pod.job: pod.node for pod in stage.gateway.members()} == planned


def test_one_that_was_cancelled_meanwhile_is_left_alone(stage, started):
    cancelled, *others = started
    stop(Job.objects.get(pk=cancelled.pk), towards=JobState.CANCELLED, at=stage.now, reason="no")

    bind_together({job.pk: 1 for job in started}, stage.gateway, at=stage.now)

    assert phases(stage).keys() == {job.public_id for job in others}


def test_one_of_another_attempt_or_in_other_hands_is_left_alone(stage, started, django_db_blocker):
    later, *others = started
    Job.objects.filter(pk=later.pk).update(attempt=2)

    bind_together({job.pk: 1 for job in started}, stage.gateway, at=stage.now)

    assert phases(stage).keys() == {job.public_id for job in others}


def test_one_that_another_worker_has_in_hand_is_left_to_it(stage, started):
    taken, *others = started
    with closing(connection.copy()) as other, other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", [LockSpace.JOB, taken.pk])

        bind_together({job.pk: 1 for job in started}, stage.gateway, at=stage.now)

        assert phases(stage).keys() == {job.public_id for job in others}
        assert held_of(LockSpace.JOB, [job.pk for job in started]) == {started[0].pk}


class Stopping:
    """A gateway whose answer on pods is late: meanwhile a job is told to stop."""

    def __init__(self, stage, job):
        self._gateway, self._stage, self._job = stage.gateway, stage, job

    def __getattr__(self, name):
        return getattr(self._gateway, name)

    def members_of(self, keys):
        pods = self._gateway.members_of(keys)
        job = Job.objects.get(pk=self._job.pk)
        if pods and job.state == "starting":
            stop(job, towards=JobState.CANCELLED, at=self._stage.now, reason="no")
        return pods


def test_one_that_is_stopped_before_its_gate_opens_keeps_it_shut(stage, started):
    stopped = started[0]

    assert not bind_together({job.pk: 1 for job in started}, Stopping(stage, stopped), at=stage.now)

    shut = {job for job, phase in phases(stage).items() if phase == "gated"}
    assert shut == {stopped.public_id}


def test_twice_is_as_once(stage, started):
    attempts = {job.pk: 1 for job in started}
    bind_together(attempts, stage.gateway, at=stage.now)
    before = phases(stage)

    assert bind_together(attempts, stage.gateway, at=stage.now)

    assert (phases(stage), len(before)) == (before, 4)


def test_one_that_may_find_others_is_bound_all_the_same(stage, submit, sent):
    elastic = submit(most=2, gpus=8)
    submit(gpus=8)
    stage.run_cycle(stage.cluster.pk)

    assert bind_together({job.pk: 1 for job in Job.objects.all()}, stage.gateway, at=stage.now)

    assert elastic.public_id in phases(stage)
    assert "gated" not in phases(stage).values()


class Haunted:
    """A gateway to a cluster whose Jobs somebody gave a second pod each."""

    def __init__(self, gateway):
        self._gateway = gateway

    def __getattr__(self, name):
        return getattr(self._gateway, name)

    def members_of(self, keys):
        pods = self._gateway.members_of(keys)
        return (*pods, *(replace(pod, rank=1, pod_name=f"{pod.pod_name}-too") for pod in pods))


def test_the_pod_of_another_rank_is_not_taken_for_the_member(stage, started):
    assert bind_together({job.pk: 1 for job in started}, Haunted(stage.gateway), at=stage.now)

    assert "gated" not in phases(stage).values()


class Refusing:
    """A gateway to a cluster that lets one job's gang not be made."""

    def __init__(self, gateway, job):
        self._gateway, self._job = gateway, job

    def __getattr__(self, name):
        return getattr(self._gateway, name)

    def ensure_all(self, specs):
        return self._gateway.ensure_all([spec for spec in specs if spec.job != self._job])

    def ensure_gang(self, spec):
        raise RefusedByCluster(f"no {spec.job} here")


def test_what_the_cluster_refuses_of_one_keeps_no_other(stage, started):
    refused, *others = started
    refusing = Refusing(stage.gateway, refused.public_id)

    assert not bind_together({job.pk: 1 for job in started}, refusing, at=stage.now)

    state = Job.objects.values_list("state", "is_held").get(pk=refused.pk)
    assert state == ("stopping", True)
    assert phases(stage).keys() == {job.public_id for job in others}


@pytest.mark.parametrize("count", [1, 4])
def test_the_rows_of_any_number_of_starts_are_asked_in_as_many_queries(
    stage, started, count, django_assert_num_queries
):
    attempts = {job.pk: 1 for job in started[:count]}
    bind_together(attempts, stage.gateway, at=stage.now)

    with django_assert_num_queries(9):
        bind_together(attempts, stage.gateway, at=stage.now)
