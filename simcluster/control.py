"""The doors of the simulation itself, under /simcluster: its clock and its faults."""

import asyncio
import time

from simcluster import errors
from simcluster.clock import MAX_SPEED, rfc3339_micro
from simcluster.cluster import Cluster
from simcluster.objects import Obj
from simcluster.requests import Request, Response, json_response

LONGEST_STEP = 366 * 86_400.0  # simulated seconds: a clock at the end of time cannot be read
_SLICE_SECONDS = 0.02


class Control:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def handle(self, request: Request) -> Response:
        """The answer to a request under /simcluster; raises ApiError for a refusal."""
        path, method = request.path.removeprefix("/simcluster"), request.method
        if path == "/clock" and method == "GET":
            return json_response(self._clock())
        if path == "/clock" and method in {"PUT", "PATCH"}:
            return json_response(self._set_clock(request.object()))
        if path == "/clock/step" and method == "POST":
            return json_response(await self._step(request.object()))
        if path.startswith("/faults"):
            return json_response(self._handle_faults(path, request))
        raise errors.no_such_path()

    def _clock(self) -> Obj:
        clock = self._cluster.world.clock
        return {
            "now": rfc3339_micro(clock.now()),
            "speed": float(clock.speed),
            "wall": time.time(),
            "frozen": clock.frozen,
        }

    def _set_clock(self, body: Obj) -> Obj:
        speed, frozen = body.get("speed"), body.get("frozen")
        is_number = isinstance(speed, int | float) and not isinstance(speed, bool)
        if speed is not None and not (is_number and 0 < speed <= MAX_SPEED):
            raise errors.bad_request(f"speed must be above 0 and at most {MAX_SPEED:g}")
        if frozen is not None and not isinstance(frozen, bool):
            raise errors.bad_request("frozen must be true or false")
        self._cluster.world.clock.set_rate(speed=speed, frozen=frozen)
        return self._clock()

    async def _step(self, body: Obj) -> Obj:
        """Let seconds pass at once; everything due in them happens, in order, before the answer."""
        seconds = body.get("seconds")
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= seconds <= LONGEST_STEP:
            raise errors.bad_request(f"seconds must be a number from 0 to {LONGEST_STEP:g}")
        world = self._cluster.world
        world.clock.advance(seconds)
        more = world.run_due(_SLICE_SECONDS)
        while more:
            await asyncio.sleep(0)  # so that watches are served in between
            more = world.run_due(_SLICE_SECONDS)
        return self._clock()

    def _handle_faults(self, path: str, request: Request) -> Obj:
        faults = self._cluster.faults
        if path == "/faults" and request.method == "GET":
            return faults.listed()
        if path == "/faults" and request.method == "POST":
            return faults.add(request.object())
        if request.method == "DELETE":
            name = path.removeprefix("/faults").strip("/")
            if name and not name.isdecimal():
                raise errors.bad_request(f"{name} is no fault: give its id, or none for all")
            faults.clear(int(name[:18]) if name else None)
            return faults.listed()
        raise errors.method_not_allowed()
