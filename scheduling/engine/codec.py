"""Snapshots, policies and plans as JSON: versioned, and the same bytes for the same value.

Records are objects, tuples are lists, arrays are lists of numbers, enumerations are their values. A
decision carries its kind under `kind`.
"""

import json
import typing
from collections.abc import Callable, Collection
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Final, TypeVar

import numpy as np

from scheduling.engine.arrays import NEVER
from scheduling.engine.indexes import MisfitError, check_jobs
from scheduling.engine.plan import Decision, Plan
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Quotas, Snapshot

VERSION: Final = 1
_FORMATS: Final[dict[str, type]] = {"snapshot": Snapshot, "policy": Policy, "plan": Plan}
_DECISIONS: Final = {kind.__name__: kind for kind in typing.get_args(Decision)}
_NEEDED: Final = ("taken_at", "flavors", "tenant_ids", "cohort_names", "quotas")
_WORDS: Final = {
    bool: "true or false",  # before int, which it is a kind of
    int: "a whole number",
    str: "a text",
    NoneType: "null",
    list: "a list",
    dict: "an object",
}
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
    """The value that `encode` wrote. Raises UnreadableError for anything else, naming the field."""
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise UnreadableError("not JSON of ours: it is nested too deeply") from error
    except ValueError as error:
        raise UnreadableError(f"not JSON: {error}") from error
    wanted = kind.__name__.lower()
    if not isinstance(document, dict) or document.get("format") != wanted:
        raise UnreadableError(f"not a {wanted}")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise UnreadableError(f"version {version} of {wanted}; this release reads {VERSION}")
    try:
        value: T = from_plain(document.get("value"), kind)
    except (TypeError, ValueError) as error:
        where = str(error).removeprefix(".")
        raise UnreadableError(f"this {wanted} is damaged: {where}") from error
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
    """The value of type `kind` that `to_plain` made `plain` of. Raises ValueError for another."""
    return _reader(kind)(plain)


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """What makes a value of type `kind` of its plain form."""
    if typing.get_origin(kind) is np.ndarray:
        return partial(_array, typing.get_args(typing.get_args(kind)[1])[0])
    if typing.get_origin(kind) is tuple:
        return _tuple_reader(typing.get_args(kind))
    if isinstance(kind, UnionType):
        return partial(_union, typing.get_args(kind))
    if is_dataclass(kind):
        return _RECORDS.get(kind) or partial(_record, kind)
    return partial(_word if issubclass(kind, Enum) else _scalar, kind)


def _form(kind: Any) -> type:
    """The type that a plain value of type `kind` has."""
    if typing.get_origin(kind) is tuple:
        return list
    if is_dataclass(kind):
        return dict
    return next(form for form in _WORDS if form is kind or issubclass(kind, form))


def _expect(plain: Any, form: type) -> None:
    if type(plain) is not form:
        raise MisfitError.of(_WORDS[form], plain)


def _record(kind: Any, plain: Any) -> Any:
    return kind(**_parts(kind, _needed(kind), plain))


@cache
def _needed(kind: Any) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    )


def _parts(kind: Any, needed: Collection[str], plain: Any) -> dict[str, Any]:
    """The fields of `kind` that `plain` has, read."""
    _expect(plain, dict)
    found = {}
    for name, part in _types(kind).items():
        try:
            if name in plain:
                found[name] = _reader(part)(plain[name])
        except MisfitError as misfit:
            raise misfit.inside(f".{name}") from None
    for name in needed:
        if name not in found:
            raise MisfitError(f".{name} is missing")
    return found


def _scalar(kind: type, plain: Any) -> Any:
    _expect(plain, kind)
    if kind is int and not -NEVER <= plain <= NEVER:
        raise MisfitError(f"must be from {-NEVER} to {NEVER}")
    return plain


def _word(kind: type[Enum], plain: Any) -> Any:
    values = [member.value for member in kind]
    if type(plain) is not _form(kind) or plain not in values:
        raise MisfitError.of(f"one of {', '.join(map(str, values))}", plain)
    return kind(plain)


def _snapshot(plain: Any) -> Snapshot:
    """Through the front door, so that shapes are checked and empty arrays keep theirs."""
    parts = _parts(Snapshot, _NEEDED, plain)
    quotas = Quotas.of(
        tenants=len(parts["tenant_ids"]),
        flavors=len(parts["flavors"]),
        cohorts=len(parts["cohort_names"]),
        **parts.pop("quotas"),
    )
    snapshot = Snapshot.of(quotas=quotas, **parts)
    check_jobs(snapshot)
    return snapshot


def _array(dtype: Any, plain: Any) -> Any:
    _expect(plain, list)
    try:
        array = np.array(plain)
    except ValueError as error:
        raise MisfitError("must be a list, or lists of equal length") from error
    if array.size and array.dtype != dtype:
        word = "whole numbers of 64 bits" if dtype is np.int64 else "true or false"
        raise MisfitError(f"must hold nothing but {word}")
    if array.size and dtype is np.int64 and not -NEVER <= array.min() <= array.max() <= NEVER:
        raise MisfitError(f"must hold numbers from {-NEVER} to {NEVER}")
    array.flags.writeable = False
    return array


def _tuple_reader(kinds: tuple[Any, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(kinds) == 2 and kinds[1] is Ellipsis:  # noqa: PLR2004 -- tuple[X, ...] has two arguments
        return partial(_list, _reader(kinds[0]))
    return partial(_row, tuple(map(_reader, kinds)))


def _list(read: Callable[[Any], Any], plain: Any) -> tuple[Any, ...]:
    _expect(plain, list)
    return _items([read] * len(plain), plain)


def _row(readers: Collection[Callable[[Any], Any]], plain: Any) -> tuple[Any, ...]:
    _expect(plain, list)
    if len(plain) != len(readers):
        raise MisfitError(f"must have {len(readers)} items, not {len(plain)}")
    return _items(readers, plain)


def _items(readers: Collection[Callable[[Any], Any]], plain: list[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    try:
        for read, item in zip(readers, plain, strict=True):
            found.append(read(item))
    except MisfitError as misfit:
        raise misfit.inside(f"[{len(found)}]") from None
    return tuple(found)


def _union(kinds: tuple[Any, ...], plain: Any) -> Any:
    if set(kinds) <= set(_DECISIONS.values()):
        return _decision(plain)
    for kind in kinds:
        if type(plain) is _form(kind):
            return _reader(kind)(plain)
    raise MisfitError.of(" or ".join(_WORDS[_form(kind)] for kind in kinds), plain)


def _decision(plain: Any) -> Any:
    _expect(plain, dict)
    kinds = {name.lower(): kind for name, kind in _DECISIONS.items()}
    kind = plain.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise MisfitError.of(f"one of {', '.join(kinds)}", kind).inside(".kind")
    return _reader(kinds[kind])(plain)


_RECORDS: Final[dict[Any, Callable[[Any], Any]]] = {
    Snapshot: _snapshot,
    Quotas: partial(_parts, Quotas, ()),
}


@cache
def _types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
