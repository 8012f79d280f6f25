"""GPUs that nodes give by claims (DRA): each member is given just those of the plan."""

from dataclasses import replace

import pytest

from scheduling.services.lifecycle import cancel_job
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from simcluster.fleet import NodeSpec
from simcluster.world import Options
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.stage import a_stage
from tests.scheduling.test_devices_given_in_a_cluster import devices_of, state_of
from topology.models import ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)

QUADS = (0, 0, 0, 0, 1, 1, 1, 1)
BY_CLAIM = NodeSpec(name="dra-1", model="V100-SXM", gpus=8, islands=QUADS, dra=True)
BY_PLUGIN = NodeSpec(name="plain-1", model="V100-SXM", gpus=8, islands=QUADS)
CLAIMS = "/apis/resource.k8s.io/v1"


@pytest.fixture
def begin(tmp_path, sent):
    """A stage of such nodes, whose device plugins heed no plan."""
    options = Options(chooses=True, seed=5)
    return lambda *nodes: a_stage(list(nodes), folder=tmp_path, sent=sent, options=options)


def submitter(stage):
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=16)
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user

    def submit(members, gpus, *, seconds=100_000):
        group = GroupRequest(members=members, gpus_per_member=gpus)
        runs = {"simcluster.muster.dev/run-seconds": str(seconds)}
        request = JobRequest(name="train", cluster=stage.cluster, groups=(group,), annotations=runs)
        return submit_job(request, tenant=tenant, by=person, at=stage.now)

    return submit


def told(job):
    """Whether it is known of each member what it was given."""
    own = devices_of(job)
    return state_of(job) == "running" and own and all(devices.given for devices in own)


def held(stage):
    """What claims hold, by the pods that hold it."""
    claims = stage.sim.call("GET", f"{CLAIMS}/resourceclaims")["items"]
    return [claim["metadata"]["name"] for claim in claims if claim["status"].get("allocation")]


def test_each_member_is_given_the_gpus_of_the_plan_and_no_others(begin):
    with begin(BY_CLAIM) as stage:
        submit = submitter(stage)
        jobs = [submit(1, 1), submit(3, 2)]

        stage.until(lambda: all(told(job) for job in jobs))

        found = [devices for job in jobs for devices in devices_of(job)]
        assert [devices.given for devices in found] == [devices.planned for devices in found]
        assert [devices.given_islands for devices in found] == [1, 1, 1, 1]


def test_what_a_job_held_is_free_when_it_ends_and_nothing_stays_when_it_is_cancelled(begin):
    with begin(BY_CLAIM) as stage:
        submit = submitter(stage)
        done, cancelled = submit(1, 4, seconds=30), submit(1, 4)
        stage.until(lambda: told(cancelled) and state_of(done) == "succeeded")
        assert len(held(stage)) == 1

        cancel_job(cancelled, by=cancelled.owner, at=stage.now)
        stage.until(lambda: state_of(cancelled) == "cancelled")

        assert held(stage) == []
        left = stage.sim.call("GET", f"{CLAIMS}/resourceclaimtemplates")["items"]
        assert [own["metadata"]["name"] for own in left] == [f"{done.public_id}-main"]


def test_a_job_whose_nodes_give_gpus_in_two_ways_is_held_and_says_so(begin):
    with begin(BY_CLAIM, BY_PLUGIN) as stage:
        job = submitter(stage)(2, 8)

        stage.until(lambda: state_of(job) == "queued" and job.is_held)

        assert (
            "dra-1 gives its GPUs by claims (DRA) and plain-1 by a device plugin"
            in job.held_because
        )


def test_gpus_that_no_agent_tells_of_are_known_by_their_driver(begin):
    with begin(replace(BY_CLAIM, labels=(("a", "b"),))) as stage:
        (node,) = stage.sim.call("GET", "/api/v1/nodes")["items"]
        node["metadata"]["name"] = node["metadata"]["labels"]["kubernetes.io/hostname"] = "bare"
        for name in list(node["metadata"]["annotations"]):
            del node["metadata"]["annotations"][name]
        for name in ("uid", "resourceVersion", "managedFields"):
            node["metadata"].pop(name, None)
        (told_of,) = stage.sim.call("GET", f"{CLAIMS}/resourceslices")["items"]
        told_of["metadata"] = {"name": "bare-gpu"}
        told_of["spec"] |= {"nodeName": "bare", "pool": {**told_of["spec"]["pool"], "name": "bare"}}

        stage.sim.call("POST", f"{CLAIMS}/resourceslices", told_of)
        stage.sim.call("POST", "/api/v1/nodes", node)
        stage.until(lambda: stage.cluster.nodes.present().filter(name="bare").exists())

        bare = stage.cluster.nodes.get(name="bare")
        names = [gpu["attributes"]["uuid"]["string"] for gpu in told_of["spec"]["devices"]]
        assert list(bare.gpus.order_by("index").values_list("uuid", flat=True)) == names
        assert (bare.gpu_count, bare.gives_by_claim, bare.flavor) == (
            8,
            True,
            ResourceFlavor.objects.get(),
        )
