"""Work that is not ours, as it is reported and written down."""

import pytest

from tests.factories import ClusterFactory, NodeFactory
from topology.kube.values import Listed, OthersSeen, StraySeen, Use
from topology.models import Cluster, Node
from topology.services.foreign import (
    observe_listed_labelled,
    observe_listed_others,
    observe_others,
    observe_stray,
)

pytestmark = pytest.mark.django_db

PLAIN = Use(cpu_milli=500, memory_mib=64)
TRAIN = Use(name="lab/train", gpus=2, cpu_milli=1000)


@pytest.fixture
def node():
    return NodeFactory(gpus=0)


def asked(node):
    """How many cycles were asked for."""
    return Cluster.objects.get(pk=node.cluster_id).cycle_asked


def found(node):
    return Node.objects.get(pk=node.pk)


def test_what_others_take_is_noted_and_planned_with_once(node):
    for _ in range(2):
        observe_others(node.cluster, OthersSeen(node=node.name, uses=(PLAIN, TRAIN)))

    assert (found(node).foreign_gpus, asked(node)) == (2, 1)
    assert [use["name"] for use in found(node).foreign] == ["", "lab/train"]


def test_what_others_took_is_given_back_when_a_list_names_the_node_no_more(node):
    other = NodeFactory(cluster=node.cluster, gpus=0)
    for own in (node, other):
        observe_others(node.cluster, OthersSeen(node=own.name, uses=(TRAIN,)))

    listed = Listed(kind="others", keys=frozenset({other.name}), version=9)
    observe_listed_others(node.cluster, listed)

    assert (found(node).others, found(other).foreign_gpus) == ([], 2)


def test_others_on_the_node_of_another_cluster_are_not_ours_to_count(node):
    observe_others(ClusterFactory(), OthersSeen(node=node.name, uses=(TRAIN,)))

    assert found(node).others == []


def stray(node, version, use=TRAIN, uid="u-1"):
    return StraySeen(node=node.name, uid=uid, version=version, use=use)


def test_a_stray_takes_its_room_until_it_is_gone(node):
    observe_stray(node.cluster, stray(node, 5))
    before = found(node).foreign_gpus

    observe_stray(node.cluster, stray(node, 6, use=None))

    assert (before, found(node).strays) == (2, {})


def test_an_old_report_of_a_stray_is_ignored(node):
    observe_stray(node.cluster, stray(node, 5))

    observe_stray(node.cluster, stray(node, 4, use=None))

    assert found(node).foreign_gpus == 2


def test_strays_that_a_list_lacks_are_gone_but_for_those_that_came_after_it(node):
    for uid, version in (("listed", 3), ("missing", 3), ("later", 8)):
        observe_stray(node.cluster, stray(node, version, uid=uid))

    listed = Listed(kind="members", keys=frozenset({"listed"}), version=5)
    observe_listed_labelled(node.cluster, listed)

    assert found(node).strays.keys() == {"listed", "later"}


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [
        ({}, True),
        ({"taints": [{"key": "team", "value": "", "effect": "PreferNoSchedule"}]}, True),
        ({"taints": [{"key": "team", "value": "", "effect": "NoSchedule"}]}, False),
        ({"taints": [{"key": "team", "value": "", "effect": "NoExecute"}]}, False),
        ({"others": [{"scheduler": "volcano", "gpus": 0}]}, True),
        ({"others": [{"scheduler": "", "gpus": 2}]}, True),
        ({"others": [{"scheduler": "volcano", "gpus": 2}]}, False),
        ({"strays": {"u-1": {"scheduler": "volcano", "gpus": 2}}}, False),
    ],
)
def test_a_node_is_closed_by_a_taint_or_by_another_scheduler_that_gives_its_gpus(changes, is_open):
    assert Node(**changes).is_open == is_open
