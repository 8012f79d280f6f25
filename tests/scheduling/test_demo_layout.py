"""The demo's node that is not as a rollout left it."""

import pytest
from django.utils import timezone

from scheduling.reports.layouts import drift_in
from scheduling.services.demo_layout import tell_of_a_rollout
from tests.factories import ClusterFactory, FlavorFactory, NodeFactory, UserFactory
from topology.models import NodeChange, Rollout

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    """Two nodes of eight A100 with 80 GB, none of them cut."""
    cluster = ClusterFactory(slug="demo", is_simulated=True)
    flavor = FlavorFactory(cluster=cluster, gpu_model="NVIDIA-A100-SXM4-80GB")
    for name in ("a100-1", "a100-2"):
        node = NodeFactory(cluster=cluster, flavor=flavor, name=name)
        node.gpus.update(model="NVIDIA-A100-SXM4-80GB", memory_mib=81_920)
        node.layout_seen = {"offers": {"nvidia.com/gpu": 8}}
        node.save()
    return cluster


def test_one_node_is_no_longer_as_it_was_verified_however_often_it_is_told(cluster):
    operator, at = UserFactory(is_operator=True), timezone.now()

    for _ in range(2):
        tell_of_a_rollout(cluster, by=operator, at=at)

    (row,) = drift_in(cluster)
    assert (row.node.name, row.seen) == ("a100-2", {"nvidia.com/gpu": 8})
    assert row.wanted == {"nvidia.com/gpu": 7, "nvidia.com/mig-3g.40gb": 2}
    rollout = Rollout.objects.get()
    assert (rollout.state, rollout.begun_by, rollout.ended_at < at) == ("done", operator, True)
    assert not NodeChange.objects.filter(is_claimed=True).exists()


def test_where_no_node_is_of_that_kind_no_rollout_is_told_of(cluster):
    cluster.nodes.update(gone_at=timezone.now())

    tell_of_a_rollout(cluster, by=UserFactory(is_operator=True), at=timezone.now())

    assert not Rollout.objects.exists()
