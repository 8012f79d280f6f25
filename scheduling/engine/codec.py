"""Snapshots, policies and plans as JSON: versioned, and the same bytes for the same value.

Records are objects, tuples are lists, arrays are lists of numbers, enumerations are their values. A
decision carries its kind under `kind`.
"""

import json
import typing
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar

import numpy as np

from scheduling.engine.plan import Decision, Plan
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Quotas, Snapshot

VERSION: Final = 1
_FORMATS: Final[dict[str, type]] = {"snapshot": Snapshot, "policy": Policy, "plan": Plan}
_DECISIONS: Final = {kind.__name__: kind for kind in typing.get_args(Decision)}
T = TypeVar("T", Snapshot, Policy, Plan)


class UnreadableError(ValueError):
    """The text is no JSON of ours, or of a version that this release does not read."""


def encode(value: Snapshot | Policy | Plan) -> str:
    """`value` as one line of JSON with sorted keys."""
    document = {
        "format": type(value).__name__.lower(),
        "version": VERSION,
        "value": to_plain(value),
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def decode(text: str | bytes, kind: type[T]) -> T:
    """The value that `encode` wrote. Raises UnreadableError for anything else."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"not JSON: {error}") from error
    wanted = kind.__name__.lower()
    if not isinstance(document, dict) or document.get("format") != wanted:
        raise UnreadableError(f"not a {wanted}")
    if document.get("version") != VERSION:
        raise UnreadableError(
            f"version {document.get('version')} of {wanted}; this release reads {VERSION}"
        )
    try:
        value: T = from_plain(document["value"], kind)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableError(f"this {wanted} is damaged: {error}") from error
    return value


def to_plain(value: Any) -> Any:
    """`value` as dicts, lists, numbers and strings."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        plain = {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
        return plain | _kind_of(value)
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value


def _kind_of(value: Any) -> dict[str, str]:
    name = type(value).__name__
    return {"kind": name.lower()} if name in _DECISIONS else {}


def from_plain(plain: Any, kind: Any) -> Any:
    """The value of type `kind` that `to_plain` made `plain` of."""
    if _is_array(kind):
        return _array(plain, kind)
    if kind is Snapshot:
        return _snapshot(plain)
    if typing.get_origin(kind) is tuple:
        return _tuple(plain, typing.get_args(kind))
    if isinstance(kind, UnionType):
        return _union(plain, typing.get_args(kind))
    return _record(plain, kind) if is_dataclass(kind) else _word(plain, kind)


def _record(plain: dict[str, Any], kind: Any) -> Any:
    types = _types(kind)
    known = {name: plain[name] for name in types if name in plain}
    return kind(**{name: from_plain(item, types[name]) for name, item in known.items()})


def _word(plain: Any, kind: Any) -> Any:
    return kind(plain) if isinstance(kind, type) and issubclass(kind, Enum) else plain


def _snapshot(plain: dict[str, Any]) -> Snapshot:
    """Through the front door, so that shapes are checked and empty arrays keep theirs."""
    types = _types(Snapshot)
    known = {name: item for name, item in plain.items() if name in types}
    parts = {
        name: item if _is_array(types[name]) else from_plain(item, types[name])
        for name, item in known.items()
        if name != "quotas"
    }
    quotas = Quotas.of(
        tenants=len(parts["tenant_ids"]),
        flavors=len(parts["flavors"]),
        cohorts=len(parts["cohort_names"]),
        **known["quotas"],
    )
    return Snapshot.of(quotas=quotas, **parts)


def _is_array(kind: Any) -> bool:
    return typing.get_origin(kind) is np.ndarray


def _array(plain: Any, kind: Any) -> Any:
    array = np.array(plain, dtype=typing.get_args(typing.get_args(kind)[1])[0])
    array.flags.writeable = False
    return array


def _tuple(plain: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(kinds) == 2 and kinds[1] is Ellipsis:  # noqa: PLR2004 -- tuple[X, ...] has two arguments
        return tuple(from_plain(item, kinds[0]) for item in plain)
    return tuple(from_plain(item, kind) for item, kind in zip(plain, kinds, strict=True))


def _union(plain: Any, kinds: tuple[Any, ...]) -> Any:
    if plain is None and NoneType in kinds:
        return None
    if isinstance(plain, dict) and "kind" in plain:
        return from_plain(plain, _DECISIONS[plain["kind"].capitalize()])
    if isinstance(plain, list):
        kinds = tuple(kind for kind in kinds if typing.get_origin(kind) is tuple)
    others = [kind for kind in kinds if kind is not NoneType]
    if isinstance(plain, str) and str in others:
        return plain
    return from_plain(plain, others[0])


@cache
def _types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
