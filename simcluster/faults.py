"""Faults on request: failing and slow answers, dropped watches, lost nodes, sick GPUs, refusals."""

import json
import random
import re
from dataclasses import dataclass
from typing import TypeVar

from simcluster.devices import GPU, GPUS, gpus_of
from simcluster.errors import ApiError, bad_request, not_found
from simcluster.gpu_operator import GpuOperator
from simcluster.kubelet import Kubelets
from simcluster.nodes import NodeController
from simcluster.objects import Obj
from simcluster.requests import Request
from simcluster.resources import BY_ID, NODES
from simcluster.watches import Watches
from simcluster.world import World

N = TypeVar("N", int, float)
_MOST_REFUSALS = 10_000
_LONGEST_DELAY = 3600.0  # seconds

_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(slots=True, kw_only=True)
class Fault:
    """Something that goes wrong with requests that match, until `left` of them have met it."""

    id: int
    kind: str
    path: re.Pattern[str]
    method: str
    probability: float
    left: int | None
    status: int
    seconds: float

    def meets(self, request: Request, chance: random.Random) -> bool:
        """Whether this fault strikes the request; counts it when it does."""
        if self.left == 0 or self.method not in {"", request.method}:
            return False
        if not self.path.search(request.path) or chance.random() >= self.probability:
            return False
        if self.left is not None:
            self.left -= 1
        return True

    def as_json(self) -> Obj:
        return {
            "id": self.id,
            "kind": self.kind,
            "path": self.path.pattern,
            "method": self.method,
            "probability": self.probability,
            "next": self.left,
            "status": self.status,
            "seconds": self.seconds,
        }


def _between(least: N, value: N, most: N) -> N:
    if not least <= value <= most:
        raise ValueError(f"{value} is not between {least} and {most}")
    return value


class Faults:
    """The faults in force, and the means to cause those that happen once."""

    def __init__(
        self,
        world: World,
        watches: Watches,
        *,
        nodes: NodeController,
        kubelets: Kubelets,
        gpus: GpuOperator,
    ) -> None:
        self._world = world
        self._watches = watches
        self._nodes = nodes
        self._kubelets = kubelets
        self._gpus = gpus
        self._faults: list[Fault] = []
        self._last_id = 0

    def listed(self) -> Obj:
        """Faults in force, nodes that are down, refusals still to come."""
        return {
            "faults": [fault.as_json() for fault in self._faults if fault.left != 0],
            "nodes_down": sorted(self._kubelets.down),
            "reject_next": list(self._kubelets.reject_next),
            "gpu_layouts": dict(self._gpus.faults),
        }

    def clear(self, fault_id: int | None = None) -> None:
        """End all request faults, or the one with that id."""
        self._faults = [f for f in self._faults if fault_id is not None and f.id != fault_id]

    def strike(self, request: Request) -> float:
        """Seconds of delay for this request; raises the error that it is to get."""
        self._faults = [fault for fault in self._faults if fault.left != 0]
        delay = 0.0
        for fault in self._faults:
            if fault.meets(request, self._world.random):
                delay += fault.seconds
                if fault.kind == "error":
                    reason = _REASONS.get(fault.status, "InternalError")
                    raise ApiError(fault.status, reason, message="a fault that was asked for")
        return delay

    def add(self, body: Obj) -> Obj:
        """Cause a fault; returns what was done. 400 for one that is not known."""
        try:
            return self._add(body)
        except (ValueError, TypeError, OverflowError, re.error) as error:
            raise bad_request(f"no fault can be made of this: {error}") from error

    def _add(self, body: Obj) -> Obj:
        kind = body.get("kind")
        if kind in {"error", "latency"}:
            return self._add_request_fault(body)
        if kind == "drop-watches":
            resource = BY_ID.get(body.get("resource", ""))
            return {"dropped": self._watches.drop(resource)}
        if kind in {"node-down", "node-up"}:
            return self._turn_node(str(body.get("node")), up=kind == "node-up")
        if kind == "gpu-health":
            return self._set_gpu_health(body)
        if kind == "gpu-layout":
            return self._fail_next_layout(str(body.get("node")), how=str(body.get("how")))
        if kind == "reject-pods":
            reason = str(body.get("reason", "UnexpectedAdmissionError"))
            count = _between(0, int(body.get("next", 1)), _MOST_REFUSALS)
            self._kubelets.reject_next += [reason] * count
            return {"reject_next": list(self._kubelets.reject_next)}
        raise bad_request(
            f"{kind!r} is no fault; known are error, latency, drop-watches, node-down, node-up, "
            "gpu-health, gpu-layout, reject-pods"
        )

    def _add_request_fault(self, body: Obj) -> Obj:
        self._last_id += 1
        is_error = body["kind"] == "error"
        status, seconds = int(body.get("status", 500)), float(body.get("seconds", 1.0))
        fault = Fault(
            id=self._last_id,
            kind=body["kind"],
            path=re.compile(body.get("path", "")),
            method=str(body.get("method", "")).upper(),
            probability=float(body.get("probability", 1.0)),
            left=None if body.get("next") is None else int(body["next"]),
            status=_between(400, status, 599) if is_error else 0,
            seconds=0.0 if is_error else _between(0, seconds, _LONGEST_DELAY),
        )
        self._faults.append(fault)
        return fault.as_json()

    def _turn_node(self, name: str, *, up: bool) -> Obj:
        if self._world.store.get(NODES, "", name) is None:
            raise not_found(NODES, name)
        if up:
            self._nodes.start(name)
        else:
            self._nodes.stop(name)
        return {"node": name, "up": up}

    def _fail_next_layout(self, name: str, *, how: str) -> Obj:
        if self._world.store.get(NODES, "", name) is None:
            raise not_found(NODES, name)
        self._gpus.fail_next(name, how)
        return {"node": name, "how": how}

    def _set_gpu_health(self, body: Obj) -> Obj:
        """Mark one GPU; an unhealthy one is no longer allocatable."""
        name, healthy = str(body.get("node")), bool(body.get("healthy", False))
        node = self._world.store.get(NODES, "", name)
        if node is None:
            raise not_found(NODES, name)
        gpus = gpus_of(node)
        if body.get("index") not in [gpu["index"] for gpu in gpus]:
            raise bad_request(f"node {name} has no GPU {body.get('index')!r}")

        def mark(new: Obj) -> None:
            marked = [
                {**gpu, "healthy": healthy} if gpu["index"] == body["index"] else gpu
                for gpu in gpus
            ]
            text = json.dumps(marked, separators=(",", ":"))
            new["metadata"]["annotations"][GPUS] = text
            count = sum(gpu["healthy"] and not gpu.get("mig") for gpu in marked)
            if GPU in new["status"]["allocatable"]:  # else its GPUs are given by claims
                new["status"]["allocatable"][GPU] = str(count)

        self._world.store.change(NODES, node, mark)
        return {"node": name, "index": body["index"], "healthy": healthy}
