"""Devices as they are planned and as a node gives them, on boards of two quads joined by NVLink."""

from contextlib import contextmanager

import pytest

from scheduling.reports.devices_given import member_devices, placed_members
from scheduling.services.requests import GroupRequest, JobRequest, Wishes
from scheduling.services.submission import submit_job
from simcluster.fleet import NodeSpec
from simcluster.world import Options
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.stage import a_stage
from topology.models import ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)

QUADS = NodeSpec(
    name="dgx-1", model="V100-SXM", gpus=8, islands=(0, 0, 0, 0, 1, 1, 1, 1), numas=(0,) * 8
)
RUNS_ON = {"simcluster.muster.dev/run-seconds": "100000"}


@pytest.fixture
def two_quads(tmp_path, sent):
    """A stage of such a node, by how its device plugin is."""

    @contextmanager
    def begin(**options):
        with a_stage([QUADS], folder=tmp_path, sent=sent, options=Options(**options)) as stage:
            yield stage

    return begin


class Submitter:
    def __init__(self, stage):
        tenant = TenantFactory()
        QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=8)
        self.stage, self.tenant = stage, tenant
        self.person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user

    def __call__(self, members, gpus, *, island=False):
        request = JobRequest(
            name="train",
            cluster=self.stage.cluster,
            groups=(GroupRequest(members=members, gpus_per_member=gpus),),
            wishes=Wishes(needs_island=island),
            annotations=RUNS_ON,
        )
        return submit_job(request, tenant=self.tenant, by=self.person, at=self.stage.now)

    def running(self, *sizes, **wishes):
        """Jobs of these (members, GPUs each), all of which run."""
        jobs = [self(*size, **wishes) for size in sizes]
        self.stage.until(lambda: all(state_of(job) == "running" for job in jobs))
        return jobs


def state_of(job):
    job.refresh_from_db()
    return job.state


def devices_of(job):
    return [member_devices(member) for member in placed_members(job).order_by("rank")]


def quads_of(job):
    """The quads that a job was given GPUs of."""
    given = [label for own in devices_of(job) for label in own.given]
    assert given
    return {int(label) // 4 for label in given}


@pytest.mark.parametrize(("gang", "wish"), [((1, 4), False), ((2, 2), True), ((4, 1), True)])
def test_a_gang_of_four_lands_in_one_quad(two_quads, gang, wish):
    """One member's GPUs do so unasked; those of several where the job says that it needs it."""
    with two_quads() as stage:
        submit = Submitter(stage)
        submit.running((1, 1))

        (job,) = submit.running(gang, island=wish)

        assert len(quads_of(job)) == 1


def test_a_gang_of_four_that_needs_one_quad_waits_for_it(two_quads):
    with two_quads() as stage:
        submit = Submitter(stage)
        three, other = submit.running((1, 3), (1, 3))
        assert quads_of(three) != quads_of(other)

        job = submit(1, 2, island=True)
        stage.run(60)

        assert state_of(job) == "queued"


def test_a_pair_never_straddles(two_quads):
    with two_quads() as stage:
        submit = Submitter(stage)

        jobs = submit.running((1, 1), (1, 2), (1, 2), (1, 2))

        assert [len(quads_of(job)) for job in jobs] == [1, 1, 1, 1]


def test_what_was_given_is_what_was_planned_where_the_node_heeds_the_plan(two_quads):
    with two_quads() as stage:
        (job,) = Submitter(stage).running((2, 2))

        own = devices_of(job)

        assert [devices.given for devices in own] == [devices.planned for devices in own]
        assert not any(devices.differ for devices in own)


def test_a_plugin_that_chooses_by_itself_is_found_out(two_quads, client):
    with two_quads(chooses=True, seed=5) as stage:
        submit = Submitter(stage)
        (job,) = submit.running((1, 4))

        (own,) = devices_of(job)
        client.force_login(submit.person)
        (told,) = client.get(f"/api/v1/jobs/{job.public_id}/members").json()["items"]
        page = client.get(f"/jobs/{job.public_id}/").content.decode()

    assert (own.planned_islands, own.given_islands, own.is_split) == (1, 2, True)
    assert (told["differs"], told["planned_islands"], told["given_islands"]) == (True, 1, 2)
    assert told["given"] == list(own.given) != told["planned"] == list(own.planned)
    assert "1 of 1 members was given other devices than planned." in page
    assert "in 2 NVLink islands" in page
