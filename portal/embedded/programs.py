"""Programs that die with the process that started them, whatever ends it."""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class CannotStart(Exception):
    """Something that the portal needs cannot be had here; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine, as numbers."""

    name: str
    uid: int
    gid: int


def always() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to start, how to see that it is up, and how to ask it to stop.

    account: whom to run it as; None is the caller.
    log: where its output goes; None throws it away.
    ready: asked again and again until it says True.
    foundation: others lean on it, so it is the last to stop.
    once: it has a last line: when it ends well, it is done.
    on_parent_death: what the kernel sends it when the process that started it is gone.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    account: Account | None = None
    log: Path | None = None
    ready: Callable[[], bool] = always
    foundation: bool = False
    once: bool = False
    stop_signal: signal.Signals = signal.SIGTERM
    on_parent_death: signal.Signals = signal.SIGTERM


def spawn(program: Program, *, keep_open: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """The started program, in a session of its own, which ends when this process does.

    The kernel ties that promise to the *thread* that forks, and a change of user clears it: so
    programs are started in the main thread only, and promise after the user has changed.
    keep_open: descriptors that the program inherits.
    """
    if threading.current_thread() is not threading.main_thread():
        raise AssertionError("programs are started in the main thread, or they die with another")
    account = program.account
    with _output(program.log) as output:
        return subprocess.Popen(
            program.argv,
            env=dict(program.env),
            cwd=program.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=keep_open,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            preexec_fn=_promise(program.on_parent_death),  # noqa: PLW1509 - two system calls
        )


def _promise(number: signal.Signals) -> Callable[[], None]:
    """What a child does between fork and exec: the C library only, nothing that takes a lock."""
    parent = os.getpid()

    def die_with_parent() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it was gone before the promise was made
            os._exit(0)

    return die_with_parent


@contextlib.contextmanager
def _output(log: Path | None) -> Iterator[int]:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(log or os.devnull, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def wait_until_ready(
    process: subprocess.Popen[bytes], program: Program, *, within: float = 30
) -> None:
    """Return once the program answers; CannotStart, with the end of its log, when it does not."""
    deadline = time.monotonic() + within
    while not program.ready():
        if process.poll() is not None:
            raise CannotStart(f"{program.name} ended at once:\n{last_lines(program.log)}")
        if time.monotonic() > deadline:
            raise CannotStart(
                f"{program.name} did not answer within {within:.0f} s:\n{last_lines(program.log)}"
            )
        time.sleep(0.02)


def stop(process: subprocess.Popen[bytes], *, by: signal.Signals, within: float = 10) -> None:
    """End one program and its group: asked by a signal first, killed after `within` seconds."""
    process.send_signal(by)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(within)
    kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_lines(log: Path | None, count: int = 12) -> str:
    """The end of a log, indented, with the place of the whole of it."""
    if log is None or not log.exists():
        return "    (it has no log)"
    lines = log.read_text(errors="replace").splitlines()[-count:]
    return "\n".join(f"    {line}" for line in [*lines, f"(all of it: {log})"])
