"""Rollouts that want the same nodes: one at a time, and who comes second is told so."""

from functools import partial

import pytest

from portal.core.errors import Conflict, Refused
from scheduling.services.connecting import only_look_at
from scheduling.services.layouts.rollouts import RolloutRequest, begin_rollout, revert_rollout
from scheduling.services.layouts.versions import VersionRequest, make_layout
from tests.factories import (
    ClusterFactory,
    LayoutVersionFactory,
    NodeChangeFactory,
    NodeFactory,
    RolloutFactory,
    UserFactory,
)
from tests.factories.topology import T0
from tests.tenants.services.test_quota_races import at_once
from topology.models import Layout, NodeChange, Rollout

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def root():
    return UserFactory(is_operator=True)


@pytest.fixture
def node():
    return NodeFactory(gpus=8, flavor__gpu_model="A100-40GB", cluster__is_writable=True)


def version(node):
    return LayoutVersionFactory(layout__cluster=node.cluster)


def ended(node, *, state="done", step="verified", is_claimed=False):
    """A rollout of the past that changed the node."""
    rollout = RolloutFactory(version=version(node), state=state, ended_at=T0)
    NodeChangeFactory(rollout=rollout, node=node, step=step, is_claimed=is_claimed)
    return rollout


def test_a_rollout_is_not_reverted_while_a_later_one_goes_back_with_its_node(node, root):
    first = ended(node)
    later = ended(node, state="reverting", step="reverted", is_claimed=True)

    with pytest.raises(Conflict, match="in hand"):
        revert_rollout(first, by=root, at=T0)

    first.refresh_from_db()
    assert (first.state, later.changes.get().is_claimed) == ("done", True)


def test_what_is_reverted_stays_so_when_it_is_reverted_again(node, root):
    gone_back = ended(node, state="reverted", step="reverted")
    ended(node, state="running", step="mig", is_claimed=True)

    with pytest.raises(Conflict):
        revert_rollout(gone_back, by=root, at=T0)


def test_of_a_revert_and_a_rollout_at_once_one_is_told(node, root):
    done = ended(node)
    request = RolloutRequest(version=version(node), nodes=[node])

    came_to = at_once(
        partial(begin_rollout, request, by=root, at=T0),
        partial(revert_rollout, done, by=root, at=T0),
    )

    assert [type(own) for own in came_to if own is not None] == [Conflict]
    assert NodeChange.objects.filter(node=node, is_claimed=True).count() == 1


def test_of_two_operators_who_begin_at_once_one_is_told(node, root):
    requests = [RolloutRequest(version=version(node), nodes=[node]) for _ in range(2)]

    came_to = at_once(*(partial(begin_rollout, own, by=root, at=T0) for own in requests))

    assert [type(own) for own in came_to if own is not None] == [Conflict]
    assert Rollout.objects.count() == 1


def test_a_cluster_in_which_nodes_are_changed_stays_managed(node, root):
    ended(node, state="paused", step="failed", is_claimed=True)

    with pytest.raises(Refused, match="A rollout has nodes in hand"):
        only_look_at(node.cluster, by=root)

    node.cluster.refresh_from_db()
    assert node.cluster.is_writable


def test_no_rollout_begins_in_a_cluster_that_is_only_looked_at_by_now(node, root):
    request = RolloutRequest(version=version(node), nodes=[node])
    only_look_at(type(node.cluster).objects.get(), by=root)

    with pytest.raises(Refused, match="look only"):
        begin_rollout(request, by=root, at=T0)


def test_of_two_layouts_of_one_name_made_at_once_one_is_refused(root):
    make = partial(
        make_layout,
        VersionRequest(cuts=({"3g.20gb": 2},)),
        cluster=ClusterFactory(),
        name="Halves",
        gpu_model="A100-40GB",
        by=root,
    )

    came_to = at_once(make, make)

    assert [type(own) for own in came_to if own is not None] == [Refused]
    assert Layout.objects.count() == 1
