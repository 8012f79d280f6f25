"""Parts of GPUs that HAMi gives by amounts: planned, asked for, and seen to be given."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from scheduling.models import PlacementGpu
from scheduling.services.lifecycle import cancel_job
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from simcluster.fleet import NodeSpec
from simcluster.world import Options
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.stage import a_stage
from tests.scheduling.test_devices_given_in_a_cluster import devices_of, state_of
from topology.models import Node, ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)

BY_HAMI = NodeSpec(name="hami-1", model="A100-40GB", gpus=4, islands=(0, 0, 1, 1), hami=10)
WHOLE = NodeSpec(name="plain-1", model="A100-40GB", gpus=4, islands=(0, 0, 1, 1))
GIB = 1024


@pytest.fixture
def begin(tmp_path, sent):
    """A stage of such nodes, by how HAMi and the device plugins are."""

    @contextmanager
    def begun(*nodes, **options):
        with a_stage(list(nodes), folder=tmp_path, sent=sent, options=Options(**options)) as stage:
            yield stage

    return begun


class Submitter:
    def __init__(self, stage, *, quota=8):
        tenant = TenantFactory()
        QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=quota)
        self.stage, self.tenant = stage, tenant
        self.person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user

    def __call__(self, members=1, *, milli=250, gib=10, whole=0, seconds=100_000):
        part = {} if whole else {"gpu_milli": milli, "gpu_mib": gib * GIB}
        request = JobRequest(
            name="serve",
            cluster=self.stage.cluster,
            groups=(GroupRequest(members=members, gpus_per_member=whole, **part),),
            annotations={"simcluster.muster.dev/run-seconds": str(seconds)},
        )
        return submit_job(request, tenant=self.tenant, by=self.person, at=self.stage.now)

    def running(self, *jobs):
        self.stage.until(lambda: all(is_told(job) for job in jobs))
        return [devices for job in jobs for devices in devices_of(job)]


def is_told(job):
    """Whether it runs, and it is known of each member what it was given."""
    own = devices_of(job)
    return state_of(job) == "running" and own and all(devices.given for devices in own)


def boards(labels):
    return [label.partition("#")[0] for label in labels]


def the_pod_of(stage, job):
    pods = stage.sim.call("GET", "/api/v1/pods")["items"]
    (pod,) = [
        pod for pod in pods if pod["metadata"]["labels"].get("muster.dev/job") == job.public_id
    ]
    return pod


def test_each_member_is_given_its_part_of_the_gpu_of_the_plan(begin):
    with begin(BY_HAMI) as stage:
        submit = Submitter(stage)

        found = submit.running(submit(3), submit(2, milli=500, gib=20), submit(milli=1000, gib=40))

        assert [boards(own.planned) for own in found] == [list(own.given) for own in found]
        assert not any(own.differ for own in found)
        assert {own.planned for own in found[:3]} == {("0#0",), ("0#1",), ("0#2",)}


def test_what_its_pod_asks_for_is_what_hami_understands(begin):
    with begin(BY_HAMI) as stage:
        submit = Submitter(stage)
        job = submit()
        submit.running(job)

        pod, gpu = the_pod_of(stage, job), Node.objects.get().gpus.get(index=0)

        limits, notes = (
            pod["spec"]["containers"][0]["resources"]["limits"],
            pod["metadata"]["annotations"],
        )
        assert limits == {
            "nvidia.com/gpu": "1",
            "nvidia.com/gpumem": "10240",
            "nvidia.com/gpucores": "25",
        }
        assert (pod["spec"]["schedulerName"], pod["spec"]["priorityClassName"]) == (
            "hami-scheduler",
            "muster-part",
        )
        assert (notes["nvidia.com/use-gpuuuid"], notes["nvidia.com/vgpu-mode"]) == (
            gpu.uuid,
            "hami-core",
        )
        assert notes["hami.io/vgpu-devices-allocated"] == f"{gpu.uuid},NVIDIA,10240,25:;"
        assert "hami.io/webhook" not in pod["metadata"]["labels"]


def test_a_part_costs_as_much_as_it_is_and_no_more_than_the_quota(begin):
    with begin(BY_HAMI) as stage:
        submit = Submitter(stage, quota=1)
        half, fits = submit(milli=500, gib=10), submit(milli=200, gib=16)
        submit.running(half, fits)

        too_much = submit(milli=200, gib=8)  # a tenth is left: of the second, memory is more
        stage.run(60)

        parts = dict(PlacementGpu.objects.values_list("placement__job", "parts"))
        assert parts == {half.pk: 84_000, fits.pk: 67_200}
        assert state_of(too_much) == "queued"


def test_no_gpu_is_given_out_beyond_its_processors_or_its_memory(begin):
    with begin(replace(BY_HAMI, gpus=1, islands=(0,))) as stage:
        submit = Submitter(stage)
        by_memory = [
            submit(milli=100, gib=18),
            submit(milli=100, gib=18),
            submit(milli=100, gib=18),
        ]
        stage.run(60)
        assert sorted(map(state_of, by_memory)) == ["queued", "running", "running"]

        (waits,) = [job for job in by_memory if state_of(job) == "queued"]
        first = next(job for job in by_memory if state_of(job) == "running")
        cancel_job(first, by=first.owner, at=stage.now)
        stage.until(lambda: is_told(waits))

        held = PlacementGpu.objects.filter(released_at=None)
        assert sorted(held.values_list("share", flat=True)) == [0, 1]


def test_hami_that_chooses_by_itself_is_found_out(begin, client):
    with begin(BY_HAMI, chooses=True, seed=3) as stage:
        submit = Submitter(stage)
        job = submit(4, milli=200, gib=8)

        found = submit.running(job)
        client.force_login(submit.person)
        page = client.get(f"/jobs/{job.public_id}/").content.decode()

        assert {tuple(boards(own.planned)) for own in found} == {("0",)}
        differ = sum(own.differ for own in found)
        assert differ > 0
        assert f"{differ} of 4 members" in page
        assert "20% 8 GiB" in page


def test_gpus_that_no_agent_tells_of_are_known_by_hami(begin):
    with begin(BY_HAMI) as stage:
        (node,) = stage.sim.call("GET", "/api/v1/nodes")["items"]
        named = [gpu["id"] for gpu in json.loads(node["metadata"]["annotations"][REGISTER])]
        node["metadata"]["annotations"] = {REGISTER: node["metadata"]["annotations"][REGISTER]}
        node["metadata"]["name"] = node["metadata"]["labels"]["kubernetes.io/hostname"] = "bare"
        for name in ("uid", "resourceVersion", "managedFields"):
            node["metadata"].pop(name, None)

        stage.sim.call("POST", "/api/v1/nodes", node)
        stage.until(lambda: stage.cluster.nodes.present().filter(name="bare").exists())

        bare = stage.cluster.nodes.get(name="bare")
        gpus = bare.gpus.order_by("index")
        assert list(gpus.values_list("uuid", "memory_mib", "mode")) == [
            (uuid, 40960, "hami") for uuid in named
        ]
        assert bare.gpu_count == 4


REGISTER = "hami.io/node-nvidia-register"


def test_a_node_whose_gpus_two_back_ends_hand_out_takes_no_jobs(begin, client):
    with begin(BY_HAMI) as stage:
        submit = Submitter(stage)
        path = "/api/v1/nodes/hami-1"
        there = stage.sim.call("GET", path)
        there["status"]["allocatable"]["nvidia.com/mig-1g.5gb"] = "7"
        stage.sim.call("PUT", f"{path}/status", there)
        stage.work()
        job = submit()
        stage.run(60)

        node = stage.cluster.nodes.get()
        client.force_login(submit.person)
        page = client.get(f"/cluster/nodes/{node.name}/").content.decode()

        assert "more than one back end hands out its GPUs" in page
        assert node.back_ends == ["device_plugin", "hami"]
        assert (node.is_mixed, node.is_open, state_of(job)) == (True, False, "queued")


def test_whole_gpus_and_parts_live_side_by_side_on_nodes_of_their_own(begin):
    with begin(BY_HAMI, WHOLE) as stage:
        submit = Submitter(stage)
        whole, part = submit(whole=4), submit()

        found = submit.running(whole, part)

        assert [own.differ for own in found] == [False, False]
        pod = the_pod_of(stage, whole)
        assert (pod["spec"]["nodeName"], pod["spec"]["schedulerName"]) == (
            "plain-1",
            "default-scheduler",
        )
        assert pod["metadata"]["labels"]["hami.io/webhook"] == "ignore"
