"""What the API server allows and refuses for pods."""

import pytest

PODS = "/api/v1/namespaces/default/pods"
HOSTNAME = "kubernetes.io/hostname"
GATE = "muster.dev/gate"


def open_gate(uid, node, *, gate=0):
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": f"/spec/schedulingGates/{gate}/name", "value": GATE},
        {"op": "add", "path": "/spec/nodeSelector", "value": {HOSTNAME: node}},
        {"op": "remove", "path": f"/spec/schedulingGates/{gate}"},
    ]


def test_a_gated_pod_waits_with_reason_scheduling_gated(kube, pod):
    made = kube.create(PODS, pod(gated=True))

    (condition,) = made["status"]["conditions"]
    assert made["status"]["phase"] == "Pending"
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "SchedulingGated"
    assert "nodeName" not in kube.pods()["a"]["spec"]


def test_the_one_patch_binds_the_pod_to_the_named_node(kube, pod):
    made = kube.create(PODS, pod(gated=True, gpus=2))

    code, _ = kube.patch(
        f"{PODS}/a", open_gate(made["metadata"]["uid"], "h100-sxm-02"), kind="json"
    )

    assert code == 200
    assert kube.pods()["a"]["spec"]["nodeName"] == "h100-sxm-02"


@pytest.mark.parametrize(
    ("kind", "patch", "left"),
    [
        ("strategic", [{"$patch": "delete", "name": GATE}], ["other/gate"]),
        ("strategic", None, []),
        ("strategic", [], [GATE, "other/gate"]),
        ("merge", [], []),
    ],
)
def test_ways_to_remove_a_gate(kube, pod, kind, patch, left):
    gates = [{"name": GATE}, {"name": "other/gate"}]
    kube.create(PODS, pod(schedulingGates=gates))

    code, after = kube.patch(f"{PODS}/a", {"spec": {"schedulingGates": patch}}, kind=kind)

    assert code == 200
    assert [gate["name"] for gate in after["spec"].get("schedulingGates", [])] == left


def test_a_failed_test_in_a_json_patch_changes_nothing(kube, pod):
    kube.create(PODS, pod(gated=True))

    code, status = kube.patch(f"{PODS}/a", open_gate("someone-else", "h100-sxm-01"), kind="json")

    assert (code, status["reason"]) == (422, "Invalid")
    assert kube.pods()["a"]["spec"]["schedulingGates"] == [{"name": GATE}]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"schedulingGates": [{"name": "new/gate"}]}, id="a gate is added"),
        pytest.param({"nodeSelector": {"pool": "b"}}, id="a selector is changed"),
        pytest.param({"nodeSelector": None}, id="selectors are removed"),
        pytest.param({"tolerations": []}, id="tolerations are removed"),
        pytest.param({"priorityClassName": "x"}, id="another priority class"),
        pytest.param({"schedulerName": "x"}, id="another scheduler"),
        pytest.param({"containers": [{"name": "main", "env": [{"name": "A"}]}]}, id="env"),
        pytest.param(
            {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]},
            id="resources",
        ),
    ],
)
def test_what_a_gated_pod_refuses(kube, pod, spec):
    kube.create(PODS, pod(gated=True, nodeSelector={"pool": "a"}))

    code, status = kube.patch(f"{PODS}/a", {"spec": spec})

    assert (code, status["reason"]) == (422, "Invalid")
    assert status["details"]["causes"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {HOSTNAME: "h100-sxm-01"}}, id="a selector is added"),
        pytest.param({"activeDeadlineSeconds": 60}, id="a deadline"),
        pytest.param({"containers": [{"name": "main", "image": "other:2"}]}, id="the image"),
    ],
)
def test_what_a_gated_pod_allows(kube, pod, spec):
    kube.create(PODS, pod(gated=True, nodeSelector={"pool": "a"}))

    code, _ = kube.patch(f"{PODS}/a", {"spec": spec})

    assert code == 200


def test_an_ungated_pod_takes_tolerations_but_no_selector(kube, pod):
    kube.create(PODS, pod())
    toleration = {"key": "muster.dev/pool", "operator": "Exists"}
    add = [{"op": "add", "path": "/spec/tolerations/-", "value": toleration}]

    assert kube.patch(f"{PODS}/a", add, kind="json")[0] == 200
    assert kube.patch(f"{PODS}/a", {"spec": {"nodeSelector": {"a": "b"}}})[0] == 422


def test_binding_a_gated_pod_is_a_conflict(kube, pod):
    kube.create(PODS, pod(gated=True))

    code, status = kube.ask("POST", f"{PODS}/a/binding", {"target": {"name": "h100-sxm-01"}})

    assert (code, status["reason"]) == (409, "Conflict")


def test_a_node_name_and_a_gate_do_not_go_together(kube, pod):
    code, status = kube.ask("POST", PODS, pod(gated=True, nodeName="h100-sxm-01"))

    assert code == 422
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.nodeName"]


def test_an_old_version_in_the_body_is_a_conflict(kube, pod):
    made = kube.create(PODS, pod(gated=True))
    stale = {"resourceVersion": made["metadata"]["resourceVersion"], "labels": {"a": "b"}}
    kube.patch(f"{PODS}/a", {"metadata": {"labels": {"c": "d"}}})

    code, status = kube.patch(f"{PODS}/a", {"metadata": stale})

    assert (code, status["reason"]) == (409, "Conflict")


def test_another_uid_is_refused_as_immutable(kube, pod):
    kube.create(PODS, pod(gated=True))

    code, status = kube.patch(f"{PODS}/a", {"metadata": {"uid": "other"}})

    (cause,) = status["details"]["causes"]
    assert (code, cause["field"]) == (422, "metadata.uid")


def test_a_name_that_is_taken_a_missing_one_and_a_missing_namespace(kube, pod):
    kube.create(PODS, pod())

    answers = [
        kube.ask("POST", PODS, pod()),
        kube.ask("GET", f"{PODS}/none"),
        kube.ask("POST", "/api/v1/namespaces/none/pods", pod()),
    ]

    assert [(code, status["reason"]) for code, status in answers] == [
        (409, "AlreadyExists"),
        (404, "NotFound"),
        (404, "NotFound"),
    ]


def test_a_dry_run_keeps_nothing(kube, pod):
    code, _ = kube.ask("POST", f"{PODS}?dryRun=All", pod())

    assert (code, kube.pods()) == (201, {})


def test_generate_name_appends_five_characters(kube, pod):
    manifest = pod()
    manifest["metadata"] = {"generateName": "a-"}

    made = kube.create(PODS, manifest)

    assert made["metadata"]["name"].startswith("a-")
    assert len(made["metadata"]["name"]) == 7


def test_without_the_token_everything_but_health_is_401(kube):
    refused = kube.ask("GET", PODS, Authorization="Bearer wrong")

    assert (refused[0], refused[1]["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "none"},
        {"containers": ["none"]},
        {"containers": [{"name": "a", "image": "b", "resources": 1}]},
        {"containers": [], "nodeSelector": []},
        {"containers": [], "tolerations": {"key": "a"}},
    ],
)
def test_a_manifest_of_the_wrong_shape_is_400(kube, spec):
    code, status = kube.ask("POST", PODS, {"metadata": {"name": "a"}, "spec": spec})

    assert (code, status["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.containers"),
        ({"containers": [{"name": "m"}]}, "spec.containers[0].image"),
        (
            {
                "containers": [
                    {"name": "m", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1.5"}}}
                ]
            },
            "spec.containers[0].resources.limits[nvidia.com/gpu]",
        ),
    ],
)
def test_a_pod_that_cannot_run_is_422_with_its_field(kube, spec, field):
    code, status = kube.ask("POST", PODS, {"metadata": {"name": "a"}, "spec": spec})

    assert code == 422
    assert [cause["field"] for cause in status["details"]["causes"]] == [field]
