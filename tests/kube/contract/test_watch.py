"""What the watch tells of the things that happen in a cluster."""

from collections import Counter

from tests.kube.polling import eventually
from topology.kube.values import (
    GroupSeen,
    ListBegun,
    Listed,
    MemberSeen,
    NodeSeen,
    OthersSeen,
    StraySeen,
    Use,
)

PHASES = ("gated", "binding", "bound", "running", "succeeded")


def listed(heard):
    return {seen.kind: seen for seen in heard if isinstance(seen, Listed)}


def everything_listed(heard):
    return len(listed(heard)) == 6


def phases(heard, rank):
    """The phases of one member, in the order told, each once."""
    told = [seen.phase for seen in heard if isinstance(seen, MemberSeen) and seen.rank == rank]
    return list(dict.fromkeys(told))


def outcomes(heard):
    return [seen.outcome for seen in heard if isinstance(seen, GroupSeen)]


def test_what_is_there_is_told_before_it_is_said_to_be_all(cluster_api):
    spec = cluster_api.spec()
    members = cluster_api.held(spec)

    with cluster_api.watching() as heard:
        eventually(lambda: everything_listed(heard))

    nodes = [seen.name for seen in heard if isinstance(seen, NodeSeen)]
    assert sorted(nodes) == sorted(cluster_api.nodes)
    assert {kind: seen.keys for kind, seen in listed(heard).items()} == {
        "nodes": frozenset(cluster_api.nodes),
        "members": frozenset(member.pod_uid for member in members),
        "groups": frozenset({f"{spec.job}/main"}),
        "others": frozenset(),
        "claims": frozenset(),
        "claimables": frozenset(),
    }
    about_nodes = [seen for seen in heard if getattr(seen, "kind", "nodes") == "nodes"]
    told = [type(seen) for seen in about_nodes if isinstance(seen, ListBegun | NodeSeen | Listed)]
    assert (told[0], told[1], told[-1]) == (ListBegun, NodeSeen, Listed)


def test_a_members_life_is_told_in_its_order(cluster_api):
    spec, node = cluster_api.spec(members=1), cluster_api.nodes[0]

    with cluster_api.watching() as heard:
        eventually(lambda: everything_listed(heard))
        members = cluster_api.held(spec)
        cluster_api.gateway.release_all(cluster_api.onto(members, node))
        cluster_api.await_phases(spec, "bound")
        cluster_api.provider.start_members(spec.namespace)
        cluster_api.await_phases(spec, "running")
        cluster_api.provider.end_members(spec.namespace)
        eventually(lambda: "complete" in outcomes(heard))
        eventually(lambda: "succeeded" in phases(heard, 0))

    told = phases(heard, 0)  # a slow listener is spared what has passed
    assert told == [phase for phase in PHASES if phase in told]
    assert told[-1] == "succeeded"
    versions = [seen.version for seen in heard if isinstance(seen, MemberSeen)]
    assert versions == sorted(versions)


def test_a_pod_and_a_gang_that_go_are_told_gone(cluster_api):
    spec = cluster_api.spec()
    cluster_api.held(spec)

    with cluster_api.watching() as heard:
        eventually(lambda: everything_listed(heard))
        cluster_api.gateway.delete_gang(spec.key)
        eventually(
            lambda: Counter(m.phase for m in heard if isinstance(m, MemberSeen))["gone"] == 2
        )
        eventually(lambda: any(g.gone for g in heard if isinstance(g, GroupSeen)))

    assert phases(heard, 0) == phases(heard, 1) == ["gated", "gone"]


def theirs(name, *, node, gpus="2", **metadata):
    """A pod of somebody else's, which an administrator put straight on its node."""
    resources = {"limits": {"nvidia.com/gpu": gpus}, "requests": {"cpu": "250m"}}
    container = {"name": "main", "image": "busybox:1", "resources": resources}
    metadata = {"name": name, **metadata}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [container]}}


def others(heard, node):
    """What was told of others on a node, in the order told, each once."""
    told = [seen.uses for seen in heard if isinstance(seen, OthersSeen) and seen.node == node]
    return list(dict.fromkeys(told))


def test_what_is_not_ours_is_told_by_its_node_from_the_first_list_to_its_end(cluster_api):
    node, kube = cluster_api.nodes[0], cluster_api.kube
    kube.create(kube.pods, theirs("a", node=node))
    use = Use(name=f"{cluster_api.namespace}/a", gpus=2, cpu_milli=250)

    with cluster_api.watching() as heard:
        eventually(lambda: everything_listed(heard))
        kube.delete(f"{kube.pods}/a", gracePeriodSeconds="0")
        eventually(lambda: others(heard, node)[-1] == ())

    assert others(heard, node) == [(use,), ()]
    assert listed(heard)["others"].keys == {node}


def test_what_bears_our_label_and_is_no_member_is_told_as_a_stray(cluster_api):
    node, kube = cluster_api.nodes[0], cluster_api.kube
    stray = theirs("a", node=node, labels={"muster.dev/job": "j-gone"})

    with cluster_api.watching() as heard:
        eventually(lambda: everything_listed(heard))
        kube.create(kube.pods, stray)
        kube.delete(f"{kube.pods}/a", gracePeriodSeconds="0")
        eventually(lambda: [s for s in heard if isinstance(s, StraySeen) and s.use is None])

    assert {seen.node for seen in heard if isinstance(seen, StraySeen)} == {node}
    assert others(heard, node) == []


def test_a_long_list_comes_in_pages(cluster_api, monkeypatch):
    monkeypatch.setattr("topology.kube.wire.PAGE", 2)
    spec = cluster_api.spec(members=5)

    members = cluster_api.held(spec)

    assert [member.rank for member in members] == [0, 1, 2, 3, 4]
