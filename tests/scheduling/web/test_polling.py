"""What a page that is left open asks again and again: cheap while nothing changes, never stale."""

import pytest

from scheduling.models import Job
from scheduling.states import JobState
from scheduling.web import job as job_door
from tenants.models import Membership, Role
from tests.factories import GpuFactory, MembershipFactory, NodeFactory
from topology.models import Cluster

PAGES = ("/jobs/{job}/", "/jobs/{job}/events/", "/jobs/", "/queue/", "/cluster/")


@pytest.fixture
def running(scene):
    return scene.jobs["llama-70b-pretrain"]


@pytest.fixture(autouse=True)
def _standing_clock(scene):
    Cluster.objects.update(clock_speed=0)  # or a minute of it would pass between two answers


class Tab:
    """A page that is open, and asks as htmx does."""

    def __init__(self, client, path):
        self.client, self.path = client, path
        self.tag = client.get(path)["ETag"]

    def asks(self):
        return self.client.get(
            self.path, headers={"HX-Request": "true", "If-None-Match": self.tag}
        ).status_code


def tabs_of(client, job):
    return [Tab(client, path.format(job=job.public_id)) for path in PAGES]


def test_a_page_in_which_nothing_changes_is_not_written_again(as_omar, running):
    tabs = tabs_of(as_omar, running)

    assert [tab.asks() for tab in tabs] == [304] * len(PAGES)


def test_an_answer_that_nothing_changed_reads_little(
    as_omar, running, django_assert_max_num_queries
):
    tabs = tabs_of(as_omar, running)

    for tab in tabs:
        with django_assert_max_num_queries(8):
            assert tab.asks() == 304


def test_the_page_of_a_job_asks_for_who_reads_and_for_the_job_alone(
    as_omar, running, django_assert_num_queries
):
    tab = Tab(as_omar, f"/jobs/{running.public_id}/")

    with django_assert_num_queries(3):  # session, user, job
        assert tab.asks() == 304


def test_who_signs_out_is_told_nothing_more(as_omar, running):
    tabs = tabs_of(as_omar, running)
    as_omar.logout()

    assert [tab.asks() for tab in tabs] == [401] * len(PAGES)


def test_whose_account_is_closed_is_told_nothing_more(as_omar, scene, running):
    tabs = tabs_of(as_omar, running)
    scene.omar.is_active = False
    scene.omar.save()

    assert [tab.asks() for tab in tabs] == [401] * len(PAGES)


def test_who_leaves_a_tenant_no_longer_finds_its_job_nor_what_they_saw_of_it(
    as_omar, scene, running
):
    tabs = tabs_of(as_omar, running)
    Membership.objects.filter(user=scene.omar, tenant=scene.language).delete()

    of_job, events, jobs, _queue, cluster = (tab.asks() for tab in tabs)
    assert (of_job, events, jobs, cluster) == (404, 404, 200, 200)


def test_another_role_changes_what_a_page_offers(client, scene, running):
    member = MembershipFactory(tenant=scene.language, role=Role.RESEARCHER)
    client.force_login(member.user)
    tabs = [Tab(client, path.format(job=running.public_id)) for path in PAGES[:2]]
    Membership.objects.filter(pk=member.pk).update(role=Role.VIEWER)

    assert [tab.asks() for tab in tabs] == [200, 200]


def test_a_change_of_a_job_is_seen_wherever_the_job_is(as_omar, scene):
    waiting = scene.jobs["moe-128-experts"]
    tabs = tabs_of(as_omar, waiting)
    Job.objects.filter(pk=waiting.pk).update(version=waiting.version + 1)

    assert [tab.asks() for tab in tabs[:4]] == [200] * 4


def test_a_change_while_a_page_is_written_is_seen_by_the_next_look(as_omar, running, monkeypatch):
    find = job_door.visible_job

    def late(request, public_id):
        Job.objects.filter(pk=running.pk).update(version=running.version + 1)
        return find(request, public_id)

    monkeypatch.setattr(job_door, "visible_job", late)
    tab = Tab(as_omar, f"/jobs/{running.public_id}/")

    assert tab.asks() == 200


def cordon(scene, running):
    scene.nodes[0].is_cordoned = True
    scene.nodes[0].save()


def taint(scene, running):
    scene.nodes[0].taints = [{"key": "team", "value": "", "effect": "NoSchedule"}]
    scene.nodes[0].save()


def mix(scene, running):
    scene.nodes[0].back_ends = ["hami", "volcano"]
    scene.nodes[0].save()


def add_node(scene, running):
    NodeFactory(cluster=scene.cluster)


def add_gpu(scene, running):
    GpuFactory(node=scene.nodes[0], index=30)


def spoil_gpu(scene, running):
    scene.nodes[0].gpus.filter(index=3).update(is_healthy=False)


def stop_job(scene, running):
    Job.objects.filter(pk=running.pk).update(
        state=JobState.STOPPING, stopping_to=JobState.CANCELLED
    )


def free_gpu(scene, running):
    member = running.members.first()
    member.devices.filter(pk=member.devices.first().pk).update(released_at=running.submitted_at)


def rename_tenant(scene, running):
    type(scene.vision).objects.filter(pk=scene.vision.pk).update(name="Sight")


@pytest.mark.parametrize(
    "change", [cordon, taint, mix, add_node, add_gpu, spoil_gpu, stop_job, free_gpu, rename_tenant]
)
@pytest.mark.parametrize("most_gpus", [40, 2_000], ids=["by node", "by GPU"])
def test_whatever_changes_in_a_map_is_seen(as_omar, scene, running, monkeypatch, change, most_gpus):
    monkeypatch.setattr("scheduling.web.map.MOST_GPUS", most_gpus)
    tab = Tab(as_omar, "/cluster/")
    change(scene, running)

    assert tab.asks() == 200
