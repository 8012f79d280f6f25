"""What the API server refuses in pods, and in changed Services (nodes and the rest are free)."""

import re

from simcluster.errors import (
    Cause,
    forbidden_field,
    immutable_field,
    invalid_field,
    required_field,
)
from simcluster.objects import Obj, clone, gates_of
from simcluster.quantity import milli

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_QUALIFIED = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_NAME_LIMIT, _LABEL_LIMIT = 253, 63
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute", "", None)

_MAY_CHANGE = (
    "spec.containers[*].image,spec.initContainers[*].image,spec.activeDeadlineSeconds,"
    "spec.tolerations (only additions to existing tolerations),"
    "spec.terminationGracePeriodSeconds (allow it to be set to 1 if it was previously negative)"
)


def metadata_causes(obj: Obj) -> list[Cause]:
    """What is wrong with an object's name, labels and annotations."""
    metadata = obj["metadata"]
    name = metadata["name"]
    causes: list[Cause] = []
    if not _NAME.fullmatch(name) or len(name) > _NAME_LIMIT:
        causes.append(invalid_field("metadata.name", name, _NAME_TEXT))
    for key, value in (metadata.get("labels") or {}).items():
        causes += _label_causes("metadata.labels", key, value)
    for key, value in (metadata.get("annotations") or {}).items():
        if not isinstance(value, str):
            causes.append(invalid_field(f"metadata.annotations[{key}]", value, "must be a string"))
    return causes


_NAME_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)


def _label_causes(field: str, key: str, value: object) -> list[Cause]:
    if not _QUALIFIED.fullmatch(key):
        return [invalid_field(field, key, "name part must consist of alphanumeric characters")]
    if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
        text = "a valid label must be an empty string or consist of alphanumeric characters"
        return [invalid_field(field, value, text)]
    if len(value) > _LABEL_LIMIT:
        return [invalid_field(field, value, f"must be no more than {_LABEL_LIMIT} bytes")]
    return []


def new_pod_causes(pod: Obj) -> list[Cause]:
    """What is wrong with a pod that is to be created."""
    causes = pod_spec_causes(pod["spec"], "spec")
    if pod["spec"].get("nodeName") and gates_of(pod):
        text = "cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden_field("spec.nodeName", text))
    return causes


def pod_spec_causes(spec: Obj, at: str) -> list[Cause]:
    """What is wrong with a pod spec found at field path `at`."""
    causes: list[Cause] = []
    containers = spec.get("containers")
    if not containers:
        causes.append(required_field(f"{at}.containers"))
    names: set[str] = set()
    for index, container in enumerate(containers or []):
        causes += _container_causes(container, f"{at}.containers[{index}]", names=names)
    policy = spec.get("restartPolicy")
    if policy not in {"Always", "OnFailure", "Never"}:
        causes.append(Cause(f"{at}.restartPolicy", "Unsupported value", _POLICIES, policy))
    gates: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or []):
        causes += _gate_causes(gate, f"{at}.schedulingGates[{index}]", known=gates)
    for index, toleration in enumerate(spec.get("tolerations") or []):
        causes += _toleration_causes(toleration, f"{at}.tolerations[{index}]")
    for key, value in (spec.get("nodeSelector") or {}).items():
        causes += _label_causes(f"{at}.nodeSelector", key, value)
    return causes


_POLICIES = 'supported values: "Always", "OnFailure", "Never"'


def _container_causes(container: Obj, at: str, *, names: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name")
    if not name:
        causes.append(required_field(f"{at}.name"))
    elif name in names:
        causes.append(Cause(f"{at}.name", "Duplicate value", "", name))
    names.add(str(name))
    if not container.get("image"):
        causes.append(required_field(f"{at}.image"))
    resources = container.get("resources") or {}
    for part in ("limits", "requests"):
        for resource, amount in (resources.get(part) or {}).items():
            causes += _quantity_causes(f"{at}.resources.{part}[{resource}]", amount)
    return causes or _extended_causes(resources, at)


def _quantity_causes(field: str, amount: object) -> list[Cause]:
    try:
        negative = milli(amount) < 0
    except (ValueError, ZeroDivisionError):
        return [invalid_field(field, amount, "quantities must match the regular expression")]
    text = "must be greater than or equal to 0"
    return [invalid_field(field, amount, text)] if negative else []


def _extended_causes(resources: Obj, at: str) -> list[Cause]:
    """Extended resources are whole, and their request equals their limit."""
    causes: list[Cause] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in {**limits, **requests}:
        if "/" not in name:
            continue
        field = f"{at}.resources.limits[{name}]"
        if name not in limits:
            causes.append(
                required_field(field, "Limit must be set for non overcommitable resources")
            )
        elif milli(limits[name]) % 1000:
            causes.append(invalid_field(field, limits[name], "must be an integer"))
        elif milli(limits[name]) != milli(requests.get(name, limits[name])):
            text = f"must be equal to {name} limit of {limits[name]}"
            causes.append(invalid_field(f"{at}.resources.requests", requests[name], text))
    return causes


def _gate_causes(gate: Obj, at: str, *, known: set[str]) -> list[Cause]:
    name = gate.get("name")
    if not name or not _QUALIFIED.fullmatch(name):
        text = "name part must consist of alphanumeric characters, '-', '_' or '.'"
        return [invalid_field(at, name or "", text)]
    if name in known:
        return [Cause(at, "Duplicate value", "", name)]
    known.add(name)
    return []


def _toleration_causes(toleration: Obj, at: str) -> list[Cause]:
    operator = toleration.get("operator") or "Equal"
    if operator not in {"Exists", "Equal"}:
        text = 'supported values: "Equal", "Exists"'
        return [Cause(f"{at}.operator", "Unsupported value", text, operator)]
    if operator == "Exists" and toleration.get("value"):
        text = "value must be empty when `operator` is 'Exists'"
        return [invalid_field(f"{at}.operator", toleration["value"], text)]
    if not toleration.get("key") and operator != "Exists":
        text = "operator must be Exists when `key` is empty, which means all values and all keys"
        return [invalid_field(f"{at}.operator", operator, text)]
    if toleration.get("effect") not in _EFFECTS:
        text = 'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
        return [Cause(f"{at}.effect", "Unsupported value", text, toleration["effect"])]
    return []


def pod_update_causes(new: Obj, old: Obj) -> list[Cause]:
    """What an update may not do to a pod: gates only go, selectors only tighten, and so on."""
    causes = pod_spec_causes(new["spec"], "spec")
    causes += [
        forbidden_field(
            "spec.schedulingGates",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for name in gates_of(new)
        if name not in gates_of(old)
    ]
    if causes:
        return causes
    causes += _toleration_update_causes(new["spec"], old["spec"])
    causes += _deadline_causes(new["spec"], old["spec"])
    kept = clone(old["spec"])
    _allow_common(kept, new["spec"])
    if gates_of(old):
        causes += _gated_causes(kept, new["spec"], old["spec"])
    if not causes and kept != _normal(new["spec"]) and _normal(kept) != _normal(new["spec"]):
        text = f"pod updates may not change fields other than {_MAY_CHANGE}"
        causes.append(forbidden_field("spec", text))
    return causes


def _normal(spec: Obj) -> Obj:
    """A spec without the empty fields that mean the same as none."""
    return {key: value for key, value in spec.items() if value not in ([], {}, None, "")}


def _allow_common(kept: Obj, new: Obj) -> None:
    """Take over what may always change: images, tolerations, gates gone, the deadline."""
    for part in ("containers", "initContainers"):
        olds, news = kept.get(part) or [], new.get(part) or []
        if len(olds) == len(news):
            for old, other in zip(olds, news, strict=True):
                old["image"] = other.get("image")
    for name in ("tolerations", "schedulingGates", "activeDeadlineSeconds"):
        kept.pop(name, None)
        if name in new:
            kept[name] = new[name]


def _toleration_update_causes(new: Obj, old: Obj) -> list[Cause]:
    left = list(new.get("tolerations") or [])
    for toleration in old.get("tolerations") or []:
        same = [t for t in left if _but_seconds(t) == _but_seconds(toleration)]
        if not same:
            text = "existing toleration can not be modified except its tolerationSeconds"
            return [forbidden_field("spec.tolerations", text)]
    return []


def _but_seconds(toleration: Obj) -> Obj:
    return {k: v for k, v in toleration.items() if k != "tolerationSeconds" and v not in ("", None)}


def _deadline_causes(new: Obj, old: Obj) -> list[Cause]:
    was, now = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    field = "spec.activeDeadlineSeconds"
    if was is not None and now is None:
        return [
            invalid_field(field, "null", "must not update from a positive integer to nil value")
        ]
    if was is not None and now is not None and now > was:
        text = f"must be less than or equal to previous value {was}"
        return [invalid_field(field, now, text)]
    return []


def _gated_causes(kept: Obj, new: Obj, old: Obj) -> list[Cause]:
    """While gated, the node selector and the node affinity may be tightened."""
    was, now = old.get("nodeSelector") or {}, new.get("nodeSelector") or {}
    if any(now.get(key) != value for key, value in was.items()):
        text = (
            "field is immutable"
            if was == now
            else (f"only additions to existing mutations are allowed: was {was}")
        )
        return [invalid_field("spec.nodeSelector", now, text)]
    kept.pop("nodeSelector", None)
    if "nodeSelector" in new:
        kept["nodeSelector"] = new["nodeSelector"]
    return _affinity_causes(kept, new, old)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _affinity_causes(kept: Obj, new: Obj, old: Obj) -> list[Cause]:
    was = (old.get("affinity") or {}).get("nodeAffinity") or {}
    now = (new.get("affinity") or {}).get("nodeAffinity") or {}
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}"
    if was.get(_REQUIRED) and not _is_tighter(now.get(_REQUIRED), was[_REQUIRED]):
        text = "only additions to the expressions of a term are allowed"
        return [invalid_field(field, now.get(_REQUIRED), text)]
    affinity = {k: v for k, v in (kept.get("affinity") or {}).items() if k != "nodeAffinity"}
    if now:
        affinity["nodeAffinity"] = now
    kept["affinity"] = affinity
    return []


def _is_tighter(new: Obj | None, old: Obj) -> bool:
    olds, news = old["nodeSelectorTerms"], (new or {}).get("nodeSelectorTerms") or []
    if len(olds) != len(news):
        return False
    return all(
        requirement in (other.get(part) or [])
        for term, other in zip(olds, news, strict=True)
        for part in ("matchExpressions", "matchFields")
        for requirement in term.get(part) or []
    )


def service_update_causes(new: Obj, old: Obj) -> list[Cause]:
    """What may not change in a Service: an address that it has, "None" among them."""
    address, kept = ((obj.get("spec") or {}).get("clusterIP") for obj in (new, old))
    may_be = not (address and kept) or address == kept
    return [] if may_be else [immutable_field("spec.clusterIP", address)]


def frozen_causes(new: Obj, old: Obj, *, fields: tuple[str, ...], at: str) -> list[Cause]:
    """One cause for each of `fields` that differs."""
    return [
        immutable_field(f"{at}.{name}", new.get(name))
        for name in fields
        if new.get(name) != old.get(name)
    ]
