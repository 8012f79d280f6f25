"""From a held gang to its end, as the gateway does it and as the cluster shows it."""

from dataclasses import replace

import pytest

from topology.kube.gateway import AttemptMoved, ClusterAway, NotThere, RefusedByCluster
from topology.kube.values import NotReleased

DEVICES, GATE = "muster.dev/devices", "muster.dev/gate"


def test_a_gang_is_made_once_and_suspended(cluster_api):
    spec = cluster_api.spec()

    cluster_api.gateway.ensure_gang(spec)
    cluster_api.gateway.ensure_gang(spec)

    [group] = cluster_api.gateway.gangs()
    assert (group.key, group.is_suspended, group.outcome) == (spec.key, True, "")
    assert cluster_api.gateway.members() == ()


def test_a_gang_of_one_is_open_at_once_and_its_pod_waits_at_the_gate(cluster_api):
    spec = cluster_api.spec(members=1)

    cluster_api.gateway.ensure_gang(spec)
    [member] = cluster_api.waiting(spec)

    [group] = cluster_api.gateway.gangs()
    assert (group.is_suspended, member.rank, member.phase, member.node) == (False, 0, "gated", "")


def test_a_gang_of_one_that_was_suspended_is_opened_when_it_is_made_again(cluster_api):
    spec = cluster_api.spec(members=1)
    cluster_api.gateway.ensure_gang(spec)
    cluster_api.gateway.suspend_gang(spec.key)
    cluster_api.await_none(spec)

    cluster_api.gateway.ensure_gang(spec)

    assert [member.rank for member in cluster_api.waiting(spec)] == [0]


def test_a_job_of_that_name_that_is_not_ours_is_left_alone(cluster_api):
    spec = cluster_api.spec()
    cluster_api.make_job(spec, labels={"app": "theirs"})

    with pytest.raises(RefusedByCluster, match="is not ours"):
        cluster_api.gateway.ensure_gang(spec)
    cluster_api.gateway.delete_gang(spec.key)

    assert cluster_api.kube.job(spec.key.name)["metadata"]["labels"] == {"app": "theirs"}


def test_what_the_cluster_refuses_is_said_in_its_words(cluster_api):
    with pytest.raises(RefusedByCluster, match="greater than or equal to 0"):
        cluster_api.gateway.ensure_gang(cluster_api.spec(members=-1))


def test_the_members_of_an_open_gang_wait_at_the_gate(cluster_api):
    spec = cluster_api.spec()

    members = cluster_api.held(spec)
    cluster_api.gateway.open_gang(spec.key)

    assert [(m.rank, m.phase, m.node, m.attempt) for m in members] == [
        (0, "gated", "", 1),
        (1, "gated", "", 1),
    ]


def test_a_pod_carries_what_the_gang_asked_for(cluster_api):
    spec = cluster_api.spec()

    pod = cluster_api.pod(cluster_api.held(spec)[0].pod_name)

    [container] = pod["spec"]["containers"]
    amounts = {"nvidia.com/gpu": "4", "cpu": "500m", "memory": "256Mi"}
    assert (container["command"], container["resources"]) == (
        ["train", "--fast"],
        {"requests": amounts, "limits": amounts},
    )
    assert {"name": "SEED", "value": "1"} in container["env"]
    assert pod["metadata"]["labels"]["muster.dev/tenant"] == "nlp"


def test_members_are_released_onto_their_node_with_their_devices(cluster_api):
    spec, node = cluster_api.spec(), cluster_api.nodes[1]
    members = cluster_api.held(spec)

    shut = cluster_api.gateway.release_all(cluster_api.onto(members, node))

    bound = cluster_api.await_phases(spec, "bound", "bound")
    notes = [cluster_api.pod(m.pod_name)["metadata"]["annotations"] for m in members]
    assert shut == ()
    assert [member.node for member in bound] == [node, node]
    assert [note[DEVICES] for note in notes] == ["0,1,2,3", "4,5,6,7"]
    assert cluster_api.gateway.gated_members(spec.key) == ()


def test_a_release_may_come_twice(cluster_api):
    spec, node = cluster_api.spec(), cluster_api.nodes[0]
    releases = cluster_api.onto(cluster_api.held(spec), node)
    cluster_api.gateway.release_all(releases)

    assert cluster_api.gateway.release_all(releases) == ()


def test_a_released_member_is_not_released_elsewhere(cluster_api):
    here, there = cluster_api.nodes
    [release, _] = cluster_api.onto(cluster_api.held(cluster_api.spec()), here)
    cluster_api.gateway.release(release)

    with pytest.raises(RefusedByCluster, match=f"was released onto {here} before"):
        cluster_api.gateway.release(replace(release, node=there))


@pytest.mark.parametrize(
    "wrong", [{"pod_uid": "another"}, {"pod_name": "nobody"}], ids=["of another uid", "not there"]
)
def test_a_pod_is_not_released_when_it_is(cluster_api, wrong):
    [release, other] = cluster_api.onto(cluster_api.held(cluster_api.spec()), cluster_api.nodes[0])
    lost = replace(release, **wrong)

    shut = cluster_api.gateway.release_all([lost, other])

    why = f"pod {lost.pod_name} is no longer there"
    assert shut == (NotReleased(release=lost, why=why, gone=True),)


def test_a_member_of_another_attempt_is_not_released(cluster_api):
    [release, _] = cluster_api.onto(cluster_api.held(cluster_api.spec()), cluster_api.nodes[0])

    with pytest.raises(AttemptMoved, match="is of attempt 1"):
        cluster_api.gateway.release(replace(release, attempt=2))


def test_gates_and_selectors_of_others_stay(cluster_api):
    spec, node = cluster_api.spec(members=1), cluster_api.nodes[0]
    cluster_api.make_guarded_job(spec, gate="example.org/check", selector={"zone": "a"})
    cluster_api.gateway.open_gang(spec.key)
    [member] = cluster_api.waiting(spec)

    shut = cluster_api.gateway.release_all(cluster_api.onto([member], node))

    [after] = cluster_api.gateway.members(spec.key)
    pod = cluster_api.pod(member.pod_name)
    assert shut == ()
    assert (member.foreign_gates, after.phase) == (("example.org/check",), "binding")
    assert pod["spec"]["schedulingGates"] == [{"name": "example.org/check"}]
    assert pod["spec"]["nodeSelector"] == {"zone": "a", "kubernetes.io/hostname": node}


def test_an_attempt_does_not_open_the_gang_of_another(cluster_api):
    spec = cluster_api.spec(attempt=2)
    cluster_api.gateway.ensure_gang(spec)

    with pytest.raises(AttemptMoved, match="is at attempt 2"):
        cluster_api.gateway.open_gang(replace(spec, attempt=1).key)


def test_a_gang_that_is_not_there_cannot_be_opened(cluster_api):
    with pytest.raises(NotThere):
        cluster_api.gateway.open_gang(cluster_api.spec().key)


def test_a_gang_does_not_go_back_to_an_earlier_attempt(cluster_api):
    spec = cluster_api.spec(attempt=2)
    cluster_api.gateway.ensure_gang(spec)

    with pytest.raises(AttemptMoved):
        cluster_api.gateway.ensure_gang(replace(spec, attempt=1))


def test_a_gang_that_is_open_is_not_taken_over(cluster_api):
    spec = cluster_api.spec()
    cluster_api.held(spec)

    with pytest.raises(AttemptMoved):
        cluster_api.gateway.ensure_gang(replace(spec, attempt=2))


def test_a_suspended_gang_is_led_on_to_its_next_attempt(cluster_api):
    first = cluster_api.spec()
    cluster_api.held(first)
    second = replace(first, attempt=2, members=3)

    suspended = cluster_api.gateway.suspend_gang(first.key)
    cluster_api.await_none(first)
    cluster_api.ensure_soon(second)
    cluster_api.gateway.open_gang(second.key)

    members = cluster_api.waiting(second)
    assert suspended is True
    assert [(m.rank, m.attempt) for m in members] == [(0, 2), (1, 2), (2, 2)]


def test_a_late_suspension_leaves_the_next_attempt_alone(cluster_api):
    spec = cluster_api.spec(attempt=2)
    cluster_api.held(spec)

    assert cluster_api.gateway.suspend_gang(replace(spec, attempt=1).key) is False
    assert [m.phase for m in cluster_api.gateway.members(spec.key)] == ["gated", "gated"]


def test_suspending_a_gang_that_is_gone_does_nothing(cluster_api):
    assert cluster_api.gateway.suspend_gang(cluster_api.spec().key) is False


def test_a_deleted_gang_takes_its_pods_along_and_may_be_deleted_again(cluster_api):
    spec = cluster_api.spec()
    cluster_api.held(spec)

    cluster_api.gateway.delete_gang(spec.key)
    cluster_api.gateway.delete_gang(spec.key)

    cluster_api.await_none(spec)
    assert cluster_api.gateway.gangs() == ()


def test_a_deletion_that_comes_late_does_not_reach_the_gang_that_follows(cluster_api, monkeypatch):
    spec, asked = cluster_api.spec(), []
    wire = cluster_api.gateway.wire
    ask = wire.ask
    monkeypatch.setattr(wire, "ask", lambda request: asked.append(request) or ask(request))
    cluster_api.held(spec)
    cluster_api.gateway.delete_gang(spec.key)
    late = asked[-1]
    next_spec = replace(spec, attempt=2)
    cluster_api.ensure_soon(next_spec)

    with pytest.raises(ClusterAway):
        ask(late)

    assert late.method == "DELETE"
    assert [group.key for group in cluster_api.gateway.gangs()] == [next_spec.key]


def test_a_gang_runs_to_its_end(cluster_api):
    spec, node = cluster_api.spec(), cluster_api.nodes[0]
    members = cluster_api.held(spec)
    cluster_api.gateway.release_all(cluster_api.onto(members, node))
    cluster_api.await_phases(spec, "bound", "bound")

    cluster_api.provider.start_members(spec.namespace)
    running = cluster_api.await_phases(spec, "running", "running")
    cluster_api.provider.end_members(spec.namespace)
    ended = cluster_api.await_phases(spec, "succeeded", "succeeded")

    assert [member.exit_code for member in ended] == [0, 0]
    assert [m.started_at for m in ended] == [m.started_at for m in running]
    assert all(m.bound_at <= m.started_at <= m.ended_at for m in ended)
    assert cluster_api.await_outcome(spec) == ("complete", "CompletionsReached")


def test_a_gang_fails_with_its_first_member(cluster_api):
    spec = cluster_api.spec()
    spec = replace(spec, annotations={**spec.annotations, **cluster_api.provider.fails})
    members = cluster_api.held(spec)
    cluster_api.gateway.release_all(cluster_api.onto(members, cluster_api.nodes[0]))
    cluster_api.await_phases(spec, "bound", "bound")

    cluster_api.provider.start_members(spec.namespace)
    cluster_api.await_phases(spec, "running", "running")
    cluster_api.provider.end_members(spec.namespace)

    assert cluster_api.await_outcome(spec) == ("failed", "BackoffLimitExceeded")


def ended(cluster_api, spec):
    """The gang of `spec`, run to its end."""
    members = cluster_api.held(spec)
    cluster_api.gateway.release_all(cluster_api.onto(members, cluster_api.nodes[0]))
    cluster_api.await_phases(spec, "bound", "bound")
    cluster_api.provider.start_members(spec.namespace)
    cluster_api.await_phases(spec, "running", "running")
    cluster_api.provider.end_members(spec.namespace)
    cluster_api.await_outcome(spec)
    return spec


def test_a_gang_that_has_ended_gives_way_to_its_next_attempt(cluster_api):
    first = ended(cluster_api, cluster_api.spec())

    second = replace(first, attempt=2)
    cluster_api.ensure_soon(second)
    cluster_api.gateway.open_gang(second.key)

    assert [(m.rank, m.attempt) for m in cluster_api.waiting(second)] == [(0, 2), (1, 2)]


def test_a_gang_that_has_ended_does_not_give_way_to_an_earlier_attempt(cluster_api):
    second = ended(cluster_api, cluster_api.spec(attempt=2))

    with pytest.raises(AttemptMoved):
        cluster_api.gateway.ensure_gang(replace(second, attempt=1))

    assert cluster_api.await_outcome(second) == ("complete", "CompletionsReached")


def test_a_member_that_does_not_end_is_removed_at_once_and_no_other_of_its_name(cluster_api):
    spec = cluster_api.spec(members=1, grace_seconds=600)
    spec = replace(spec, annotations=spec.annotations | cluster_api.provider.ignores_signals)
    cluster_api.gateway.release_all(cluster_api.onto(cluster_api.held(spec), cluster_api.nodes[0]))
    cluster_api.await_phases(spec, "bound")
    cluster_api.provider.start_members(spec.namespace)
    cluster_api.await_phases(spec, "running")
    cluster_api.gateway.delete_gang(spec.key)
    [member] = cluster_api.soon(
        lambda: [m for m in cluster_api.gateway.members(spec.key) if m.stopping]
    )

    with pytest.raises(ClusterAway, match="UID"):
        cluster_api.gateway.remove_member(replace(member, pod_uid="another"))
    for _ in range(2):
        cluster_api.gateway.remove_member(member)

    assert cluster_api.gateway.members(spec.key) == ()
