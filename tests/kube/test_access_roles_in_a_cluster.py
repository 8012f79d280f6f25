"""What Muster's account may do, on a real control plane: all that it needs, and no more."""

import json
from functools import partial

import pytest

from tests.kube.polling import eventually
from topology.kube.live import connect
from topology.kube.rights import (
    TO_LAY_OUT,
    TO_LOOK,
    TO_MANAGE,
    TO_SHOW,
    access_objects,
    missing_rights,
)
from topology.kube.stack import stack_of
from topology.kube.tenancy import tenant_objects
from topology.kube.upkeep import path_of
from topology.kube.values import (
    GangSpec,
    MemberRelease,
    PodGroupSpec,
    RendezvousSpec,
    TenancySpec,
)

pytestmark = pytest.mark.kube

NODE = "h100-rights"
SPEC = TenancySpec(tenant="rights", namespace="muster-rights", gpus=8)
_soon = partial(eventually, within=60)


@pytest.fixture(scope="module")
def plane(control_plane):
    api = control_plane.api
    control_plane.add_nodes(NODE)
    api.create("/api/v1/namespaces", {"metadata": {"name": "muster-accounts"}})
    yield control_plane
    api.delete("/api/v1/namespaces/muster-accounts")
    api.delete(f"/api/v1/namespaces/{SPEC.namespace}")
    control_plane.remove_nodes(NODE)


@pytest.fixture
def account(plane, tmp_path):
    """A function that gives the gateway of a service account with one of the two roles."""
    made = []

    def make(name, **role):
        home = "/api/v1/namespaces/muster-accounts/serviceaccounts"
        plane.api.create(home, {"metadata": {"name": name}})
        for obj in access_objects(f"muster-accounts/{name}", **role):
            path = f"/apis/rbac.authorization.k8s.io/v1/{obj['kind'].lower()}s"
            plane.api.create(path, obj)
            made.append(f"{path}/{obj['metadata']['name']}")
        token = plane.api.create(f"{home}/{name}/token", {"spec": {}})["status"]["token"]
        gateway = connect(str(_kubeconfig(plane, token, tmp_path / name)))
        _soon(lambda: missing_rights(gateway.wire, TO_LOOK) == ())
        return gateway, _with_token(plane.api, token)

    yield make
    for path in made:
        plane.api.delete(path)


def _kubeconfig(plane, token, path):
    known = json.loads(plane.kubeconfig().read_text())
    known["users"][0]["user"] = {"token": token}
    path.write_text(json.dumps(known))
    return path


def _with_token(api, token):
    return type(api)(api.url, token, api.ca)


GROUP = {"metadata": {"name": "a"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
WRITES = [
    ("POST", "/api/v1/namespaces", {"metadata": {"name": "more"}}),
    ("POST", "/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "a"}}),
    ("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "a"}}),
    ("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"a": "b"}}}),
    ("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"a": "b"}}}),
    ("DELETE", "/apis/batch/v1/namespaces/default/jobs/a", None),
    ("DELETE", f"/api/v1/nodes/{NODE}", None),
    ("GET", "/api/v1/namespaces/default/secrets", None),
    ("POST", "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups", GROUP),
]


def statuses(api, asked):
    return [
        api.ask(method, path, body, media_type=f"application/{_KINDS.get(method, '')}json")[0]
        for method, path, body in asked
    ]


_KINDS = {"PATCH": "merge-patch+"}


def test_an_account_that_looks_sees_everything_and_changes_nothing(account):
    gateway, api = account("looks", manages=False)

    assert missing_rights(gateway.wire, TO_MANAGE) == TO_MANAGE
    assert NODE in {node.name for node in gateway.nodes()}
    assert (gateway.members(), gateway.gangs()) == ((), ())
    assert "muster-gate" in gateway.missing_policies()
    assert stack_of(gateway.wire).closed == ()
    assert statuses(api, WRITES) == [403] * len(WRITES)


def test_an_account_that_manages_does_all_that_muster_does_and_no_more(account, plane):
    gateway, api = account("manages", manages=True)
    gang = GangSpec(namespace=SPEC.namespace, job="j-1", group="main", attempt=1, members=1)

    gateway.keep_tenancy(SPEC)
    _soon(lambda: plane.api.ask("GET", path_of(_default_account()))[0] == 200)
    gateway.ensure_gang(gang)
    gateway.ensure_rendezvous(_meeting(plane, gang))
    gateway.ensure_pod_group(_bond(plane, gang))
    gateway.ensure_pod_group(_bond(plane, gang))  # and to change it
    gateway.ease_pod_group(gang.namespace, gang.job)
    gateway.open_gang(gang.key)
    (member,) = _soon(lambda: gateway.gated_members(gang.key))
    gateway.release(_onto(member))
    _soon(lambda: gateway.members(gang.key)[0].node == NODE)
    gateway.suspend_gang(gang.key)
    gateway.delete_gang(gang.key)

    assert missing_rights(gateway.wire, TO_LOOK + TO_MANAGE + TO_SHOW) == ()
    assert missing_rights(gateway.wire, TO_LAY_OUT) == TO_LAY_OUT
    assert gateway.tenancy_drift(SPEC) == ()
    refused = [WRITES[number] for number in (2, 3, 6, 7)]
    assert statuses(api, [*refused, _crown("cluster-admin")]) == [403] * 5


def test_an_account_that_rolls_out_layouts_may_change_nodes(account):
    gateway, api = account("lays-out", manages=True, lays_out=True)

    assert missing_rights(gateway.wire, TO_LAY_OUT) == ()
    assert statuses(api, [WRITES[3], WRITES[6], WRITES[7]]) == [200, 403, 403]


def _default_account():
    name = {"name": "default", "namespace": SPEC.namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": name}


def _bond(plane, gang):
    owners = _meeting(plane, gang).owners
    return PodGroupSpec(namespace=gang.namespace, job=gang.job, attempt=1, least=1, owners=owners)


def _meeting(plane, gang):
    path = f"/apis/batch/v1/namespaces/{gang.namespace}/jobs/{gang.key.name}"
    uid = plane.api.get(path)["metadata"]["uid"]
    return RendezvousSpec(namespace=gang.namespace, job=gang.job, owners={gang.key.name: uid})


def _onto(member):
    return MemberRelease(
        namespace=member.namespace,
        pod_name=member.pod_name,
        pod_uid=member.pod_uid,
        node=NODE,
        attempt=1,
    )


def _crown(role):
    """The binding of tenants' people, to a role that is more than theirs."""
    (binding,) = [obj for obj in tenant_objects(SPEC) if obj["kind"] == "RoleBinding"]
    body = {
        **binding,
        "metadata": {**binding["metadata"], "name": "crown"},
        "roleRef": {**binding["roleRef"], "name": role},
    }
    return "POST", path_of(body).rpartition("/")[0], body
