"""The whole product as real processes, in a folder of its own, with a hand on each process."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from portal.embedded import __main__ as embedded
from portal.embedded import checkout, demo, ports
from portal.embedded.supervisor import Child, Supervisor

POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Stack:
    """Everything that runs. said: what the supervisor would have told a person."""

    supervisor: Supervisor
    options: demo.Options
    env: dict[str, str]
    database: psycopg.Connection
    said: list[str]

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.database.execute(sql, values or None).fetchall()

    def value(self, sql: str, *values: Any) -> Any:
        return self.rows(sql, *values)[0][0]

    def manage(self, name: str, *arguments: str) -> None:
        """Start a command that ends by itself, and keep it running until it has ended well."""
        program = demo.python(self.options, self.env, name, "manage.py", *arguments, once=True)
        self.supervisor.start(program)

    def wait_until(self, is_so: Callable[[], bool], *, within: float, what: str) -> float:
        """Look after the processes until `is_so`; the seconds that took."""
        began = time.monotonic()
        while not is_so():
            waited = time.monotonic() - began
            if waited > within:
                raise AssertionError(f"not within {within:.0f} s: {what}\n{self.account()}")
            self.supervisor.look_after(time.monotonic())
            time.sleep(POLL_SECONDS)
        return time.monotonic() - began

    def kill(self, name: str) -> None:
        """End one program as the kernel would when memory runs out: no word of warning."""
        os.kill(self.child(name).process.pid, signal.SIGKILL)

    def child(self, name: str) -> Child:
        return next(c for c in self.supervisor._children if c.program.name == name)  # noqa: SLF001 - no other way to a process

    def account(self) -> str:
        """What a person would want to see first when it went wrong."""
        states = self.rows("SELECT state, count(*) FROM scheduling_job GROUP BY state")
        logs = {log.name: log.read_text(errors="replace") for log in self.options.logs.iterdir()}
        wrong = [
            f"{name}: {line}"
            for name, text in sorted(logs.items())
            for line in text.splitlines()
            if "ERROR" in line or "Traceback" in line
        ]
        return "\n".join([f"jobs: {dict(states)}", *self.said, *wrong[-20:]])


@contextmanager
def running_stack(*, speed: float) -> Iterator[Stack]:
    """The stack of bin/run without its feeder, its nodes known; all of it gone at the end."""
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="muster-thread-") as folder:
        options = demo.Options(
            port=ports.any_free(), speed=speed, feed=False, data=Path(folder) / "data"
        )
        options.logs.mkdir(parents=True)
        supervisor = Supervisor(said.append)
        try:
            env = embedded.start_services(supervisor, options)
            embedded.start_portal(supervisor, options, env)
            with psycopg.connect(env["DATABASE_URL"], autocommit=True) as database:
                stack = Stack(supervisor, options, env, database, said)
                stack.wait_until(
                    lambda: stack.value("SELECT count(*) FROM topology_gpu") == 96,
                    within=30,
                    what="the watcher has seen 96 GPUs",
                )
                yield stack
        finally:
            supervisor.stop()
            checkout.forget(options.data)
