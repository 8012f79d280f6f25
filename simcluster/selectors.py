"""Label and field selectors: text to a predicate, and label selectors of objects."""

import re
from collections.abc import Callable, Mapping

from simcluster.errors import bad_request
from simcluster.objects import Obj, labels_of
from simcluster.resources import EVENTS, JOBS, NAMESPACES, NODES, PODS, SECRETS, Resource

Predicate = Callable[[Obj], bool]

_SET = re.compile(r"^\s*(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*(?P<key>[^\s=!]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=!]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<no>!?)\s*(?P<key>[A-Za-z0-9][-A-Za-z0-9_./]*)\s*$")
_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")

_COMMON = ("metadata.name", "metadata.namespace")
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
FIELDS: dict[str, tuple[str, ...]] = {
    PODS.id: (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    EVENTS.id: (
        *(f"involvedObject.{name}" for name in _INVOLVED),
        "reason",
        "type",
        "reportingComponent",
        "source",
    ),
    NODES.id: ("spec.unschedulable",),
    NAMESPACES.id: ("status.phase",),
    JOBS.id: ("status.successful",),
    SECRETS.id: ("type",),
}


def everything(_obj: Obj) -> bool:
    return True


def label_selector(text: str) -> Predicate:
    """A predicate for `a=b,c in (d,e),!f`; raises 400 for a text that is no selector."""
    if not text.strip():
        return everything
    terms = [_label_term(part, text) for part in _OUTSIDE_PARENTHESES.split(text)]
    return lambda obj: _all_hold(terms, labels_of(obj))


def field_selector(text: str, resource: Resource) -> Predicate:
    """A predicate for `spec.nodeName=x,status.phase!=y`; raises 400 for an unknown field."""
    if not text.strip():
        return everything
    terms = [_field_term(part, resource) for part in text.split(",")]
    return lambda obj: all(term(obj) for term in terms)


def matches_expression(expression: Obj, labels: Mapping[str, str]) -> bool:
    """One requirement of a label selector or of node affinity."""
    key, operator = expression["key"], expression["operator"]
    values = expression.get("values") or []
    has: bool = key in labels
    if operator in {"Exists", "DoesNotExist"}:
        return has is (operator == "Exists")
    if operator == "In":
        return has and labels[key] in values
    if operator == "NotIn":
        return not has or labels[key] not in values
    if operator in {"Gt", "Lt"}:
        return has and _compares(operator, labels[key], limit=values[0])
    return False


def _compares(operator: str, value: str, *, limit: str) -> bool:
    try:
        return int(value) > int(limit) if operator == "Gt" else int(value) < int(limit)
    except ValueError:
        return False


LabelTerm = Callable[[Mapping[str, str]], bool]


def _all_hold(terms: list[LabelTerm], labels: Mapping[str, str]) -> bool:
    return all(term(labels) for term in terms)


def _label_term(part: str, whole: str) -> LabelTerm:
    if match := _SET.match(part):
        key, values = match["key"], {value.strip() for value in match["values"].split(",")}
        if match["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _EQUAL.match(part):
        key, value = match["key"], match["value"]
        if match["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _EXISTS.match(part):
        key, wanted = match["key"], not match["no"]
        return lambda labels: (key in labels) == wanted
    raise bad_request(f'unable to parse requirement: "{part}" in label selector "{whole}"')


def _field_term(part: str, resource: Resource) -> Predicate:
    match = _EQUAL.match(part)
    if match is None:
        raise bad_request(f'invalid field selector: "{part}"')
    path, value, wanted = match["key"], match["value"], match["op"] != "!="
    if path not in _COMMON and path not in FIELDS.get(resource.id, ()):
        raise bad_request(f"field label not supported: {path}")
    return lambda obj: (field_text(obj, path) == value) == wanted


def field_text(obj: Obj, path: str) -> str:
    """The value at a dotted path as field selectors compare it; "" when absent."""
    if path == "status.successful":
        return str(obj.get("status", {}).get("succeeded", 0))
    if path in {"spec.unschedulable", "spec.hostNetwork"}:
        return "true" if obj["spec"].get(path.split(".")[1]) else "false"
    if path == "source":
        path = "source.component"
    value: object = obj
    for name in path.split("."):
        value = value.get(name, "") if isinstance(value, dict) else ""
    return str(value)
