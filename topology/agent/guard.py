"""Runs a function where it can be given up: in a child process with a time limit.

A call into a driver that hangs may not even die of SIGKILL. Such a child is left behind, and no
other is started before it is gone: a node with a broken driver must not fill up with processes.
"""

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any, Final

_CHUNK: Final = 1 << 16
_FAILED: Final = 1
_TIME_TO_DIE: Final = 1.0  # seconds after SIGKILL


class GaveUpError(Exception):
    """The function did not answer. hangs: it still runs, or had to be killed; else it crashed."""

    def __init__(self, why: str, *, hangs: bool) -> None:
        super().__init__(why)
        self.hangs = hangs


class Guard:
    """Runs one function at a time, each in a child of its own."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout = timeout_seconds
        self._stuck: int | None = None

    def run(self, function: Callable[[], Any]) -> Any:
        """What `function` returns, a JSON value. Raises GaveUpError; nothing else comes out.

        NVML's state does not survive a fork, and the child is the only one that has any.
        """
        if self._stuck is not None and not _is_gone(self._stuck, wait_seconds=0):
            raise GaveUpError("an earlier call still hangs", hangs=True)
        self._stuck = None
        try:
            child, reader = _start(function)
        except OSError as error:  # the machine has no processes or files left
            raise GaveUpError(str(error), hangs=False) from error
        try:
            text = _read_until(reader, time.monotonic() + self._timeout)
        finally:
            os.close(reader)
        if text is None:
            self._kill(child)
            raise GaveUpError(f"no answer within {self._timeout:g} s", hangs=True)
        return self._result(child, text)

    def _result(self, child: int, text: bytes) -> Any:
        if not _is_gone(child, wait_seconds=_TIME_TO_DIE):
            self._kill(child)
        try:
            return json.loads(text)
        except ValueError as error:
            raise GaveUpError("the call ended without an answer", hangs=False) from error

    def _kill(self, child: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        if not _is_gone(child, wait_seconds=_TIME_TO_DIE):
            self._stuck = child


def _start(function: Callable[[], Any]) -> tuple[int, int]:
    """A child that answers, and the end of the pipe to read its answer from."""
    reader, writer = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            os.close(reader)
            _answer(writer, function)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return child, reader


def _answer(writer: int, function: Callable[[], Any]) -> None:
    """In the child: write the answer and end, without a trace of the parent's clean-up."""
    try:
        text = json.dumps(function()).encode()
        while text:
            text = text[os.write(writer, text) :]
    except BaseException:  # noqa: BLE001 -- whatever it is, the child ends here
        os._exit(_FAILED)
    os._exit(0)


def _read_until(reader: int, deadline: float) -> bytes | None:
    """All that comes out of a pipe until its end, or None at the deadline."""
    found = b""
    while True:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([reader], [], [], max(0.0, left))
        if not ready:
            return None
        chunk = os.read(reader, _CHUNK)
        if not chunk:
            return found
        found += chunk


def _is_gone(child: int, *, wait_seconds: float) -> bool:
    """Whether a child has ended, waiting for it no longer than that."""
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            if os.waitpid(child, os.WNOHANG)[0] == child:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
