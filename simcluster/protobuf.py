"""Just enough protobuf for what kubectl sends in it: `kubectl create namespace` and its like.

Only small kinds are read; everything else is sent as JSON by the clients that matter.
"""

import base64
from collections.abc import Iterator
from typing import Any

from simcluster.errors import bad_request
from simcluster.objects import Obj

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# Field number -> name and how to read it: text, bytes, or the fields of a message.
_METADATA: dict[int, tuple[str, str]] = {
    1: ("name", "text"),
    2: ("generateName", "text"),
    3: ("namespace", "text"),
    11: ("labels", "text map"),
    12: ("annotations", "text map"),
    14: ("finalizers", "text list"),
}
_KINDS: dict[str, dict[int, tuple[str, str]]] = {
    "Namespace": {1: ("metadata", "metadata")},
    "ServiceAccount": {1: ("metadata", "metadata")},
    "ConfigMap": {
        1: ("metadata", "metadata"),
        2: ("data", "text map"),
        3: ("binaryData", "bytes map"),
    },
    "Secret": {
        1: ("metadata", "metadata"),
        2: ("data", "bytes map"),
        3: ("type", "text"),
        4: ("stringData", "text map"),
    },
}


def decode(body: bytes) -> Obj:
    """The object in a protobuf body; 400 for a kind that must be sent as JSON."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body is no Kubernetes protobuf")
    envelope = dict(_fields(body[len(_MAGIC) :]))
    names = dict(_fields(envelope.get(1, b"")))
    version, kind = names.get(1, b"").decode(), names.get(2, b"").decode()
    if kind not in _KINDS:
        raise bad_request(f"simcluster reads a {kind} as JSON only; send application/json")
    return {"apiVersion": version, "kind": kind, **_message(envelope.get(2, b""), _KINDS[kind])}


def _message(data: bytes, fields: dict[int, tuple[str, str]]) -> Obj:
    found: Obj = {}
    for number, raw in _fields(data):
        name, how = fields.get(number, ("", ""))
        if how == "metadata":
            found[name] = _message(raw, _METADATA)
        elif how.endswith("map"):
            entry = dict(_fields(raw))
            value = _scalar(entry.get(2, b""), how.split()[0])
            found.setdefault(name, {})[entry.get(1, b"").decode()] = value
        elif how.endswith("list"):
            found.setdefault(name, []).append(raw.decode())
        elif how and raw:
            found[name] = _scalar(raw, how)
    return found


def _scalar(raw: bytes, how: str) -> Any:
    return base64.b64encode(raw).decode() if how == "bytes" else raw.decode()


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message; numbers are skipped."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _BYTES:
            length, at = _varint(data, at)
            yield number, data[at : at + length]
            at += length
        elif wire == _VARINT:
            _, at = _varint(data, at)
        elif wire in {_FIXED64, _FIXED32}:
            at += 8 if wire == _FIXED64 else 4
        else:
            raise bad_request("the body is no Kubernetes protobuf")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the top bit says that more follows
            return value, at
    raise bad_request("the body ends in the middle of a field")
