"""Workers and watchers whose lives are cheap: forks of a program that has all of Muster loaded."""

import importlib
import json
import os
import signal
import socket
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import django

from portal.embedded.programs import Program, spawn, stop

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS = 120  # until all is loaded, on a slow machine


@dataclass(frozen=True)
class Life:
    """One process to be, the real worker or the real watcher.

    role: "worker" or "watcher". cluster: slug of the one to watch.
    bind_seconds: the time to bind, until a gang is taken back.
    step, count: it dies when it has done that step (see steps.py) so often; "" lets it live.
    """

    name: str
    role: str
    cluster: str
    bind_seconds: int
    step: str = ""
    count: int = 1


class Nursery:
    """The program as others see it."""

    def __init__(self, process, channel):
        self._process = process
        self._channel = channel
        self._answers = channel.makefile("r")

    def bear(self, life):
        """The pid of a new process, whose parent forgets it when it has ended."""
        self._channel.sendall(json.dumps(asdict(life)).encode() + b"\n")
        return int(self._answers.readline())

    def end(self):
        """Its children end with it."""
        self._answers.close()
        self._channel.close()
        stop(self._process, by=signal.SIGKILL)


@contextmanager
def running_nursery(log, env):
    """A nursery as long as the block lasts. log: of all that is said by it and its children."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_SECONDS)
    program = Program(
        name="nursery",
        argv=(sys.executable, "-m", "tests.kube.chaos.nursery", str(theirs.fileno())),
        env={**os.environ, **env},
        cwd=ROOT,
        log=log,
        on_parent_death=signal.SIGKILL,
    )
    nursery = Nursery(spawn(program, keep_open=(theirs.fileno(),)), ours)
    theirs.close()
    try:
        yield nursery
    finally:
        nursery.end()


def main():
    django.setup()
    # What it imports can be imported once Django is set up, and no sooner.
    importlib.import_module("tests.kube.chaos.cradle").rock(int(sys.argv[1]))


if __name__ == "__main__":
    main()
