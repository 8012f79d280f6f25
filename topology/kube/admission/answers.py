"""Who answers the webhooks: a WSGI application that needs neither Django nor a database.

    python -m gunicorn --certfile tls.crt --keyfile tls.key topology.kube.admission.answers

It is asked only where the API server has found the rule broken or the gate missing, and so always
says the same: no, in the words of the rule that the path names, or a patch.
"""

import base64
import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from topology.kube import names
from topology.kube.admission.rules import RULE_SETS
from topology.kube.admission.webhooks import GATE_PATH, path_of_rule
from topology.kube.wire import Obj

MOST_BYTES = 8 << 20  # what an API server takes of an object is less
HEALTH_PATH = "/healthz"
_GATES = "/spec/schedulingGates"
_WORDS = {path_of_rule(rules, rule): rule.message for rules in RULE_SETS for rule in rules.rules}


def application(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], Any]
) -> Iterable[bytes]:
    status, body = _answer(environ)
    start_response(
        f"{status.value} {status.phrase}",
        [("Content-Type", "application/json"), ("Content-Length", str(len(body)))],
    )
    return [body]


def _answer(environ: dict[str, Any]) -> tuple[HTTPStatus, bytes]:
    path = environ["PATH_INFO"]
    if path == HEALTH_PATH:
        return HTTPStatus.OK, b"{}"
    if path != GATE_PATH and path not in _WORDS:
        return HTTPStatus.NOT_FOUND, b"{}"
    try:
        length = min(int(environ.get("CONTENT_LENGTH") or 0), MOST_BYTES)
        asked = json.loads(environ["wsgi.input"].read(length))["request"]
        said = _gate_put_on(asked["object"]) if path == GATE_PATH else _no(_WORDS[path])
        answer = {"uid": asked["uid"], **said}
    except (KeyError, TypeError, ValueError):
        return HTTPStatus.BAD_REQUEST, b"{}"
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
    return HTTPStatus.OK, json.dumps(review).encode()


def _gate_put_on(pod: Obj) -> Obj:
    gate = {"name": names.GATE}
    if "schedulingGates" in pod["spec"]:
        patch = [{"op": "add", "path": f"{_GATES}/-", "value": gate}]
    else:
        patch = [{"op": "add", "path": _GATES, "value": [gate]}]
    text = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


def _no(words: str) -> Obj:
    status = {"code": HTTPStatus.UNPROCESSABLE_ENTITY.value, "reason": "Invalid", "message": words}
    return {"allowed": False, "status": status}
