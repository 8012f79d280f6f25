"""The same rules where the cluster has no admission policies: by webhooks.

The API server evaluates a rule here, too, as a match condition: a webhook is asked only when its
rule is broken, and says no (see `answers`), or when a gate is to be put on. So nothing is said
twice, and while nobody answers the rules hold, in other words; pods without devices come and go.
Kubernetes 1.30.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from topology.kube import names
from topology.kube.admission.expressions import ASKERS, asks, has_gate
from topology.kube.admission.policies import API_VERSION, GATE_POLICY, TENANTS, constraints
from topology.kube.admission.rules import CREATE, RULE_SETS, Rule, RuleSet
from topology.kube.wire import Obj

GATE_PATH = "/gate"
_TIMEOUT_SECONDS = 5
_NO_HOST = {"key": names.HOST_ACCESS, "operator": "NotIn", "values": [names.ALLOWED]}
_MAY_REACH_HOST = "mayReachHost"  # of the namespace, which match conditions do not see
_VARIABLE = re.compile(r"\bvariables\.(\w+)")


def admission_webhooks(accounts: Sequence[str], server: Mapping[str, Any]) -> list[Obj]:
    """The gate and every rule set as webhooks; `accounts` are the user names that are Muster.

    server: how to reach who answers, as in a webhook's clientConfig; its url or its service's path
    is the beginning of ours. ValueError without an account.
    """
    if not accounts:
        raise ValueError("name the accounts of Muster: nobody else may open its gate")
    ours = ", ".join(f"'{account}'" for account in accounts)
    askers = {"isMuster": f"request.userInfo.username in [{ours}]", **dict(ASKERS)}
    found = [_configuration("Mutating", GATE_POLICY, [_gate(server)])]
    for rules in RULE_SETS:
        known = {**askers, **dict(rules.variables)}
        webhooks = [_webhook(rules, rule, known, server) for rule in rules.rules]
        found.append(_configuration("Validating", rules.name, webhooks))
    return found


def path_of_rule(rules: RuleSet, rule: Rule) -> str:
    return f"/{rules.name}/{rule.name}"


def _gate(server: Mapping[str, Any]) -> Obj:
    conditions = {"asks-for-devices": asks("object"), "has-no-gate": f"!{has_gate('object')}"}
    limits = constraints(("/pods",), (CREATE,), everywhere=False)
    made = _asked("gate.muster.dev", GATE_PATH, limits, conditions, server)
    return {**made, "reinvocationPolicy": "IfNeeded"}


def _webhook(
    rules: RuleSet, rule: Rule, known: Mapping[str, str], server: Mapping[str, Any]
) -> Obj:
    """Asked when the rule is broken."""
    limits = constraints(rules.resources, rule.on, everywhere=rules.everywhere)
    if f"variables.{_MAY_REACH_HOST}" in rule.expression:
        known = {**known, _MAY_REACH_HOST: "false"}
        expressions = [*TENANTS["matchExpressions"], _NO_HOST]
        limits["namespaceSelector"] = {"matchExpressions": expressions}
    conditions = {"concerned": rules.condition} if rules.condition else {}
    conditions["broken"] = f"!({_written_out(rule.expression, known)})"
    name = f"{rule.name}.{rules.name}.muster.dev"
    return _asked(name, path_of_rule(rules, rule), limits, conditions, server)


def _written_out(expression: str, known: Mapping[str, str]) -> str:
    """The expression with each variable replaced by what it stands for."""
    return _VARIABLE.sub(lambda found: f"({_written_out(known[found[1]], known)})", expression)


def _asked(
    name: str, path: str, limits: Obj, conditions: Mapping[str, str], server: Mapping[str, Any]
) -> Obj:
    """A webhook without whose answer nothing goes on."""
    return {
        "name": name,
        "clientConfig": _below(server, path),
        "rules": limits.pop("resourceRules"),
        **limits,
        "matchConditions": [
            {"name": said, "expression": expression} for said, expression in conditions.items()
        ],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }


def _below(server: Mapping[str, Any], path: str) -> Obj:
    if "url" in server:
        return {**server, "url": server["url"] + path}
    service = server["service"]
    return {**server, "service": {**service, "path": service.get("path", "") + path}}


def _configuration(kind: str, name: str, webhooks: list[Obj]) -> Obj:
    return {
        "apiVersion": API_VERSION,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name, "labels": {names.KEPT_BY: names.US}},
        "webhooks": webhooks,
    }
