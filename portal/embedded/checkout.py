"""One demo per data folder: the lock, and beginning anew."""

import fcntl
import json
import os
import shutil
import time
from pathlib import Path

from portal.embedded import places
from portal.embedded.programs import CannotStart
from portal.embedded.terminal import say

LOCKS = ("run.lock", "setup.lock")
_ASKED = "reset-asked"  # a file that the portal leaves for its supervisor
_PATIENCE = 20.0  # seconds for the processes of a killed run to be gone


def lock(data: Path, *, address: str) -> int:
    """A descriptor that holds the folder `data` for us; programs that inherit it hold it too.

    So the lock outlives a supervisor that is killed until the last of its programs has gone, and
    two servers never write to the same files.
    """
    descriptor = os.open(data / LOCKS[0], os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + _PATIENCE
    told = False
    while not _try_lock(descriptor):
        holder = _read(descriptor)
        if _is_alive(holder["pid"]) or time.monotonic() > deadline:
            raise CannotStart(
                f"Muster already runs from {data}, at {holder['address']}."
                f"\nUse that one, or stop it first: kill {holder['pid']}"
            )
        if not told:
            say("  The processes of an earlier run are still stopping; waiting for them …")
            told = True
        time.sleep(0.2)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "address": address}).encode(), 0)
    return descriptor


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(descriptor: int) -> dict[str, str | int]:
    unknown = {"pid": 0, "address": "an address it has not said yet"}
    try:
        return unknown | json.loads(os.pread(descriptor, 4096, 0))
    except (ValueError, TypeError):  # nothing yet, or what a full disk left of it
        return unknown


def _is_alive(pid: str | int) -> bool:
    return Path(f"/proc/{pid}").exists()


def keeps_everything(data: Path) -> bool:
    """Whether forgetting `data` forgets all: a database that was given lies elsewhere."""
    return (data / "postgres").is_dir()


def ask_for_reset(data: Path) -> None:
    """Have the supervisor of `data` stop everything, forget it, and start again."""
    (data / _ASKED).touch(mode=0o600)


def is_reset_asked(data: Path) -> bool:
    return (data / _ASKED).exists()


def drop_request(data: Path) -> None:
    """Forget that a reset was asked for: of a run that ended before it came to that."""
    (data / _ASKED).unlink(missing_ok=True)


def forget(data: Path) -> None:
    """Remove all that is kept in `data`, save the locks. Only under the lock."""
    places.forget(data / "postgres")
    places.forget(data / "valkey")
    for path in data.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name not in LOCKS:
            path.unlink()
