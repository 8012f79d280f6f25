"""What a tenant has on a real control plane: each wall in force, and drift found and put right."""

from dataclasses import replace

import pytest

from tests.kube.polling import eventually
from tests.kube.tenant import NODES, gates_of, guarded_tenant, manifest
from topology.kube import names
from topology.kube.admission.policies import GATE_POLICY, POLICY_PATHS
from topology.kube.admission.rules import GATE_IS_ON
from topology.kube.tenancy import group_of, shared_objects
from topology.kube.upkeep import apply_all
from topology.kube.values import Drift, TenancySpec

pytestmark = pytest.mark.kube

VISION = TenancySpec(tenant="vision", namespace="muster-vision", gpus=3)
ELSEWHERE = "/api/v1/namespaces/default/pods"
HOST = {"hostNetwork": True, "volumes": [{"name": "v", "hostPath": {"path": "/dev"}}]}
_VALIDATING = "ValidatingAdmissionPolicy"
WALL = f"requests.{names.GPU}"


@pytest.fixture(scope="module")
def guarded(control_plane):
    with guarded_tenant(control_plane, VISION) as tenant:
        yield tenant


@pytest.fixture
def tenant(guarded):
    guarded.gateway.keep_tenancy(guarded.spec)
    yield guarded
    guarded.empty()


def test_pods_without_gpus_run_as_anywhere(tenant):
    made = tenant.person.create(tenant.pods, manifest())

    [container] = made["spec"]["containers"]
    assert gates_of(made) == []
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "128Mi"}}
    assert tenant.person.delete(f"{tenant.pods}/a")[0] == 200


def test_people_look_at_their_own_and_change_what_is_not_of_a_job(tenant):
    tenant.person.create(tenant.pods, manifest(gpus=1))
    more = {"metadata": {"labels": {"app": "a"}, "annotations": {"note": "b"}}}

    assert tenant.person.patch(f"{tenant.pods}/a", more, kind="merge")[0] == 200
    assert len(tenant.person.get(tenant.pods)["items"]) == 1
    assert tenant.person.ask("GET", ELSEWHERE)[0] == 403


def test_a_member_says_how_far_it_is_and_nothing_else_of_ours(tenant):
    member, _gang = tenant.held()
    path = f"{tenant.pods}/{member.pod_name}"

    def note(name):
        return tenant.person.patch(path, {"metadata": {"annotations": {name: "1"}}}, kind="merge")

    assert [note(names.CHECKPOINT_AT)[0], note(names.DEVICES)[0]] == [200, 422]


def test_pods_of_others_are_left_alone(tenant):
    pod = manifest(gpus=1, nodeName=NODES[0], tolerations=[{"operator": "Exists"}], **HOST)

    made = tenant.admin.create(ELSEWHERE, pod, dryRun="All")

    assert gates_of(made) == []


def test_nobody_opens_the_gate_though_he_may_do_everything(tenant):
    member, _gang = tenant.held()
    root = tenant.admin.acting_as("root", "system:masters")
    shut = [{"op": "remove", "path": "/spec/schedulingGates"}]

    code, said = root.patch(f"{tenant.pods}/{member.pod_name}", shut, kind="json")

    assert (code, "only Muster opens the gate" in said["message"]) == (422, True)


def test_a_gang_runs_and_is_removed_with_its_pods(tenant):
    member, gang = tenant.running()
    pod = tenant.pod(member.pod_name)

    tenant.gateway.delete_gang(gang.key)

    eventually(lambda: not tenant.gateway.members(gang.key), within=30)
    assert pod["spec"]["priority"] == 1000
    assert pod["spec"]["preemptionPolicy"] == "Never"
    assert pod["spec"]["nodeName"] == NODES[0]


def test_an_operator_ends_a_job_and_its_namespace_stays_his_to_label(tenant):
    _member, gang = tenant.held()
    root = tenant.admin.acting_as("root", "system:masters")
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}

    assert root.patch(tenant.home, label, kind="merge")[0] == 200
    assert root.delete(f"{tenant.group('batch/v1/jobs')}/{gang.key.name}")[0] == 200


def test_the_last_wall_stops_what_the_queue_let_through(tenant):
    """Three GPUs: one member of two fits, and nothing that waits at the gate counts."""
    tenant.person.create(tenant.pods, manifest(gpus=8))
    _member, gang = tenant.held(members=2)

    def refused():
        events = tenant.admin.get(f"{tenant.home}/events", fieldSelector="reason=FailedCreate")
        return [event for event in events["items"] if gang.key.name in event["message"]]

    assert "exceeded quota: muster" in eventually(refused, within=30)[0]["message"]
    assert len(tenant.gateway.members(gang.key)) == 1


def test_standby_members_are_beyond_it(tenant):
    _member, gang = tenant.held(members=2, priority_class=names.STANDBY)

    eventually(lambda: len(tenant.gateway.members(gang.key)) == 2, within=30)


def test_pod_security_refuses_what_reaches_the_host(tenant):
    code, said = tenant.mighty.ask("POST", tenant.pods, manifest(**HOST))

    assert (code, "violates PodSecurity" in said["message"]) == (403, True)


def test_a_tenant_that_may_reach_the_host_does(tenant):
    trusted = replace(tenant.spec, may_reach_host=True)
    tenant.gateway.keep_tenancy(trusted)

    def accepted():
        return tenant.mighty.ask("POST", tenant.pods, manifest(**HOST), dryRun="All")[0] == 201

    eventually(accepted, within=30)
    tenant.gateway.keep_tenancy(tenant.spec)
    eventually(lambda: not accepted(), within=30)


def test_without_the_gate_being_put_on_pods_with_gpus_are_refused(tenant):
    tenant.admin.delete(f"{POLICY_PATHS[0]}/{GATE_POLICY}")

    def refused():
        code, said = tenant.mighty.ask("POST", tenant.pods, manifest(gpus=1), dryRun="All")
        return code == 422 and said["message"]

    said = eventually(refused, within=30)
    before = tenant.gateway.missing_policies()
    apply_all(tenant.gateway.wire, shared_objects(["admin"]))
    eventually(lambda: not refused(), within=30)

    assert GATE_IS_ON.message in said
    assert (before, tenant.gateway.missing_policies()) == ((GATE_POLICY,), ())


def test_what_is_as_it_should_be_has_not_drifted(tenant):
    before = tenant.admin.get(tenant.home)["metadata"]["resourceVersion"]

    tenant.gateway.keep_tenancy(tenant.spec)

    assert tenant.gateway.tenancy_drift(tenant.spec) == ()
    assert tenant.admin.get(tenant.home)["metadata"]["resourceVersion"] == before


def test_drift_is_found_in_every_kind_and_put_right(tenant):
    api = tenant.admin
    api.patch(f"{tenant.home}/resourcequotas/muster", {"spec": {"hard": {WALL: "9"}}}, kind="merge")
    api.patch(f"{tenant.home}/limitranges/muster", {"spec": {"limits": []}}, kind="merge")
    api.patch(tenant.home, {"metadata": {"labels": {names.TENANT: "other"}}}, kind="merge")
    api.delete(f"{tenant.group('networking.k8s.io/v1/networkpolicies')}/muster-closed")
    rights = f"{tenant.group('rbac.authorization.k8s.io/v1/rolebindings')}/{names.PEOPLE}"
    api.patch(rights, {"subjects": []}, kind="merge")

    drift = tenant.gateway.tenancy_drift(tenant.spec)
    tenant.gateway.keep_tenancy(tenant.spec)

    assert drift == (
        Drift(kind="Namespace", name=VISION.namespace, fields=(f"metadata.labels.{names.TENANT}",)),
        Drift(kind="ResourceQuota", name="muster", fields=(f"spec.hard.{WALL}",)),
        Drift(kind="LimitRange", name="muster", fields=("spec.limits",)),
        Drift(kind="NetworkPolicy", name="muster-closed"),
        Drift(kind="RoleBinding", name=names.PEOPLE, fields=("subjects",)),
    )
    assert tenant.gateway.tenancy_drift(tenant.spec) == ()
    assert group_of("vision") in [s["name"] for s in api.get(rights)["subjects"]]


def test_a_policy_that_somebody_weakened_is_found(tenant):
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/muster-pods"
    tenant.admin.patch(path, {"spec": {"failurePolicy": "Ignore"}}, kind="merge")

    drift = tenant.gateway.drift(shared_objects(["admin"]))
    apply_all(tenant.gateway.wire, shared_objects(["admin"]))

    assert [(each.name, each.fields) for each in drift] == [
        ("muster-pods", ("spec.failurePolicy",))
    ]
