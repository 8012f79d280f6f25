"""What a container would have written: the lines of a training run, and how it ended."""

import json
from collections.abc import Iterator
from math import exp

from simcluster import errors
from simcluster.clock import rfc3339, seconds_of
from simcluster.objects import Obj, Stored, annotations_of, name_of, node_of
from simcluster.requests import Request, Response
from simcluster.world import World

SAYS = "simcluster.muster.dev/says"
_STEP_SECONDS = 15
_MANY_STEPS = 20_000
_TRACEBACK = (
    "\x1b[31mTraceback (most recent call last):\x1b[0m",
    '  File "/workspace/train.py", line 214, in <module>',
    "    main()",
    '  File "/workspace/train.py", line 187, in main',
    "    loss.backward()",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB.",
)
_WORDS = {1: _TRACEBACK, 127: ("sh: 1: train: not found",), 139: ("Segmentation fault",)}

Line = tuple[float, str]


def log_of(world: World, pod: Stored, request: Request) -> Response:
    """The log of one container; empty of a pod without a node, 400 before the container starts."""
    if not node_of(pod):
        return _text(b"")
    container = request.query.get("container") or pod["spec"]["containers"][0]["name"]
    if container not in {own["name"] for own in pod["spec"]["containers"]}:
        raise errors.bad_request(f"container {container} is not valid for pod {name_of(pod)}")
    statuses = pod.get("status", {}).get("containerStatuses") or []
    own = next((s for s in statuses if s["name"] == container), None)
    if own is None or not {"running", "terminated"} & own["state"].keys():
        who = f'container "{container}" in pod "{name_of(pod)}"'
        why = f"{who} is waiting to start: ContainerCreating"
        raise errors.bad_request(why)
    lines = list(_lines(pod, own, now=world.clock.now()))
    return _text(_asked_of(lines, request, now=world.clock.now()))


def _text(body: bytes) -> Response:
    return Response(body=body, media_type="text/plain")


def _asked_of(lines: list[Line], request: Request, *, now: float) -> bytes:
    """The part that the query asks for, as a kubelet cuts it: the tail first, then the bytes."""
    since = request.query.get("sinceTime")
    seconds = request.number("sinceSeconds")
    first = seconds_of(since) if since else None if seconds is None else now - seconds
    lines = [line for line in lines if first is None or line[0] >= first]
    tail, limit = request.number("tailLines"), request.number("limitBytes")
    lines = lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]
    stamped = request.flag("timestamps")
    body = "".join(f"{rfc3339(at)} {text}\n" if stamped else f"{text}\n" for at, text in lines)
    return body.encode("utf-8", "surrogateescape")[:limit]


def _lines(pod: Stored, own: Obj, *, now: float) -> Iterator[Line]:
    state = own["state"].get("running") or own["state"]["terminated"]
    started, ended = seconds_of(state["startedAt"]), state.get("finishedAt")
    yield started, f"{own['name']}: started at {state['startedAt']}"
    for text in _said(pod):
        yield started, text
    end = seconds_of(ended) if ended else now
    for step in range(1, min(int(end - started) // _STEP_SECONDS, _MANY_STEPS) + 1):
        loss = 1.6 + 9.2 * exp(-step / 220)
        text = f"\x1b[36mstep\x1b[0m {step * 10:>6}  loss {loss:.4f}  {380 + step % 7} samples/s"
        yield started + step * _STEP_SECONDS, text
    if ended:
        for text in _WORDS.get(state["exitCode"], ()):
            yield end, text
        yield end, f"{own['name']}: ended at {ended} with exit code {state['exitCode']}"


def _said(pod: Stored) -> list[str]:
    """Lines that an annotation puts into the program's mouth: a JSON list of texts."""
    try:
        said = json.loads(annotations_of(pod).get(SAYS, "[]"))
    except ValueError:
        return []
    return [str(line) for line in said] if isinstance(said, list) else []
