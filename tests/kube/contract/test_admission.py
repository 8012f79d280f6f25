"""What a cluster's own admission policies can do for the gate: put it on, and keep it shut."""

import pytest

# simcluster has none, and does not pretend to.
pytestmark = [
    pytest.mark.kube,
    pytest.mark.parametrize("provider", ["kubernetes"], indirect=True, scope="module"),
]

GATE = "muster.dev/gate"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
HAS_GATE = (
    f"has(object.spec.schedulingGates) && object.spec.schedulingGates.exists(g, g.name == '{GATE}')"
)
HAD_GATE = HAS_GATE.replace("object", "oldObject")
GATED = f'Object.spec.schedulingGates{{name: "{GATE}"}}'
PUT_ON = f"""
has(object.spec.schedulingGates)
  ? [JSONPatch{{op: "add", path: "/spec/schedulingGates/-", value: {GATED}}}]
  : [JSONPatch{{op: "add", path: "/spec/schedulingGates", value: [{GATED}]}}]
"""


def of_pods(operation):
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": [operation],
        "resources": ["pods"],
    }
    return {"resourceRules": [rule]}


MUTATING = {
    "matchConstraints": of_pods("CREATE"),
    "matchConditions": [
        {
            "name": "queued",
            "expression": "has(object.metadata.labels) && 'queue' in object.metadata.labels",
        },
        {"name": "ungated", "expression": f"!({HAS_GATE})"},
    ],
    "failurePolicy": "Fail",
    "reinvocationPolicy": "IfNeeded",
    "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": PUT_ON}}],
}
VALIDATING = {
    "matchConstraints": of_pods("UPDATE"),
    "failurePolicy": "Fail",
    "validations": [
        {
            "expression": f"!({HAD_GATE}) || ({HAS_GATE}) || request.userInfo.username == 'muster'",
            "message": "only muster opens the gate",
        }
    ],
}


@pytest.fixture
def policies(kube):
    """Both policies, in force in the test's namespace only."""
    name, made = kube.namespace, []
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    for kind, spec in (("mutating", MUTATING), ("validating", VALIDATING)):
        binding = {"policyName": name, "matchResources": here}
        if kind == "validating":
            binding["validationActions"] = ["Deny"]
        for plural, body in (("policies", spec), ("policybindings", binding)):
            path = f"{POLICIES}/{kind}admission{plural}"
            kube.create(path, {"metadata": {"name": name}, "spec": body})
            made.append(f"{path}/{name}")
    kube.until(lambda: is_mutated(kube) and is_validated(kube))
    yield
    for path in made:
        kube.delete(path)


def manifest(name, *gates, queued=True):
    container = {"name": "main", "image": "busybox:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"queue": "a"} if queued else {}},
        "spec": {"containers": [container], "schedulingGates": [{"name": gate} for gate in gates]},
    }


def gates_of(pod):
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def is_mutated(kube):
    return gates_of(kube.create(kube.pods, manifest("try"), dryRun="All")) == [GATE]


def is_validated(kube):
    """A pod stays behind, which the test's namespace takes along."""
    kube.ask("POST", kube.pods, manifest("tried", GATE))
    return open_gate(kube.api, f"{kube.pods}/tried", dryRun="All")[0] == 422


def open_gate(api, path, **query):
    patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    return api.patch(path, patch, **query)


def test_a_pod_of_a_queue_is_given_the_gate_once(kube, policies):
    assert gates_of(kube.create(kube.pods, manifest("a"))) == [GATE]
    assert gates_of(kube.create(kube.pods, manifest("b", GATE))) == [GATE]


def test_gates_of_others_stay(kube, policies):
    made = kube.create(kube.pods, manifest("a", "other/gate"))

    assert gates_of(made) == ["other/gate", GATE]


def test_a_pod_without_a_queue_and_one_elsewhere_are_left_alone(kube, policies):
    elsewhere = "/api/v1/namespaces/default/pods"

    here = kube.create(kube.pods, manifest("a", queued=False), dryRun="All")
    there = kube.create(elsewhere, manifest("a"), dryRun="All")

    assert (gates_of(here), gates_of(there)) == ([], [])


def test_pods_that_a_job_makes_are_given_it_too(kube, policies, job):
    body = job(members=2)
    body["spec"]["template"]["metadata"]["labels"] = {"queue": "a"}

    kube.create(kube.jobs, body)

    assert [gates_of(pod) for pod in kube.members(2)] == [[GATE], [GATE]]


def test_nobody_but_our_account_opens_the_gate(kube, policies):
    kube.create(kube.pods, manifest("a"))
    path = f"{kube.pods}/a"
    muster = kube.api.acting_as("muster", "system:masters")

    refused, status = open_gate(kube.api, path)  # we are of system:masters, too
    put, _ = kube.ask(
        "PUT", path, {**kube.pod(), "spec": {**kube.pod()["spec"], "schedulingGates": []}}
    )
    labelled, _ = kube.patch(path, {"metadata": {"labels": {"b": "c"}}})
    opened, _ = open_gate(muster, path)

    assert (refused, put, labelled, opened) == (422, 422, 200, 200)
    assert "only muster opens the gate" in status["message"]


def test_a_queue_label_may_be_taken_off_unless_a_rule_forbids_it(kube, policies):
    kube.create(kube.pods, manifest("a"))

    code, after = kube.patch(f"{kube.pods}/a", {"metadata": {"labels": {"queue": None}}})

    assert (code, gates_of(after)) == (200, [GATE])
