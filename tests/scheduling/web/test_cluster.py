"""The queue, the map, a node, quota: what each reader sees of them."""

import re
from datetime import timedelta

import pytest

from scheduling.models import Job
from tests.factories import JobFactory, NodeFactory, PlacementGpuFactory

LEGEND = re.compile(r'<li data-kind="(\w+)">.*?<span class="count">(\d+)</span>', re.DOTALL)


def legend_of(response):
    return {kind: int(count) for kind, count in LEGEND.findall(response.content.decode())}


def test_the_queue_is_in_the_schedulers_order_and_masks_what_is_not_ours(as_omar, scene):
    response = as_omar.get("/queue/")

    rows = response.context["rows"]
    waiting = Job.objects.waiting().in_queue_order()
    assert [row.tenant for row in rows] == [job.tenant.slug for job in waiting]
    assert [row.row.job.name if row.row else None for row in rows] == [
        "moe-128-experts",
        None,
        "ablation-dropout",
        "fresh-submission",
    ]
    assert b"secret-of-vision" not in response.content
    assert b"Your first is number 1." in response.content


def test_ones_own_places_in_the_queue_can_be_picked_out(client, scene):
    client.force_login(scene.vera)

    response = client.get("/queue/", {"owner": "me"})

    assert [row.position for row in response.context["rows"]] == [2]


@pytest.mark.parametrize("count", [1, 3])
def test_the_queue_costs_the_same_for_any_number_of_jobs(
    as_omar, scene, count, django_assert_num_queries
):
    JobFactory.create_batch(count, cluster=scene.cluster, tenant=scene.language)

    # session, user, two of the frame, order, keys, versions, jobs, groups, flavors,
    # tenants, and times by two
    with django_assert_num_queries(13):
        as_omar.get("/queue/")


def test_the_map_counts_every_gpu_once(as_omar):
    legend = legend_of(as_omar.get("/cluster/"))

    assert legend == {
        "free": 26,
        "mine": 16,
        "moving": 6,
        "other": 15,
        "closed": 8,
        "fault": 1,
        "unknown": 8,
    }


def test_the_map_tells_an_operator_of_every_job(client, scene):
    client.force_login(scene.root)

    legend = legend_of(client.get("/cluster/"))

    assert (legend["mine"], "other" in legend) == (31, False)


def test_the_map_names_another_tenants_job_nowhere(as_omar, scene):
    page = as_omar.get("/cluster/").content.decode()

    assert "yolo-detector" not in page
    assert scene.jobs["yolo-detector"].public_id not in page
    assert "GPU 0 of a100-02: in use by other tenants – Vision" in page


@pytest.mark.parametrize("count", [1, 3])
def test_the_map_costs_the_same_for_any_number_of_nodes(
    as_omar, scene, count, django_assert_num_queries
):
    NodeFactory.create_batch(count, cluster=scene.cluster, flavor=scene.flavors[0])

    # session, user, clusters, announcements, marks (4), size, nodes, GPUs, own tenants, holders
    with django_assert_num_queries(13):
        as_omar.get("/cluster/")


def test_the_map_is_304_until_a_gpu_changes_hands(as_omar, scene):
    htmx = {"HX-Request": "true"}
    first = as_omar.get("/cluster/", headers=htmx)
    htmx["If-None-Match"] = first["ETag"]

    same = as_omar.get("/cluster/", headers=htmx)
    member = scene.jobs["eval-harness"].members.get()
    PlacementGpuFactory(member=member, gpu=scene.nodes[11].gpus.first())
    changed = as_omar.get("/cluster/", headers=htmx)

    assert (same.status_code, changed.status_code) == (304, 200)


def test_a_cluster_without_nodes_has_a_map_that_says_so(client, scene):
    scene.cluster.nodes.update(gone_at="2026-03-02T12:00Z")
    client.force_login(scene.omar)

    assert b"No node has been reported yet." in client.get("/cluster/").content


def test_a_node_shows_its_islands_and_the_jobs_on_it(as_omar):
    response = as_omar.get("/cluster/nodes/a100-01/")

    picture = response.context["picture"]
    islands = [[gpu.index for gpu in island] for island in picture.plan.islands]
    assert islands == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [row.job.name for row in response.context["rows"]] == ["eval-harness"]


def test_a_node_shows_its_last_change_by_the_clusters_clock(as_omar, scene):
    node = scene.cluster.nodes.get(name="a100-01")
    node.seen_at = scene.cluster.clock_wall_at + timedelta(seconds=2)
    node.save()

    response = as_omar.get("/cluster/nodes/a100-01/")

    passed = timedelta(seconds=2) * scene.cluster.clock_speed
    assert response.context["changed_at"] == scene.cluster.clock_at + passed


def test_a_node_that_does_not_exist_is_404(as_omar):
    assert as_omar.get("/cluster/nodes/nowhere/").status_code == 404


def test_a_tenant_shows_quota_and_people(client, scene):
    client.force_login(scene.mei)

    response = client.get("/tenants/nlp/")

    quotas = response.context["use"].quotas
    assert [(q.flavor, q.guaranteed, q.used, q.free) for q in quotas] == [
        ("A100-80GB", 12, 4, 8),
        ("H100-SXM", 16, 16, 0),
        ("L40S", 4, 2, 2),
    ]
    people = response.context["people"]
    assert [(p.membership.user.username, p.use.gpus, p.use.waiting) for p in people] == [
        ("mei", 4, 0),
        ("omar", 18, 3),
    ]


def test_another_tenant_does_not_exist(as_omar):
    assert as_omar.get("/tenants/vision/").status_code == 404


def test_quota_lists_ones_own_tenants(as_omar, client, scene):
    mine = re.findall(r'data-tenant="(\w+)"', as_omar.get("/quota/").content.decode())
    client.force_login(scene.root)
    every = re.findall(r'data-tenant="(\w+)"', client.get("/quota/").content.decode())

    assert (mine, every) == (["nlp"], ["nlp", "vision"])


def test_a_node_shows_its_links_and_what_its_agent_saw(as_omar, scene):
    node = scene.nodes[0]
    links = {"gpus": [0, 1, 2], "links": ["NV18 SYS", "PHB"]}
    node.survey = {"links": links, "driver": {"state": "hangs", "why": "no answer within 10 s"}}
    node.save()

    page = as_omar.get(f"/cluster/nodes/{node.name}/").content.decode()

    assert page.count("<strong>NV18</strong>") == 2
    assert "across the link between CPU sockets" in page
    assert "does not answer in time" in page
    assert "no answer within 10 s" in page


THEIRS = {"name": "lab/train", "gpus": 2, "cpu_milli": 0, "memory_mib": 0, "scheduler": "volcano"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"others": [THEIRS]},
            b"Another scheduler, volcano, hands out its GPUs, so Muster does not.",
        ),
        (
            {"taints": [{"key": "team", "value": "", "effect": "NoSchedule"}]},
            b"It takes no jobs: one of its taints keeps their members away.",
        ),
    ],
    ids=["another scheduler", "a taint"],
)
def test_a_node_that_is_left_to_others_says_why(client, scene, changes, says):
    client.force_login(scene.root)
    node = NodeFactory(cluster=scene.cluster, **changes)

    response = client.get(f"/cluster/nodes/{node.name}/")

    assert says in response.content
    assert b'data-state="closed"' in response.content


@pytest.mark.parametrize(("reader", "is_named"), [("root", True), ("vera", False)])
def test_what_others_hold_of_a_node_is_counted_for_all_and_named_to_operators(
    client, scene, reader, is_named
):
    client.force_login(getattr(scene, reader))
    node = NodeFactory(cluster=scene.cluster, others=[THEIRS | {"scheduler": ""}])

    response = client.get(f"/cluster/nodes/{node.name}/")

    assert b"2 of its GPUs are held by work that Muster did not start." in response.content
    assert (b"lab/train" in response.content) == is_named


@pytest.fixture
def large(monkeypatch):
    """As if a handful of GPUs were too many to be drawn one by one."""
    monkeypatch.setattr("scheduling.web.map.MOST_GPUS", 40)


def test_a_large_map_has_a_cell_for_each_node_and_counts_the_same_gpus(as_omar, monkeypatch):
    near = as_omar.get("/cluster/")
    monkeypatch.setattr("scheduling.web.map.MOST_GPUS", 40)

    far = as_omar.get("/cluster/")

    page = far.content.decode()
    assert legend_of(far) == legend_of(near)
    assert page.count('class="far-cell') == far.context["map"].node_count == 12
    assert "h100-01: open, 0 of 8 GPUs free" in page
    assert "secret-of-vision" not in page
    rows = re.findall(r'<tr data-state="(\w+)">', page)
    assert rows == re.findall(r'<tr data-state="(\w+)">', near.content.decode())


@pytest.mark.parametrize(("part", "nodes"), [("rack=rack-1", 6), ("pool=L40S", 4)])
def test_a_part_of_a_large_map_is_drawn_gpu_by_gpu(as_omar, large, part, nodes):
    response = as_omar.get(f"/cluster/?{part}")

    page = response.content.decode()
    assert page.count('<svg class="node-box"') == nodes
    assert 'id="map-whole"' in page
    assert 'class="far-cell' not in page


def test_a_large_map_costs_the_same_for_any_number_of_nodes(
    as_omar, scene, large, django_assert_num_queries
):
    NodeFactory.create_batch(3, cluster=scene.cluster, flavor=scene.flavors[0])

    # session, user, clusters, announcements, marks (4), size, own tenants, GPUs, held, nodes
    with django_assert_num_queries(13):
        as_omar.get("/cluster/")
