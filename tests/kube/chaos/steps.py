"""The steps of the protocol after each of which a worker or a watcher can be killed.

A step is what a process does, as calls of its own functions, one after the other; it dies at the
last of them. So nothing in the product knows of it.
"""

import importlib
import os
import signal
import threading
from dataclasses import dataclass

from scheduling.states import JobState

BINDING = "scheduling.services.binding"
GATEWAY = "topology.kube.live.LiveGateway"
OBSERVATION = "scheduling.services.observation"
RECONCILING = "scheduling.services.reconciling"
SETTLING = "scheduling.services.settling"
SEND = "portal.core.queueing._send"


@dataclass(frozen=True)
class Call:
    """A call of the function at `path`. of: what must be among its arguments, if not None.

    done: the call is over; else it has only begun, and its work is not done.
    """

    path: str
    of: object = None
    done: bool = True


@dataclass(frozen=True)
class Step:
    """who: the role of the process that takes it. most: how often at most it is done at a start."""

    who: str
    calls: tuple[Call, ...]
    most: int = 1


def _worker(*calls, most=1):
    return Step("worker", calls, most)


def _watcher(*calls, most=1):
    return Step("watcher", calls, most)


def _unsent(task):
    return Call(SEND, of=f"scheduling.{task}", done=False)


_IN_SCALE = Call(f"{BINDING}._scale", done=False)

# In the order in which a round can have them: who is to die of two of them does so in this order.
STEPS = {
    # A start
    "planned, and nothing written": _worker(Call("scheduling.cycle.apply_plan", done=False)),
    "half of the start written": _worker(Call("scheduling.services.starts.write_ledger")),
    "start written, nobody told": _worker(_unsent("bind_job")),
    "tenancy half made": _worker(Call("topology.kube.upkeep._apply"), most=8),
    "Job made": _worker(Call(f"{GATEWAY}.ensure_gang"), most=3),
    "Service made": _worker(Call(f"{GATEWAY}.ensure_rendezvous"), most=2),
    "Job unsuspended": _worker(Call(f"{GATEWAY}.open_gang"), most=3),
    "pods seen at the gate": _worker(Call(f"{BINDING}._await_releases")),
    "some gates open": _worker(Call(f"{GATEWAY}.release"), most=5),
    "late start found, stop half written": _worker(Call(f"{RECONCILING}.stop")),
    "all gates open": _worker(Call(f"{GATEWAY}.release_all")),
    # A change of size
    "half of the new members written": _worker(Call("scheduling.services.scaling.write_ledger")),
    "size written, nobody told": _worker(_unsent("scale_job")),
    "half of the leaving written": _worker(Call("scheduling.services.scaling._leave")),
    "Job resized": _worker(Call(f"{GATEWAY}.scale_gang")),
    "some gates of new members open": _worker(_IN_SCALE, Call(f"{GATEWAY}.release")),
    "a leaving member noted as gone": _worker(_IN_SCALE, Call(f"{OBSERVATION}.note_gone")),
    # A roll-back, or any other stop
    "stop written, nobody told": _worker(_unsent("stop_job")),
    "some told again": _worker(Call(f"{RECONCILING}.send_again")),
    "a Job removed": _worker(Call(f"{GATEWAY}.delete_gang"), most=2),
    "a member noted as gone": _worker(Call(f"{OBSERVATION}.note_gone"), most=2),
    "removal half settled": _worker(
        Call(f"{BINDING}.remove", done=False), Call(f"{SETTLING}.move")
    ),
    "removal settled": _worker(Call(f"{BINDING}.remove", done=False), Call(f"{SETTLING}.settle")),
    # What the cluster says
    "some reports taken in": _watcher(
        Call("scheduling.management.commands.watch_cluster.take_in"), most=20
    ),
    "report half written": _watcher(Call(f"{OBSERVATION}._write_member"), most=8),
    "report written": _watcher(
        Call(f"{OBSERVATION}._write_member"), Call(f"{OBSERVATION}._observe_one"), most=8
    ),
    "half confirmed": _watcher(Call(f"{SETTLING}.move", of=JobState.RUNNING)),
    "confirmed": _watcher(
        Call(f"{SETTLING}.move", of=JobState.RUNNING), Call(f"{OBSERVATION}._observe_one")
    ),
    "end half written": _watcher(Call(f"{SETTLING}.move", of=JobState.SUCCEEDED)),
    "end written, nobody told": _watcher(
        Call(f"{SETTLING}.move", of=JobState.SUCCEEDED), Call(SEND, done=False)
    ),
}


def die_after(step, count, *, name):
    """Have this process, of that name, killed when it has done the step so often."""
    calls = STEPS[step].calls
    doom = _Doom(calls, count, name)
    for path in {call.path for call in calls}:
        _wrap(path, doom)


class _Doom:
    """How far this process has come on its way. Gates are opened in threads: one at a time."""

    def __init__(self, calls, count, name):
        self._calls = calls
        self._left = count
        self._name = name
        self._next = 0
        self._lock = threading.Lock()

    def note(self, path, arguments, *, done):
        with self._lock:
            call = self._calls[self._next]
            if (call.path, call.done) != (path, done):
                return
            if call.of is not None and call.of not in arguments:
                return
            if self._next < len(self._calls) - 1:
                self._next += 1
                return
            self._next = 0
            self._left -= 1
            if not self._left:
                os.write(2, f"{self._name} killed\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)


def _wrap(path, doom):
    owner_path, name = path.rsplit(".", 1)
    owner = _find(owner_path)
    original = getattr(owner, name)

    def wrapped(*arguments, **named):
        doom.note(path, arguments, done=False)
        answer = original(*arguments, **named)
        doom.note(path, arguments, done=True)
        return answer

    setattr(owner, name, wrapped)


def _find(path):
    """A module, or a class in one."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, name = path.rsplit(".", 1)
        return getattr(importlib.import_module(module), name)
