"""The HTTP side: an ASGI application in front of a cluster, and the ticking of its clock."""

import asyncio
import base64
import hmac
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.responses import Response as PlainResponse
from starlette.responses import StreamingResponse

from simcluster import errors
from simcluster.cluster import Cluster
from simcluster.control import Control
from simcluster.errors import ApiError
from simcluster.persistence import SAVE_SECONDS, StateFile
from simcluster.requests import Request, Response, json_response

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_OPEN_PATHS = frozenset({"/healthz", "/readyz", "/livez", "/version"})
_SLICE_SECONDS = 0.02
logger = logging.getLogger(__name__)


class App:
    """Requests are answered one after the other; time is brought up to date before each."""

    def __init__(self, cluster: Cluster, *, token: str, state: StateFile | None = None) -> None:
        self._cluster = cluster
        self._control = Control(cluster)
        self._token = token.encode()
        self._alarm: asyncio.TimerHandle | None = None
        self._saver: asyncio.TimerHandle | None = None
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = await _read(scope, receive)
        try:
            answer = await self._answer(request)
        except ApiError as error:
            answer = json_response(error.status(), error.code)
        except Exception:  # a bug of ours must not end the cluster
            logger.exception("%s %s failed", request.method, request.path)
            bug = ApiError(500, "InternalError", message="simcluster failed; see its log")
            answer = json_response(bug.status(), 500)
        finally:
            self.tick()
        await _respond(answer)(scope, receive, send)

    def tick(self) -> None:
        """Do what is due, and set the alarm for what comes next."""
        world = self._cluster.world
        world.settle()
        more = world.run_due(_SLICE_SECONDS)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due = world.timers.next_due()
        wait = None if due is None else world.clock.wall_until(due)
        if wait is not None:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(0.0 if more else wait, self.tick)

    def start(self) -> None:
        """Begin to tick, and to save; called once, in the event loop."""
        self.tick()
        self._save()

    def close(self) -> None:
        """End open watches, stop ticking, and save for the last time."""
        self._cluster.api.watches.drop()
        for timer in (self._alarm, self._saver):
            if timer is not None:
                timer.cancel()
        if self._state is not None:
            self._state.close(self._cluster.world)
            self._state = None

    def _save(self) -> None:
        if self._state is not None:
            self._state.save(self._cluster.world)
            self._saver = asyncio.get_running_loop().call_later(SAVE_SECONDS, self._save)

    async def _answer(self, request: Request) -> Response:
        if request.path not in _OPEN_PATHS and not self._may(request):
            raise errors.unauthorized()
        if request.path in {"/healthz", "/readyz", "/livez"}:
            return Response(body=b"ok", media_type="text/plain")
        if request.path.startswith("/simcluster/"):
            self._cluster.world.run_due()
            return await self._control.handle(request)
        delay = self._cluster.faults.strike(request)
        if delay:
            await asyncio.sleep(delay)
        self._cluster.world.run_due()
        return self._cluster.api.handle(request)

    def _may(self, request: Request) -> bool:
        """Whether a request carries the token: as a bearer, or as the password of Basic.

        kubectl sends no bearer token over plain HTTP, but it does send what its URL holds.
        """
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "basic":
            try:
                given = base64.b64decode(given).decode().partition(":")[2]
            except ValueError:
                return False
        elif kind.lower() != "bearer":
            return False
        return hmac.compare_digest(given.encode(), self._token)


async def _read(scope: Scope, receive: Receive) -> Request:
    body = bytearray()
    more = scope["method"] not in {"GET", "HEAD"}
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return Request(
        method=scope["method"],
        path=scope["path"],
        query=dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True)),
        headers={name.decode(): value.decode("latin-1") for name, value in scope["headers"]},
        body=bytes(body),
    )


def _respond(answer: Response) -> PlainResponse:
    if answer.stream is not None:
        return StreamingResponse(answer.stream, answer.code, media_type=answer.media_type)
    return PlainResponse(answer.body, answer.code, media_type=answer.media_type)
