"""Pods of a large gang are made batch after batch: whoever opens the gates waits for the last."""

import pytest

from scheduling.models import Job
from scheduling.services import binding
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.stage import a_stage
from topology.models import ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)

MEMBERS = 50


@pytest.fixture
def stage(tmp_path, sent, monkeypatch):
    monkeypatch.setattr(binding, "PAUSE_SECONDS", 0.0)
    with a_stage("1xH100-SXM:8", folder=tmp_path, sent=sent) as stage:
        yield stage


@pytest.fixture
def job(stage, sent):
    """A gang that a cycle has just decided to start."""
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=8)
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user
    group = GroupRequest(members=MEMBERS, gpus_per_member=0, cpu_milli=10)
    request = JobRequest(name="train", cluster=stage.cluster, groups=(group,))
    job = submit_job(request, tenant=tenant, by=person, at=stage.now)
    stage.run_cycle(stage.cluster.pk)
    sent.clear()
    return Job.objects.get(pk=job.pk)


class Arriving:
    """A gateway to a cluster that makes one pod between two looks, up to so many of them."""

    def __init__(self, gateway, *, most):
        self._gateway = gateway
        self._there, self._most = 0, most

    def __getattr__(self, name):
        return getattr(self._gateway, name)

    def members(self, key):
        self._there = min(self._there + 1, self._most)
        pods = sorted(self._gateway.members(key), key=lambda pod: pod.rank)
        return tuple(pods[: self._there])


def open_gates(stage, job):
    pods = stage.gateway.members()
    return sum(pod.phase != "gated" for pod in pods if pod.job == job.public_id)


def test_the_gates_are_opened_when_the_last_pod_has_come(stage, job):
    gateway = Arriving(stage.gateway, most=MEMBERS)

    assert binding.bind(job.pk, 1, gateway, at=stage.now)
    assert open_gates(stage, job) == MEMBERS


def test_no_gate_is_opened_while_a_pod_does_not_come(stage, job, monkeypatch):
    monkeypatch.setattr(binding, "PATIENCE_SECONDS", 0.0)

    assert not binding.bind(job.pk, 1, Arriving(stage.gateway, most=MEMBERS - 1), at=stage.now)
    assert open_gates(stage, job) == 0
    assert binding.bind(job.pk, 1, stage.gateway, at=stage.now)
    assert open_gates(stage, job) == MEMBERS
