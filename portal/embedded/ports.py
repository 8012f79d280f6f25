"""Ports on the loopback interface."""

import contextlib
import socket
import urllib.error
import urllib.request
from pathlib import Path

HOST = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` now. PermissionError where only root may."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError:
            raise
        except OSError:
            return False
        return True


def any_free() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def next_free(after: int) -> int:
    """The first free port above `after`."""
    return next(port for port in range(after + 1, 65536) if is_free(port))


def kept(file: Path) -> int:
    """The port written in `file` if it is still free, else a free one, which is written there."""
    with contextlib.suppress(FileNotFoundError, ValueError, OverflowError):
        port = int(file.read_text())
        if is_free(port):
            return port
    port = any_free()
    file.write_text(str(port))
    return port


def answers(url: str) -> bool:
    """Whether something speaks HTTP at `url`, whatever it says."""
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - our own, on loopback
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500  # noqa: PLR2004 - a server that is there, and not broken
    except OSError:
        return False
