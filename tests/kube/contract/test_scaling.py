"""A gang that runs is given more members, or fewer."""

import pytest

from tests.kube.polling import eventually
from topology.kube.gateway import AttemptMoved, NotThere


def ranks(cluster_api, spec):
    """Of the members that are there and stay."""
    members = cluster_api.gateway.members(spec.key)
    return sorted(member.rank for member in members if not member.stopping)


def test_new_members_wait_at_the_gate_with_the_next_ranks(cluster_api):
    spec = cluster_api.spec()
    before = {member.pod_uid for member in cluster_api.held(spec)}

    cluster_api.gateway.scale_gang(spec.key, 4)
    cluster_api.gateway.scale_gang(spec.key, 4)

    assert eventually(lambda: ranks(cluster_api, spec) == [0, 1, 2, 3])
    gated = cluster_api.gateway.gated_members(spec.key)
    assert before < {member.pod_uid for member in gated}


def test_the_highest_ranks_go_whatever_the_others_do(cluster_api):
    spec = cluster_api.spec(members=4, gpus_per_member=1)
    members = cluster_api.held(spec)
    releases = cluster_api.onto(members[2:], cluster_api.nodes[0])
    assert cluster_api.gateway.release_all(releases) == ()  # the lower two still wait at the gate

    cluster_api.gateway.scale_gang(spec.key, 2)

    assert eventually(lambda: ranks(cluster_api, spec) == [0, 1])
    [group] = [own for own in cluster_api.gateway.gangs() if own.key == spec.key]
    assert group.outcome == ""


def test_a_gang_of_another_attempt_keeps_its_size(cluster_api):
    spec = cluster_api.spec()
    with pytest.raises(NotThere):
        cluster_api.gateway.scale_gang(spec.key, 1)
    cluster_api.held(cluster_api.spec(job=spec.job, attempt=2))

    with pytest.raises(AttemptMoved):
        cluster_api.gateway.scale_gang(spec.key, 1)
