"""The admission policies of a cluster as manifests: the gate put on, and the rules around it.

They hold in namespaces that bear the label of a tenant and fail closed there; everywhere else a
pod is none of their business. Both kinds are admissionregistration.k8s.io/v1: Kubernetes 1.36.
"""

from collections.abc import Sequence

from topology.kube import names
from topology.kube.admission.expressions import ASKERS, asks, has_gate
from topology.kube.admission.rules import CREATE, RULE_SETS, Rule, RuleSet
from topology.kube.wire import Obj

API_VERSION = "admissionregistration.k8s.io/v1"
GATE_POLICY = "muster-gate"
POLICY_NAMES = (GATE_POLICY, *(rules.name for rules in RULE_SETS))
POLICY_PATHS = tuple(
    f"/apis/{API_VERSION}/{kind}{what}"
    for what in ("admissionpolicybindings", "webhookconfigurations")
    for kind in ("mutating", "validating")
)
TENANTS = {"matchExpressions": [{"key": names.TENANT, "operator": "Exists"}]}
_GATE = f"Object.spec.schedulingGates{{name: '{names.GATE}'}}"
_PUT_ON = (
    "has(object.spec.schedulingGates)"
    f" ? [JSONPatch{{op: 'add', path: '/spec/schedulingGates/-', value: {_GATE}}}]"
    f" : [JSONPatch{{op: 'add', path: '/spec/schedulingGates', value: [{_GATE}]}}]"
)


def admission_policies(accounts: Sequence[str]) -> list[Obj]:
    """Every policy with its binding; `accounts` are the user names that are Muster.

    ValueError without one: nobody could open the gate.
    """
    if not accounts:
        raise ValueError("name the accounts of Muster: nobody else may open its gate")
    found: list[Obj] = [_gate(), _binding("Mutating", GATE_POLICY)]
    for rules in RULE_SETS:
        found += [_policy(rules, accounts), _binding("Validating", rules.name)]
    return found


def _gate() -> Obj:
    spec = {
        "matchConstraints": constraints(("/pods",), (CREATE,), everywhere=False),
        "matchConditions": [
            {"name": "asks-for-devices", "expression": asks("object")},
            {"name": "has-no-gate", "expression": f"!{has_gate('object')}"},
        ],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _PUT_ON}}],
    }
    return _object("MutatingAdmissionPolicy", GATE_POLICY, spec)


def _policy(rules: RuleSet, accounts: Sequence[str]) -> Obj:
    ours = ", ".join(f"'{account}'" for account in accounts)
    variables = (("isMuster", f"request.userInfo.username in [{ours}]"), *ASKERS, *rules.variables)
    spec: Obj = {
        "matchConstraints": constraints(
            rules.resources, rules.operations, everywhere=rules.everywhere
        ),
        "failurePolicy": "Fail",
        "variables": [{"name": name, "expression": said} for name, said in variables],
        "validations": [_validation(rule) for rule in rules.rules],
    }
    if rules.condition:
        spec["matchConditions"] = [{"name": "concerned", "expression": rules.condition}]
    return _object("ValidatingAdmissionPolicy", rules.name, spec)


def _validation(rule: Rule) -> Obj:
    concerned = " || ".join(f"request.operation == '{operation}'" for operation in rule.on)
    return {"expression": f"!({concerned}) || ({rule.expression})", "message": rule.message}


def _binding(kind: str, policy: str) -> Obj:
    spec: Obj = {"policyName": policy}
    if kind == "Validating":
        spec["validationActions"] = ["Deny"]
    return _object(f"{kind}AdmissionPolicyBinding", policy, spec)


def constraints(
    resources: tuple[str, ...], operations: tuple[str, ...], *, everywhere: bool
) -> Obj:
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": list(operations),
            "resources": [resource],
        }
        for group, _slash, resource in (path.partition("/") for path in resources)
    ]
    return {"resourceRules": rules} | ({} if everywhere else {"namespaceSelector": TENANTS})


def _object(kind: str, name: str, spec: Obj) -> Obj:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "labels": {names.KEPT_BY: names.US}},
        "spec": spec,
    }
