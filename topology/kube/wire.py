"""The Kubernetes API as requests and answers, whoever carries them."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Obj = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PAGE = 500
FORBIDDEN, NOT_THERE, GONE = 403, 404, 410
WITHOUT = frozenset({FORBIDDEN, NOT_THERE})  # of what a cluster need not have, or let us have
LOOK_ONLY = "LookOnly"  # our reason, where Kubernetes says its own
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"  # what one asks by a POST


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. `kind` is the content type of the body."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    kind: str = "application/json"


class ApiError(Exception):
    """The cluster answered, and the answer is no. `reason` is Kubernetes' own word for why."""

    def __init__(self, status: int, *, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Stream(Protocol):
    """The lines of a watch; iteration ends when the server, or `close`, ends it."""

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None:
        """End it now, from whichever thread."""


class Wire(Protocol):
    def ask(self, request: Request) -> Obj:
        """The answer, after some more tries where the cluster was busy or away.

        ApiError: refused. ClusterAway: no answer, or none but "later".
        """

    def read(self, request: Request, *, most: int, within_seconds: float) -> bytes:
        """The first `most` bytes of the answer, asked for once, as long as they take `within`.

        What came in time is given; ApiError and ClusterAway as for `ask`.
        """

    def follow(self, request: Request, *, quiet_seconds: float) -> Stream:
        """Lines as they come; silence for longer than that is ClusterAway, as is a broken line."""


class ReadingWire:
    """A wire through which nothing but questions passes, for a cluster that is only looked at.

    A review of one's own rights is a question, although it is posted: nothing is kept of it.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def ask(self, request: Request) -> Obj:
        """As Wire.ask; ApiError for what would write, which is not sent, dry runs included."""
        if request.method != "GET" and (request.method, request.path) != ("POST", REVIEW):
            raise ApiError(
                FORBIDDEN,
                reason=LOOK_ONLY,
                message=f"the cluster is connected to look only: {request.method} {request.path} "
                "was not sent",
            )
        return self._wire.ask(request)

    def read(self, request: Request, *, most: int, within_seconds: float) -> bytes:
        return self._wire.read(request, most=most, within_seconds=within_seconds)

    def follow(self, request: Request, *, quiet_seconds: float) -> Stream:
        return self._wire.follow(request, quiet_seconds=quiet_seconds)


def pages(wire: Wire, path: str, *, selector: str = "", fields: str = "") -> Iterator[Obj]:
    """The pages of a list, all of one instant. ApiError 410 when that is too long ago to go on.

    selector, fields: of labels and of fields, as the API has them; empty for all.
    """
    query = {"limit": str(PAGE)} | selectors(selector, fields)
    page = wire.ask(Request(method="GET", path=path, query=query))
    yield page
    while further := page["metadata"].get("continue"):
        request = Request(method="GET", path=path, query={**query, "continue": further})
        page = wire.ask(request)
        yield page


def selectors(labels: str, fields: str) -> dict[str, str]:
    """The part of a query that says which objects are meant."""
    said = {"labelSelector": labels, "fieldSelector": fields}
    return {name: text for name, text in said.items() if text}


class Backoff:
    """Waits that double from `first` to `most` seconds, spread so that callers do not march."""

    def __init__(self, *, first: float, most: float) -> None:
        self._first, self._most = first, most
        self._next = first

    def reset(self) -> None:
        self._next = self._first

    def seconds(self) -> float:
        """How long to wait this time: at least half of what doubling says."""
        ceiling, self._next = self._next, min(self._next * 2, self._most)
        return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - spreads load, hides nothing
