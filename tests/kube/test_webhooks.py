"""Who answers our webhooks, what he says, and what happens while nobody does."""

import base64
import io
import json

import pytest

from tests.kube.polling import eventually
from tests.kube.tenant import gates_of, manifest
from topology.kube import names
from topology.kube.admission.answers import application
from topology.kube.admission.policies import POLICY_NAMES
from topology.kube.admission.rules import GATE_IS_ON
from topology.kube.admission.webhooks import admission_webhooks
from topology.kube.live import connect
from topology.kube.upkeep import apply_all, path_of

HOME = "/api/v1/namespaces/muster-away"


def ask(path, body):
    """The status and the JSON of one answer."""
    said = []
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    environ = {
        "PATH_INFO": path,
        "CONTENT_LENGTH": str(len(text)),
        "wsgi.input": io.BytesIO(text),
    }
    answer = b"".join(application(environ, lambda status, _headers: said.append(status)))
    return said[0], json.loads(answer)


def review(**spec):
    return {"request": {"uid": "u-1", "object": {"spec": spec}}}


@pytest.mark.parametrize(
    ("spec", "patch"),
    [
        ({}, {"path": "/spec/schedulingGates", "value": [{"name": names.GATE}]}),
        (
            {"schedulingGates": [{"name": "other/gate"}]},
            {"path": "/spec/schedulingGates/-", "value": {"name": names.GATE}},
        ),
    ],
    ids=["the first", "beside another"],
)
def test_the_gate_is_put_on(spec, patch):
    status, answer = ask("/gate", review(**spec))

    response = answer["response"]
    assert (status, response["uid"], response["allowed"]) == ("200 OK", "u-1", True)
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "add", **patch}]


def test_a_broken_rule_is_refused_in_its_own_words():
    status, answer = ask("/muster-pods/gate-is-on", review())

    assert (status, answer["response"]) == (
        "200 OK",
        {
            "uid": "u-1",
            "allowed": False,
            "status": {"code": 422, "reason": "Invalid", "message": GATE_IS_ON.message},
        },
    )


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/healthz", b"", "200 OK"),
        ("/muster-pods/other", review(), "404 Not Found"),
        ("/gate", b"no JSON", "400 Bad Request"),
        ("/gate", b"[]", "400 Bad Request"),
        ("/gate", {"request": {"uid": "u-1", "object": None}}, "400 Bad Request"),
    ],
)
def test_what_is_no_question_is_not_answered(path, body, status):
    assert ask(path, body) == (status, {})


def test_without_an_account_nobody_could_open_the_gate():
    with pytest.raises(ValueError, match="name the accounts"):
        admission_webhooks([], {"url": "https://127.0.0.1"})


@pytest.fixture
def away(control_plane):
    """A cluster whose webhooks nobody answers, with a tenant's namespace; and the gateway to it."""
    gateway = connect(str(control_plane.kubeconfig()))
    server = {"url": "https://127.0.0.1:1"}
    webhooks = admission_webhooks(["muster"], server)
    labels = {names.TENANT: "away"}
    namespace = {"metadata": {"name": "muster-away", "labels": labels}}
    control_plane.api.create("/api/v1/namespaces", namespace)
    account = f"{HOME}/serviceaccounts/default"
    eventually(lambda: control_plane.api.ask("GET", account)[0] == 200, within=60)
    apply_all(gateway.wire, webhooks)
    yield control_plane.api, gateway
    for obj in webhooks:
        control_plane.api.delete(path_of(obj))
    control_plane.api.delete(HOME)


@pytest.mark.kube
def test_while_nobody_answers_tenants_get_no_gpu_and_all_else_goes_on(away):
    api, gateway = away
    pods, elsewhere = f"{HOME}/pods", "/api/v1/namespaces/default/pods"

    def refused(**pod):
        code, said = api.ask("POST", pods, manifest(**pod), dryRun="All")
        return code == 500 and said["message"]

    tolerates = {"tolerations": [{"key": names.POOL, "operator": "Exists"}]}
    ungated = eventually(lambda: refused(gpus=1), within=30)
    forbidden = eventually(lambda: refused(**tolerates), within=30)

    assert "gate.muster.dev" in ungated
    assert "no-pool-toleration" in forbidden  # no is no
    assert gates_of(api.create(pods, manifest(), dryRun="All")) == []
    assert gates_of(api.create(elsewhere, manifest(gpus=1), dryRun="All")) == []
    assert gateway.missing_policies() == ()
    assert len(POLICY_NAMES) == 12
