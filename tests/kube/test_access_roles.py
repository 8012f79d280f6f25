"""What Muster's account may do: as a role, and as questions."""

import pytest
import yaml
from django.core.management import CommandError, call_command

from simcluster.testing import running_cluster
from topology.kube.gateway import RefusedByCluster
from topology.kube.live import connect
from topology.kube.rights import (
    TO_LAY_OUT,
    TO_LOOK,
    TO_MANAGE,
    TO_SHOW,
    Right,
    access_objects,
    missing_rights,
)
from topology.kube.wire import ApiError


def granted(objects):
    """Every right that the role in `objects` gives."""
    return {
        Right(group, resource, verb, named)
        for rule in objects[0]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for named in rule.get("resourceNames", [""])
    }


def test_the_roles_give_what_is_asked_for_and_no_more():
    assert granted(access_objects("muster/web", manages=False)) == set(TO_LOOK)
    full = {*TO_LOOK, *TO_MANAGE, *TO_SHOW}
    assert granted(access_objects("muster/web", manages=True)) == full
    with_layouts = access_objects("muster/web", manages=True, lays_out=True)
    assert granted(with_layouts) == full | {*TO_LAY_OUT}


def test_to_look_is_to_change_nothing():
    assert {right.verb for right in TO_LOOK} == {"get", "list", "watch"}
    assert [right for right in (*TO_LOOK, *TO_MANAGE) if right.resource == "secrets"] == []


def test_the_command_prints_what_can_be_applied(capsys):
    call_command("cluster_access", "--account", "muster/web", "--manage")

    role, binding = yaml.safe_load_all(capsys.readouterr().out)
    assert [role, binding] == access_objects("muster/web", manages=True)
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "web", "namespace": "muster"}]


def test_layouts_are_rolled_out_only_where_muster_manages():
    with pytest.raises(CommandError, match="add --manage"):
        call_command("cluster_access", "--account", "muster/web", "--layouts")


def test_a_cluster_that_grants_everything_lacks_nothing(tmp_path):
    with running_cluster(frozen=True) as cluster:
        wire = connect(str(cluster.write_kubeconfig(tmp_path / "kubeconfig")), writes=False).wire

        assert missing_rights(wire, TO_LOOK + TO_MANAGE) == ()


def test_what_is_refused_is_named():
    class Strict:
        def ask(self, request):
            asked = request.body["spec"]["resourceAttributes"]
            return {"status": {"allowed": asked["resource"] != "pods"}}

    assert list(map(str, missing_rights(Strict(), TO_LOOK))) == [
        "list pods",
        "watch pods",
    ]


def test_a_cluster_that_knows_no_reviews_does_not_say():
    class Old:
        def ask(self, _request):
            raise ApiError(404, reason="NotFound", message="there is no such path")

    with pytest.raises(RefusedByCluster, match="there is no such path"):
        missing_rights(Old(), TO_LOOK)
