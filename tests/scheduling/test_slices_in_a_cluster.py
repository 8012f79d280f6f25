"""Slices and shares asked for by jobs, as pods ask for them and device plugins give them out."""

import json

import pytest

from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.stage import a_stage
from topology.kube.wire import MERGE_PATCH, Request
from topology.models import Gpu, ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)

GIVEN = "simcluster.muster.dev/devices"


@pytest.fixture
def stage(tmp_path, sent):
    with a_stage("1xA100-40GB:2", folder=tmp_path, sent=sent) as stage:
        yield stage


@pytest.fixture
def submit(stage):
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=2)
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user

    def submit(**devices):
        group = GroupRequest(**{"gpus_per_member": 0, **devices})
        request = JobRequest(name="infer", cluster=stage.cluster, groups=(group,))
        return submit_job(request, tenant=tenant, by=person, at=stage.now)

    return submit


def rewrite(stage, *, gpus=None, labels=None, offers):
    """Let the node say otherwise of its GPUs, and offer other resources."""
    (node,) = stage.sim.call("GET", "/api/v1/nodes")["items"]
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    notes = {} if gpus is None else {"muster.dev/gpus": json.dumps(gpus)}
    patch(stage, path, {"metadata": {"labels": labels or {}, "annotations": notes}})
    patch(stage, f"{path}/status", {"status": {"capacity": offers, "allocatable": offers}})


def patch(stage, path, body):
    stage.gateway.wire.ask(Request(method="PATCH", path=path, body=body, kind=MERGE_PATCH))


def boards(stage):
    (node,) = stage.sim.call("GET", "/api/v1/nodes")["items"]
    return json.loads(node["metadata"]["annotations"]["muster.dev/gpus"])


def asked_and_given(stage, job):
    (pod,) = stage.sim.call("GET", f"/api/v1/pods?labelSelector=muster.dev/job={job.public_id}")[
        "items"
    ]
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    return limits, pod["metadata"]["annotations"].get(GIVEN)


def runs(job):
    job.refresh_from_db()
    return job.state == "running"


def test_a_pod_is_given_the_slice_that_was_planned(stage, submit):
    first, second = boards(stage)
    slices = ["3g.20gb@0", "3g.20gb@4"]
    rewrite(
        stage,
        gpus=[{**first, "mig": True, "slices": slices}, second],
        offers={"nvidia.com/gpu": "1", "nvidia.com/mig-3g.20gb": "2"},
    )
    stage.work()

    jobs = [submit(slice_profile="3g.20gb", slices_per_member=1) for _ in range(2)]
    whole = submit(gpus_per_member=1)

    stage.until(lambda: all(runs(job) for job in (*jobs, whole)))
    asked = {"nvidia.com/mig-3g.20gb": "1"}
    assert [asked_and_given(stage, job) for job in jobs] == [(asked, "0@0"), (asked, "0@4")]
    assert asked_and_given(stage, whole) == ({"nvidia.com/gpu": "1"}, "1")


def test_a_pod_is_given_the_share_that_was_planned(stage, submit):
    rewrite(
        stage,
        labels={
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
            "nvidia.com/gpu.replicas": "2",
        },
        offers={"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "4"},
    )
    stage.work()
    assert {gpu.replicas for gpu in Gpu.objects.all()} == {2}

    jobs = [submit(shares_per_member=1) for _ in range(4)]

    stage.until(lambda: all(runs(job) for job in jobs))
    given = [asked_and_given(stage, job) for job in jobs]
    assert {str(limits) for limits, _ in given} == {"{'nvidia.com/gpu.shared': '1'}"}
    assert sorted(device for _, device in given) == ["0#0", "0#1", "1#0", "1#1"]
