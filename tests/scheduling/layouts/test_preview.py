"""What a rollout would do, told before it is begun."""

import pytest

from scheduling.reports.layouts import with_boards
from scheduling.reports.rollout_preview import preview_rollout
from tests.factories import (
    FlavorFactory,
    JobFactory,
    JobGroupFactory,
    LayoutVersionFactory,
    NodeFactory,
    PlacementFactory,
    PlacementGpuFactory,
)
from topology.layouts.preview import Reset
from topology.models import Node

pytestmark = pytest.mark.django_db


@pytest.fixture
def version():
    """Halves on four of eight A100s."""
    return LayoutVersionFactory(cuts=[{"3g.20gb": 2}] * 4 + [None] * 4)


@pytest.fixture
def nodes(version):
    """Two nodes of whole GPUs, as they say themselves."""
    flavor = FlavorFactory(cluster=version.layout.cluster, name="A100-40GB")
    made = NodeFactory.create_batch(2, cluster=version.layout.cluster, flavor=flavor)
    seen = {"offers": {"nvidia.com/gpu": 8}, "strategy": "mixed"}
    Node.objects.update(layout_seen=seen)
    return made


def looked(version, nodes):
    found = with_boards(Node.objects.filter(pk__in=[node.pk for node in nodes]))
    return preview_rollout(version, list(found), wave=1, max_unavailable=1)


def waiting(version, **asks):
    job = JobFactory(cluster=version.layout.cluster, members=0)
    JobGroupFactory(job=job, **{"gpus_per_member": 0, **asks})
    return job


def test_every_node_says_what_it_offers_now_and_then(version, nodes):
    found = looked(version, nodes)

    assert [
        (own.preview.before.resources, own.preview.after.resources, own.preview.reset)
        for own in found.nodes
    ] == [
        ({"nvidia.com/gpu": 8}, {"nvidia.com/mig-3g.20gb": 8, "nvidia.com/gpu": 4}, Reset.NODE)
    ] * 2
    assert [len(wave) for wave in found.waves] == [1, 1]
    assert found.seconds == (240, 1200)


def test_jobs_that_gain_and_lose_a_home_are_named(version, nodes):
    eight = waiting(version, gpus_per_member=8)
    four = waiting(version, gpus_per_member=4, min_member=2, max_member=2)
    slices = waiting(
        version, slice_profile="3g.20gb", slices_per_member=2, min_member=4, max_member=4
    )
    sevenths = waiting(version, slice_profile="1g.5gb", slices_per_member=1)

    found = looked(version, nodes)

    assert (found.gains, found.loses) == ((slices,), (eight,))
    assert {four, sevenths}.isdisjoint({*found.gains, *found.loses})


def test_a_reset_needs_every_gpu_of_the_node_empty(version, nodes):
    placement = PlacementFactory(node=nodes[0], job__cluster=version.layout.cluster)
    PlacementGpuFactory(placement=placement, gpu=nodes[0].gpus.get(index=7))

    found = looked(version, nodes)

    assert found.jobs == (placement.job,)
    assert [own.jobs for own in found.nodes] == [(placement.job,), ()]


def test_time_slicing_lets_what_runs_go_on(nodes, version):
    placement = PlacementFactory(node=nodes[0], job__cluster=version.layout.cluster)
    PlacementGpuFactory(placement=placement, gpu=nodes[0].gpus.get(index=7))
    shared = LayoutVersionFactory(
        layout=version.layout, cuts=[None] * 8, sharing="time_slicing", replicas=4, rename=True
    )

    found = looked(shared, nodes)

    assert found.jobs == ()
    assert found.nodes[0].preview.after.resources == {"nvidia.com/gpu.shared": 32}
    assert found.vanishing == ("nvidia.com/gpu",)


def test_the_files_are_told_as_a_difference(version, nodes):
    found = dict(looked(version, nodes).files)

    lines = "\n".join(found[f"mig-parted · {nodes[1].name}"])
    assert "+      3g.20gb: 2" in lines
    assert "-  - devices: all" in lines
