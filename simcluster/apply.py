"""Server-side apply: who owns which field, conflicts, and what a dropped field does.

A set of fields is a set of paths; a path is a tuple of steps as managedFields writes them:
`f:name` for a field, `k:{"name":"x"}` for an item of a keyed list, `v:"x"` for a plain one.
"""

import json
from dataclasses import dataclass
from typing import Any

from simcluster.errors import ApiError
from simcluster.objects import Obj, clone

Path = tuple[str, ...]

_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "port", "protocol"),
    "schedulingGates": ("name",),
    "conditions": ("type",),
    "ownerReferences": ("uid",),
    "imagePullSecrets": ("name",),
    "resourceClaims": ("name",),
    "addresses": ("type",),
}
_SETS = frozenset({"finalizers"})
# Objects that belong to one owner as a whole.
_ATOMIC = frozenset({"nodeSelector", "selector", "fieldRef", "secretKeyRef", "configMapKeyRef"})
_UNOWNED = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata", "f:name"),
        ("f:metadata", "f:namespace"),
        ("f:metadata", "f:uid"),
        ("f:metadata", "f:resourceVersion"),
        ("f:metadata", "f:creationTimestamp"),
        ("f:metadata", "f:generation"),
        ("f:metadata", "f:managedFields"),
        ("f:metadata", "f:deletionTimestamp"),
        ("f:metadata", "f:deletionGracePeriodSeconds"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One server-side apply: by whom, forced or not, and of which part of the object."""

    manager: str
    at: str
    part: str = ""
    force: bool = False


def fields_of(value: Any, at: Path = ()) -> dict[Path, Any]:
    """Every leaf of an object: its path and what stands there."""
    found: dict[Path, Any] = {}
    _collect(value, at, found)
    return {path: leaf for path, leaf in found.items() if path not in _UNOWNED}


def _collect(value: Any, at: Path, found: dict[Path, Any]) -> None:
    name = at[-1][2:] if at and at[-1].startswith("f:") else ""
    if isinstance(value, dict) and value and name not in _ATOMIC:
        if at and at[-1].startswith("k:"):
            found[(*at, ".")] = None
        for key, item in value.items():
            path = (*at, f"f:{key}")
            if path not in _UNOWNED:
                _collect(item, path, found)
    elif isinstance(value, list) and value and (name in _KEYS or name in _SETS):
        for item in value:
            _collect(item, (*at, _step(name, item)), found)
    else:
        found[at] = value


def differences(new: Obj, old: Obj) -> tuple[set[Path], set[Path]]:
    """Paths whose value is new or other than in `old`, and paths that only `old` has.

    Only the fields that differ are walked, which in most writes are few.
    """
    mine: dict[Path, Any] = {}
    theirs: dict[Path, Any] = {}
    _collect_unequal(new, old, (), found=(mine, theirs))
    changed = {p for p, v in mine.items() if p not in theirs or theirs[p] != v} - _UNOWNED
    return changed, set(theirs) - set(mine) - _UNOWNED


def _collect_unequal(
    new: Obj, old: Obj, at: Path, *, found: tuple[dict[Path, Any], dict[Path, Any]]
) -> None:
    for key in {**new, **old}:
        path = (*at, f"f:{key}")
        mine, theirs = new.get(key), old.get(key)
        if path in _UNOWNED or (mine == theirs and (key in new) == (key in old)):
            continue
        if isinstance(mine, dict) and isinstance(theirs, dict) and key not in _ATOMIC:
            _collect_unequal(mine, theirs, path, found=found)
            continue
        if key in new:
            _collect(mine, path, found[0])
        if key in old:
            _collect(theirs, path, found[1])


def _step(name: str, item: Any) -> str:
    if name in _SETS or not isinstance(item, dict):
        return f"v:{json.dumps(item)}"
    keys = {key: item[key] for key in _KEYS[name] if key in item}
    return f"k:{json.dumps(keys, separators=(',', ':'))}"


def to_fields_v1(paths: set[Path]) -> Obj:
    """A set of paths as managedFields keeps it."""
    root: Obj = {}
    for path in sorted(paths):
        here = root
        for step in path:
            here = here.setdefault(step, {})
    return root


def from_fields_v1(fields: Obj, at: Path = ()) -> set[Path]:
    """The inverse of `to_fields_v1`."""
    found: set[Path] = set()
    for step, inner in fields.items():
        found |= from_fields_v1(inner, (*at, step)) if inner else {(*at, step)}
    return found


def merged(live: Obj, applied: Obj, *, order: Order) -> Obj:
    """`live` with the applied fields set and those that the manager dropped taken away.

    Raises 409 when another manager owns a field with another value, unless forced.
    """
    applied = {k: v for k, v in applied.items() if k != "status" or order.part == "status"}
    wanted = fields_of(applied)
    entries = _entries(live)
    own = ("Apply", order.manager, order.part)
    before = entries.pop(own, set())
    present = fields_of(live)
    changed = {p for p, value in wanted.items() if p not in present or present[p] != value}
    _settle_conflicts(entries, changed, order=order)
    result = clone(live)
    owned_by_others = set().union(*entries.values()) if entries else set()
    dropped = before - set(wanted) - owned_by_others
    for path in sorted(dropped, key=lambda path: (path[-1] != ".", -len(path), path)):
        _take(result, path)
    result = dict(_put(result, applied, ""))
    entries[own] = set(wanted)
    _write_entries(result, live, entries, touched={own: order.at})
    return result


def track(new: Obj, old: Obj | None, *, write: tuple[str, str], at: str) -> None:
    """Note in `new` that a plain write changed fields: they are the writer's now."""
    changed, gone = differences(new, old or {})
    if not changed and not gone:
        return
    entries = _entries(new)
    own = ("Update", *write)
    for key, paths in entries.items():
        if key != own:
            paths.difference_update((changed - _same_step(changed)) | gone)
    mine = (entries.get(own, set()) | changed) - gone
    entries[own] = {path for path in mine if not path[0].startswith("f:status") or write[1]}
    _write_entries(new, new, entries, touched={own: at} if changed else {})


def _same_step(changed: set[Path]) -> set[Path]:
    """Steps that only say that a list item is there: several managers may hold them."""
    return {path for path in changed if path[-1] == "."}


Entries = dict[tuple[str, str, str], set[Path]]


def _entries(obj: Obj) -> Entries:
    return {
        (e["operation"], e["manager"], e.get("subresource", "")): from_fields_v1(e["fieldsV1"])
        for e in obj["metadata"].get("managedFields") or []
    }


def _write_entries(
    result: Obj, live: Obj, entries: Entries, *, touched: dict[tuple[str, str, str], str]
) -> None:
    times = {
        (e["operation"], e["manager"], e.get("subresource", "")): e["time"]
        for e in live["metadata"].get("managedFields") or []
    }
    version = result.get("apiVersion", "v1")
    written = []
    for key, paths in entries.items():
        operation, manager, part = key
        if not paths:
            continue
        at = touched.get(key, times.get(key, ""))
        entry = {"manager": manager, "operation": operation, "apiVersion": version, "time": at}
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": to_fields_v1(paths)}
        written.append({**entry, "subresource": part} if part else entry)
    result.setdefault("metadata", {})["managedFields"] = written


def _settle_conflicts(entries: Entries, changed: set[Path], *, order: Order) -> None:
    """Refuse what others own, or with force take it from them."""
    causes = []
    for (_, manager, _part), paths in entries.items():
        taken = {path for path in paths & changed if path[-1] != "."}
        if order.force:
            paths.difference_update(taken)
        causes += [_conflict_cause(manager, path) for path in sorted(taken)]
    if not causes or order.force:
        return
    count = len(causes)
    listed = "; ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    message = f"Apply failed with {count} conflict{'s' if count > 1 else ''}: {listed}"
    raise ApiError(409, "Conflict", message=message, details={"causes": causes})


def _conflict_cause(manager: str, path: Path) -> Obj:
    field = "".join(_spelled(step) for step in path)
    message = f'conflict with "{manager}"'
    return {"reason": "FieldManagerConflict", "message": message, "field": field}


def _spelled(step: str) -> str:
    kind, _, rest = step.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = ",".join(f"{k}={json.dumps(v)}" for k, v in json.loads(rest).items())
        return f"[{keys}]"
    return f"[={rest}]" if kind == "v" else ""


def _put(live: Any, applied: Any, name: str) -> Any:
    """`applied` laid over `live`, list items joined by their keys."""
    if isinstance(applied, dict) and isinstance(live, dict) and name not in _ATOMIC:
        result = dict(live)
        for key, value in applied.items():
            result[key] = _put(live.get(key), value, key)
        return result
    if isinstance(applied, list) and isinstance(live, list) and (name in _KEYS or name in _SETS):
        result_list = list(live)
        steps = [_step(name, item) for item in live]
        for item in applied:
            step = _step(name, item)
            if step in steps:
                at = steps.index(step)
                result_list[at] = _put(result_list[at], item, "")
            else:
                result_list.append(clone(item))
        return result_list
    return clone(applied)


def _take(obj: Any, path: Path) -> None:
    """Remove what stands at `path`, and what becomes empty with it."""
    step, rest = path[0], path[1:]
    name = step[2:]
    if step.startswith("f:"):
        if not isinstance(obj, dict) or name not in obj:
            return
        if rest and rest[0][:2] in {"k:", "v:"}:
            _take_item(obj, name, rest)
        elif rest:
            _take(obj[name], rest)
        if not rest or obj[name] in ({}, []):
            del obj[name]


def _take_item(obj: Obj, name: str, path: Path) -> None:
    items = obj[name]
    at = next((i for i, item in enumerate(items) if _step(name, item) == path[0]), None)
    if at is None:
        return
    if path[1:] in ((), (".",)):
        del items[at]
    else:
        _take(items[at], path[1:])
