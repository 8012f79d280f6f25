"""What the API server allows and refuses for pods: the gate protocol, step by step."""

import pytest

HOSTNAME = "kubernetes.io/hostname"
GATE = "muster.dev/gate"
POOL = {"key": "muster.dev/pool", "operator": "Exists"}
GPU = {"key": "nvidia.com/gpu", "operator": "Exists"}


def gates_of(pod):
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def open_gate(uid, node, *, gate=0):
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": f"/spec/schedulingGates/{gate}/name", "value": GATE},
        {"op": "add", "path": "/spec/nodeSelector", "value": {HOSTNAME: node}},
        {"op": "remove", "path": f"/spec/schedulingGates/{gate}"},
    ]


def test_a_gated_pod_waits_with_reason_scheduling_gated(kube, pod):
    made = kube.create(kube.pods, pod(gated=True))

    (condition,) = made["status"]["conditions"]
    assert made["status"]["phase"] == "Pending"
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "SchedulingGated"
    assert "nodeName" not in kube.pod()["spec"]


def test_the_one_patch_binds_the_pod_to_the_named_node(kube, pod):
    made = kube.create(kube.pods, pod(gated=True, gpus=2))
    patch = open_gate(made["metadata"]["uid"], kube.nodes[1])
    patch += [
        {"op": "add", "path": "/spec/tolerations/-", "value": POOL},
        {"op": "add", "path": "/metadata/labels", "value": {"muster.dev/epoch": "7"}},
    ]

    code, _ = kube.patch(f"{kube.pods}/a", patch, kind="json")

    assert code == 200
    assert kube.until_bound() == kube.nodes[1]
    assert kube.pod()["metadata"]["labels"] == {"muster.dev/epoch": "7"}
    assert POOL in kube.pod()["spec"]["tolerations"]


def test_a_pod_that_no_node_matches_stays_and_says_why(kube, pod):
    made = kube.create(kube.pods, pod(gated=True))
    kube.patch(f"{kube.pods}/a", open_gate(made["metadata"]["uid"], "gone"), kind="json")

    def unschedulable():
        conditions = kube.pod()["status"].get("conditions", [])
        return [c for c in conditions if c.get("reason") == "Unschedulable"]

    (condition,) = kube.until(unschedulable)
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["message"].startswith("0/2 nodes are available")
    assert "nodeName" not in kube.pod()["spec"]


@pytest.mark.parametrize(
    ("kind", "patch", "left"),
    [
        ("strategic", [{"$patch": "delete", "name": GATE}], ["other/gate"]),
        ("strategic", [{"$patch": "delete", "name": "x/y"}], [GATE, "other/gate"]),
        ("strategic", [{"$patch": "replace"}, {"name": "other/gate"}], ["other/gate"]),
        ("strategic", None, []),
        ("strategic", [], [GATE, "other/gate"]),
        ("merge", [], []),
        ("merge", None, []),
        ("merge", [{"name": "other/gate"}], ["other/gate"]),
    ],
)
def test_ways_to_remove_a_gate(kube, pod, kind, patch, left):
    gates = [{"name": GATE}, {"name": "other/gate"}]
    kube.create(kube.pods, pod(schedulingGates=gates))

    code, after = kube.patch(f"{kube.pods}/a", {"spec": {"schedulingGates": patch}}, kind=kind)

    assert code == 200
    assert gates_of(after) == left


def test_a_gate_that_was_deleted_by_name_may_be_deleted_again(kube, pod):
    kube.create(kube.pods, pod(schedulingGates=[{"name": GATE}, {"name": "other/gate"}]))
    patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}

    _, first = kube.patch(f"{kube.pods}/a", patch)
    code, second = kube.patch(f"{kube.pods}/a", patch)

    assert (code, gates_of(second)) == (200, ["other/gate"])
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_whole_pod_without_its_gate_may_be_put_back(kube, pod):
    made = kube.create(kube.pods, pod(gated=True))
    del made["spec"]["schedulingGates"]

    code, after = kube.ask("PUT", f"{kube.pods}/a", made)

    assert (code, gates_of(after)) == (200, [])


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/metadata/uid", "value": "x"}, id="another uid"),
        pytest.param(
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": "x"}, id="another gate"
        ),
        pytest.param({"op": "remove", "path": "/spec/schedulingGates/3"}, id="no such gate"),
        pytest.param({"op": "remove", "path": "/spec/affinity"}, id="no such path"),
        pytest.param(
            {"op": "test", "path": "/metadata/annotations/none", "value": "x"}, id="no such note"
        ),
    ],
)
def test_a_json_patch_that_fails_is_a_bare_422_and_changes_nothing(kube, pod, operation):
    made = kube.create(kube.pods, pod(gated=True))
    patch = [
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        operation,
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]

    code, status = kube.patch(f"{kube.pods}/a", patch, kind="json")

    after = kube.pod()
    assert (code, status["reason"], "causes" in status.get("details", {})) == (
        422,
        "Invalid",
        False,
    )
    assert gates_of(after) == [GATE]
    assert after["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


UNNAMED = {"spec": {"containers": [{"image": "x"}]}}


@pytest.mark.parametrize(
    ("patch", "kind", "code"),
    [
        pytest.param({"spec": {}}, "json", 400, id="no list of operations"),
        pytest.param([], "merge", 400, id="a list for a merge"),
        pytest.param([{"op": "jump", "path": "/spec"}], "json", 422, id="an unknown operation"),
        pytest.param(UNNAMED, "strategic", 500, id="an item without its key"),
    ],
)
def test_what_is_no_patch_is_refused(kube, pod, patch, kind, code):
    kube.create(kube.pods, pod(gated=True))

    assert kube.patch(f"{kube.pods}/a", patch, kind=kind)[0] == code


def test_a_patch_of_an_unknown_type_is_415(kube, pod):
    kube.create(kube.pods, pod(gated=True))

    code, status = kube.ask("PATCH", f"{kube.pods}/a", {}, media_type="application/json")

    assert (code, status["reason"]) == (415, "UnsupportedMediaType")


def term(*requirements):
    made = [{"key": key, "operator": "In", "values": values} for key, *values in requirements]
    return {"matchExpressions": made}


def required(*terms):
    inner = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": inner}}


PREFERRED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": term(("disk", "ssd"))}
        ]
    }
}
NEIGHBOURS = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": HOSTNAME}
        ]
    }
}


def container(**fields):
    return {"containers": [{"name": "main", **fields}]}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"schedulingGates": [{"name": "new/gate"}]}, id="a gate is added"),
        pytest.param({"nodeSelector": {"pool": "b"}}, id="a selector is changed"),
        pytest.param({"nodeSelector": {"pool": None}}, id="a selector is removed"),
        pytest.param({"nodeSelector": None}, id="selectors are removed"),
        pytest.param({"tolerations": []}, id="tolerations are removed"),
        pytest.param({"tolerations": [POOL]}, id="a toleration is replaced"),
        pytest.param({"priorityClassName": "x"}, id="another priority class"),
        pytest.param({"schedulerName": "x"}, id="another scheduler"),
        pytest.param({"affinity": NEIGHBOURS}, id="neighbours"),
        pytest.param(container(env=[{"name": "A", "value": "1"}]), id="env"),
        pytest.param(container(resources={"limits": {"cpu": "1"}}), id="resources"),
        pytest.param(container(command=["true"]), id="the command"),
        pytest.param({"terminationGracePeriodSeconds": 5}, id="its grace"),
        pytest.param({"hostNetwork": True}, id="the network of its host"),
        pytest.param({"nodeName": "h100-sxm-01"}, id="a node"),
    ],
)
def test_what_a_gated_pod_refuses(kube, pod, spec):
    own = {"nodeSelector": {"pool": "a"}, "tolerations": [GPU]}
    made = kube.create(kube.pods, pod(gated=True, **own))

    code, status = kube.patch(f"{kube.pods}/a", {"spec": spec})

    assert (code, status["reason"]) == (422, "Invalid")
    assert status["details"]["causes"]
    assert kube.pod()["spec"] == made["spec"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {HOSTNAME: "h100-sxm-01"}}, id="a selector is added"),
        pytest.param({"activeDeadlineSeconds": 60}, id="a deadline"),
        pytest.param(container(image="other:2"), id="the image"),
        pytest.param({"affinity": required(term(("zone", "a")))}, id="a required node affinity"),
        pytest.param({"affinity": PREFERRED}, id="a preferred node affinity"),
    ],
)
def test_what_a_gated_pod_allows(kube, pod, spec):
    kube.create(kube.pods, pod(gated=True, nodeSelector={"pool": "a"}))

    code, _ = kube.patch(f"{kube.pods}/a", {"spec": spec})

    assert code == 200


@pytest.mark.parametrize(
    ("terms", "code"),
    [
        pytest.param([term(("zone", "a", "b"), ("rack", "1"))], 200, id="one expression more"),
        pytest.param([term(("zone", "a"))], 422, id="a value less"),
        pytest.param([term(("zone", "a", "b", "c"))], 422, id="a value more"),
        pytest.param([term(("zone", "a", "b")), term(("rack", "1"))], 422, id="a term more"),
        pytest.param([term(("rack", "1"))], 422, id="another expression"),
    ],
)
def test_a_required_affinity_may_only_gain_expressions(kube, pod, terms, code):
    kube.create(kube.pods, pod(gated=True, affinity=required(term(("zone", "a", "b")))))
    path = "/spec/affinity"
    patch = [{"op": "replace", "path": path, "value": required(*terms)}]

    assert kube.patch(f"{kube.pods}/a", patch, kind="json")[0] == code


def test_an_ungated_pod_takes_tolerations_and_nothing_else_of_its_place(kube, pod):
    kube.create(kube.pods, pod())
    add = [{"op": "add", "path": "/spec/tolerations/-", "value": POOL}]

    assert kube.patch(f"{kube.pods}/a", add, kind="json")[0] == 200
    assert kube.patch(f"{kube.pods}/a", {"spec": {"nodeSelector": {"a": "b"}}})[0] == 422
    assert kube.patch(f"{kube.pods}/a", {"spec": {"affinity": PREFERRED}})[0] == 422
    assert kube.patch(f"{kube.pods}/a", {"spec": {"schedulingGates": [{"name": GATE}]}})[0] == 422


def test_a_deadline_may_only_come_nearer(kube, pod):
    kube.create(kube.pods, pod(gated=True, activeDeadlineSeconds=60))

    codes = [
        kube.patch(f"{kube.pods}/a", {"spec": {"activeDeadlineSeconds": seconds}})[0]
        for seconds in (90, 30, None)
    ]

    assert codes == [422, 200, 422]


def test_binding_a_gated_pod_is_a_conflict(kube, pod):
    kube.create(kube.pods, pod(gated=True))

    code, status = kube.ask("POST", f"{kube.pods}/a/binding", binding(kube.nodes[0]))

    assert (code, status["reason"]) == (409, "Conflict")


def binding(node):
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def test_a_direct_binding_asks_nobody_whether_there_is_room(kube, pod):
    kube.create(kube.pods, pod(gpus=99))

    code, _ = kube.ask("POST", f"{kube.pods}/a/binding", binding(kube.nodes[0]))
    again, _ = kube.ask("POST", f"{kube.pods}/a/binding", binding(kube.nodes[1]))

    assert (code, again) == (201, 409)
    assert kube.pod()["spec"]["nodeName"] == kube.nodes[0]


def test_a_node_name_and_a_gate_do_not_go_together(kube, pod):
    code, status = kube.ask("POST", kube.pods, pod(gated=True, nodeName=kube.nodes[0]))

    assert code == 422
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.nodeName"]


def test_an_old_version_in_the_body_is_a_conflict(kube, pod):
    made = kube.create(kube.pods, pod(gated=True))
    stale = {"resourceVersion": made["metadata"]["resourceVersion"], "labels": {"a": "b"}}
    kube.patch(f"{kube.pods}/a", {"metadata": {"labels": {"c": "d"}}})

    patched, status = kube.patch(f"{kube.pods}/a", {"metadata": stale})
    put, _ = kube.ask("PUT", f"{kube.pods}/a", made)

    assert (patched, status["reason"], put) == (409, "Conflict", 409)


def test_another_uid_is_refused_as_immutable(kube, pod):
    kube.create(kube.pods, pod(gated=True))

    code, status = kube.patch(f"{kube.pods}/a", {"metadata": {"uid": "other"}})

    (cause,) = status["details"]["causes"]
    assert (code, cause["field"]) == (422, "metadata.uid")


def test_a_name_that_is_taken_a_missing_one_and_a_missing_namespace(kube, pod):
    kube.create(kube.pods, pod(gated=True))

    answers = [
        kube.ask("POST", kube.pods, pod(gated=True)),
        kube.ask("GET", f"{kube.pods}/none"),
        kube.ask("PATCH", f"{kube.pods}/none", {}, media_type="application/merge-patch+json"),
        kube.ask("POST", "/api/v1/namespaces/none/pods", pod()),
    ]

    assert [(code, status["reason"]) for code, status in answers] == [
        (409, "AlreadyExists"),
        (404, "NotFound"),
        (404, "NotFound"),
        (404, "NotFound"),
    ]


def test_a_dry_run_keeps_nothing(kube, pod):
    code, _ = kube.ask("POST", kube.pods, pod(), dryRun="All")

    assert (code, kube.get(kube.pods)["items"]) == (201, [])


def test_generate_name_appends_five_characters(kube, pod):
    manifest = pod(gated=True)
    manifest["metadata"] = {"generateName": "a-"}

    made = kube.create(kube.pods, manifest)

    assert made["metadata"]["name"].startswith("a-")
    assert len(made["metadata"]["name"]) == 7


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
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}

    code, status = kube.ask("POST", kube.pods, body)

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
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}

    code, status = kube.ask("POST", kube.pods, body)

    assert code == 422
    assert field in [cause["field"] for cause in status["details"]["causes"]]


def test_a_priority_class_gives_its_number_and_an_unknown_one_is_refused(kube, pod):
    name = f"{kube.namespace}-high"
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    body = {"metadata": {"name": name}, "value": 7, "preemptionPolicy": "Never"}
    kube.create(path, body)

    made = kube.create(kube.pods, pod(gated=True, priorityClassName=name))
    code, status = kube.ask("POST", kube.pods, pod("b", priorityClassName="unheard-of"))

    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (7, "Never")
    assert (code, status["reason"]) == (403, "Forbidden")
    kube.delete(f"{path}/{name}")


def test_a_pod_is_given_the_two_tolerations_of_lost_nodes(kube, pod):
    made = kube.create(kube.pods, pod(gated=True))

    told = [(t["key"], t["effect"], t["tolerationSeconds"]) for t in made["spec"]["tolerations"]]
    assert told == [
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    ]


@pytest.mark.parametrize("kind", ["strategic", "merge"])
def test_tolerations_are_replaced_whole_save_those_of_lost_nodes(kube, pod, kind):
    kube.create(kube.pods, pod(gated=True, tolerations=[GPU]))
    patch = {"spec": {"tolerations": [GPU, POOL]}}

    code, after = kube.patch(f"{kube.pods}/a", patch, kind=kind)

    assert code == 200
    assert after["spec"]["tolerations"][:2] == [GPU, POOL]
    assert [t["key"] for t in after["spec"]["tolerations"][2:]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_without_a_token_one_is_nobody(kube):
    stranger = replace_token(kube.api, "wrong")

    code, status = stranger.ask("GET", kube.pods)

    assert (code, status["reason"]) == (401, "Unauthorized")


def replace_token(api, token):
    return type(api)(api.url, token, api.ca)
