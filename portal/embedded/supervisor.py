"""Keeps programs running: starts them in order, raises the dead, stops them all in time."""

import contextlib
import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from portal.embedded.programs import Program, kill_group, spawn, wait_until_ready

POLL_SECONDS = 0.2
STEADY_SECONDS = 30.0  # up this long, a program has recovered
SHORTEST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STOP_SECONDS = (9.0, 5.0)  # for those that lean on others, then for those leant on: under 15 s
LARGEST_LOG = 10 * 2**20  # bytes; what is older is kept in one file beside it
_LOGS_EVERY = 50  # polls


class StopAsked(BaseException):
    """Somebody wants us to end."""


@dataclass(slots=True)
class Child:
    """One program and how it fares. Times are of the monotonic clock, in seconds.

    restart_at: when to start it again; None while it runs, never when it is done.
    """

    program: Program
    process: subprocess.Popen[bytes]
    started_at: float
    failures: int = 0
    restart_at: float | None = None


class Supervisor:
    """Programs that run as long as this process does.

    say: tells a person, in one line, what happened.
    keep_open: descriptors that every program inherits, so that a lock lasts as long as they do.
    """

    def __init__(self, say: Callable[[str], None], *, keep_open: tuple[int, ...] = ()) -> None:
        self._say = say
        self._keep_open = keep_open
        self._children: list[Child] = []

    def start(self, program: Program, *, within: float = 30) -> None:
        """Start a program and wait until it is ready; from then on it is kept running."""
        trim_log(program, limit=0)  # a log for each run, and the one before
        process = spawn(program, keep_open=self._keep_open)
        self._children.append(Child(program, process, time.monotonic()))
        wait_until_ready(process, program, within=within)

    def watch(self, *, until: Callable[[], bool]) -> None:
        """Keep them running until that says True, or a signal ends it, as StopAsked."""
        polls = 0
        while not until():
            self.look_after(time.monotonic())
            if polls % _LOGS_EVERY == 0:
                for child in self._children:
                    trim_log(child.program, limit=LARGEST_LOG)
            polls += 1
            time.sleep(POLL_SECONDS)

    def look_after(self, now: float) -> None:
        """See to every program once: note who died, start again whose pause is over."""
        for child in self._children:
            if child.restart_at is None:
                if child.process.poll() is not None:
                    self._note_death(child, now)
            elif now >= child.restart_at:
                child.process = spawn(child.program, keep_open=self._keep_open)
                child.started_at, child.restart_at = now, None
                self._say(f"{child.program.name} is started again.")

    def _note_death(self, child: Child, now: float) -> None:
        kill_group(child.process)  # what it left behind holds its port and its work
        if child.program.once and child.process.returncode == 0:
            child.restart_at = math.inf
            self._say(f"{child.program.name} is done.")
            return
        up = now - child.started_at
        child.failures = 1 if up >= STEADY_SECONDS else child.failures + 1
        pause = pause_before_restart(child.failures)
        child.restart_at = now + pause
        self._say(
            f"{child.program.name} ended after {up:.0f} s"
            f" ({how_it_ended(child.process.returncode)}); it is started again in {pause:g} s."
            f" Its log: {child.program.log}"
        )

    def stop(self) -> None:
        """End them all: those that lean on others first; asked, then killed with their groups."""
        for foundation, seconds in zip((False, True), STOP_SECONDS, strict=True):
            end(
                [child for child in self._children if child.program.foundation is foundation],
                seconds,
            )
        self._children.clear()


def end(children: Iterable[Child], seconds: float) -> None:
    """Ask each to stop, wait for all of them together, kill what is left."""
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            child.process.send_signal(child.program.stop_signal)
    deadline = time.monotonic() + seconds
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(max(0.0, deadline - time.monotonic()))
    for child in children:
        kill_group(child.process)


def pause_before_restart(failures: int) -> float:
    """Seconds to wait before the next start: 0.5, 1, 2, 4 … and never more than LONGEST_PAUSE."""
    return min(SHORTEST_PAUSE * 2.0 ** (min(failures, 20) - 1), LONGEST_PAUSE)


def how_it_ended(code: int) -> str:
    return f"exit {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def trim_log(program: Program, *, limit: int) -> None:
    """Move a log over `limit` bytes aside. Writers append, so they go on at the new beginning."""
    log = program.log
    if log is not None and log.exists() and log.stat().st_size > limit:
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)


def stop_on_signals() -> None:
    """Turn Ctrl-C, TERM and a closed terminal into StopAsked, once; a second one ends at once."""

    def ask(number: int, frame: object) -> NoReturn:
        del number, frame
        for one in _STOPPING:
            signal.signal(one, signal.SIG_DFL)
        raise StopAsked

    for one in _STOPPING:
        signal.signal(one, ask)


_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
