"""Subresources of pods that are verbs of their own: binding, eviction, log."""

from simcluster import errors, removal
from simcluster.clock import seconds_of
from simcluster.objects import Obj, Stored, gates_of, is_deleting, name_of, node_of
from simcluster.removal import Removal
from simcluster.requests import Request, Response
from simcluster.resources import PODS
from simcluster.scheduler import bind
from simcluster.world import World

_MANY_LINES = 1000


def bind_pod(world: World, pod: Stored, body: Obj, *, dry_run: bool) -> None:
    """Bind a pod as the scheduler does, without its checks; 409 for a gated or a bound one."""
    name, node = name_of(pod), (body.get("target") or {}).get("name")
    if not node:
        cause = errors.required_field("target.name")
        raise errors.invalid(PODS, name, causes=[cause])
    if is_deleting(pod):
        raise errors.conflict(PODS, name, why=f"pod {name} is being deleted, cannot be assigned")
    if node_of(pod):
        why = f"pod {name} is already assigned to node {node_of(pod)!r}"
        raise errors.conflict(PODS, name, why=why)
    if gates_of(pod):
        why = f"pod {name} has non-empty .spec.schedulingGates"
        raise errors.conflict(PODS, name, why=why)
    if not dry_run:
        bind(world, pod, node)


def evict_pod(world: World, pod: Stored, body: Obj) -> None:
    """Delete a pod as the eviction API does, saying so on it first."""
    options = body.get("deleteOptions") or {}
    how = Removal(grace_seconds=options.get("gracePeriodSeconds"))
    removal.begin(world, PODS, pod, how=how)


def log_of(world: World, pod: Stored, request: Request) -> Response:
    """What the container would have written: a line at its start, each minute, and its end."""
    container = request.query.get("container") or pod["spec"]["containers"][0]["name"]
    statuses = pod.get("status", {}).get("containerStatuses") or []
    own = next((s for s in statuses if s["name"] == container), None)
    if own is None or not {"running", "terminated"} & own["state"].keys():
        why = f'container "{container}" in pod "{name_of(pod)}" is waiting to start'
        raise errors.bad_request(why)
    lines = _lines(world, own)
    tail = request.number("tailLines")
    lines = lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]
    return Response(body="".join(f"{line}\n" for line in lines).encode(), media_type="text/plain")


def _lines(world: World, own: Obj) -> list[str]:
    state = own["state"].get("running") or own["state"]["terminated"]
    started, ended = seconds_of(state["startedAt"]), state.get("finishedAt")
    end = seconds_of(ended) if ended else world.clock.now()
    minutes = min(int(end - started) // 60, _MANY_LINES)
    lines = [f"{own['name']}: started at {state['startedAt']}"]
    lines += [f"{own['name']}: {minute} min" for minute in range(1, minutes + 1)]
    if ended:
        lines.append(f"{own['name']}: ended at {ended} with exit code {state['exitCode']}")
    return lines
