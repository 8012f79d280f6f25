"""One request and one answer, free of any web framework."""

import json
import math
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from simcluster import protobuf
from simcluster.errors import bad_request, no_such_path, unsupported_media_type
from simcluster.objects import Obj
from simcluster.resources import BY_PATH, Resource

JSON = "application/json"
_NUMBER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a path names: a kind, perhaps a namespace, an object, and a part of it."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in {"true", "1"}

    def number(self, name: str) -> int | None:
        """A query parameter as a number; None when absent, 400 when it is none."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not _NUMBER.fullmatch(text):
            raise bad_request(f"{name}={text[:40]} is no number")
        return int(text)

    def media_type(self) -> str:
        return self.headers.get("content-type", JSON).split(";")[0].strip().lower()

    def json(self) -> Any:
        """The body; 415 when it is in another format, 400 when it is no JSON."""
        media_type = self.media_type()
        if not media_type.endswith(("json", "+yaml")):
            raise unsupported_media_type(media_type, accepted=[JSON])
        try:
            return json.loads(self.body, parse_constant=_refuse, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            raise bad_request(f"the body is no JSON: {error}") from error

    def object(self) -> Obj:
        """The body as an object; 400 when it is something else."""
        is_protobuf = self.media_type() == protobuf.MEDIA_TYPE
        body = protobuf.decode(self.body) if is_protobuf else self.json()
        if not isinstance(body, dict):
            raise bad_request("the body must be an object")
        return body

    def manager(self) -> str:
        """Who writes, as managed fields name it."""
        agent = self.headers.get("user-agent", "unknown").split("/")[0]
        return self.query.get("fieldManager") or agent[:128]

    @property
    def is_dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer: a body, or a stream of parts when `stream` is set."""

    body: bytes = b""
    code: int = 200
    media_type: str = JSON
    stream: AsyncIterator[bytes] | None = None


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def json_response(value: Any, code: int = 200) -> Response:
    return Response(body=dump(value), code=code)


def dump(value: Any) -> bytes:
    """Compact JSON; a stored object's is made once and kept."""
    return json.dumps(value, separators=(",", ":")).encode()


def parse_target(path: str) -> Target:
    """The target of a path under /api or /apis; 404 when it names nothing that is served."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:  # noqa: PLR2004 - api, version, resource
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:  # noqa: PLR2004 - apis, group, version, resource
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    namespace = ""
    is_inside = len(rest) > 2 or (group and len(rest) > 1)  # noqa: PLR2004 - name and more
    if rest[0] == "namespaces" and is_inside and rest[2:3] not in (["status"], ["finalize"]):
        namespace, rest = rest[1], rest[2:]
    if not rest:
        raise no_such_path()
    resource = BY_PATH.get((group, version, rest[0]))
    name, part, *more = [*rest[1:], "", ""][: max(2, len(rest) - 1)]
    if resource is None or more or (namespace and not resource.namespaced):
        raise no_such_path()
    if part and part not in resource.subresources:
        raise no_such_path()
    return Target(resource=resource, namespace=namespace, name=name, part=part)
