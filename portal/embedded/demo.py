"""The demo: which processes it is made of, and what each of them is told."""

import os
import secrets
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from portal.embedded import ports
from portal.embedded.programs import Program

ROOT = Path(__file__).resolve().parents[2]
NODES = "6xH100-SXM:8,4xA100-80GB:8,2xL40S:8"
USER = "demo-operator"
_SECRET_BYTES = 48
_SECRET_LENGTH = 64  # of as many bytes, as text

# What the caller's shell may hold of other programs' settings, and would bend ours.
_DROPPED_PREFIXES = ("PG", "CELERY_", "DJANGO_", "GUNICORN_", "WEB_CONCURRENCY")
_OURS = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "MUSTER_")
_GUNICORN = (
    *("-m", "gunicorn", "--worker-class", "gthread", "--threads", "4"),
    *("--graceful-timeout", "5", "--no-control-socket"),
)
_CELERY = ("-m", "celery", "-A", "portal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for on the command line.

    speed: seconds of the cluster per second of ours.
    feed: whether the trace is replayed.
    data: everything that is kept, logs and secrets too.
    """

    port: int = 8000
    speed: float = 60
    feed: bool = True
    data: Path = ROOT / ".data"

    @property
    def address(self) -> str:
        return f"http://{ports.HOST}:{self.port}"

    @property
    def logs(self) -> Path:
        return self.data / "logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Addresses of what the portal leans on."""

    database_url: str
    redis_url: str
    simcluster_url: str


def environment(given: Mapping[str, str], options: Options, services: Services) -> dict[str, str]:
    """What every process of the portal is told; the harmless part of `given` is passed on."""
    kept = {key: value for key, value in given.items() if not key.startswith(_DROPPED_PREFIXES)}
    return kept | {
        "DATABASE_URL": services.database_url,
        "REDIS_URL": services.redis_url,
        "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
        "MUSTER_ALLOWED_HOSTS": "localhost,127.0.0.1",
        "MUSTER_BASE_URL": options.address,
        "MUSTER_DATA_DIR": str(options.data),
        "MUSTER_SECRET_KEY": kept_secret(options.data / "secret-key"),
        "MUSTER_SIMCLUSTER_TOKEN": kept_secret(options.data / "simcluster-token"),
        "MUSTER_SIMCLUSTER_URL": services.simcluster_url,
        "PYTHONUNBUFFERED": "1",
    }


def keep_environment(file: Path, env: Mapping[str, str]) -> None:
    """Write what is the portal's own in `env` for a shell to source; its owner alone may read."""
    lines = [f"{key}={shlex.quote(env[key])}" for key in sorted(env) if key.startswith(_OURS)]
    _write_whole(file, "\n".join(lines) + "\n")


def kept_secret(file: Path) -> str:
    """A secret that is made the first time, and that its owner alone may read.

    One that was cut off, as by a full disk, is made anew: a short one can be guessed.
    """
    with suppress(FileNotFoundError):
        kept = file.read_text(errors="replace")
        if len(kept) == _SECRET_LENGTH and kept.isascii():
            return kept
    _write_whole(file, secrets.token_urlsafe(_SECRET_BYTES))
    return file.read_text()


def _write_whole(file: Path, text: str) -> None:
    """Write `text` at once or not at all, for its owner alone to read."""
    half = file.with_suffix(".half")
    half.unlink(missing_ok=True)
    descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(text)
    half.replace(file)


def simcluster(options: Options, env: Mapping[str, str]) -> Program:
    """The simulated cluster. Its token comes by the environment, where others cannot read it."""
    url = env["MUSTER_SIMCLUSTER_URL"]
    return python(
        options,
        {**env, "SIMCLUSTER_TOKEN": env["MUSTER_SIMCLUSTER_TOKEN"]},
        "simcluster",
        *("-m", "simcluster", "--nodes", NODES, "--speed", f"{options.speed:g}"),
        *("--port", url.rsplit(":", 1)[1], "--state", str(options.data / "simcluster.state")),
        ready=partial(ports.answers, f"{url}/version"),
        foundation=True,
    )


def portal_programs(options: Options, env: Mapping[str, str]) -> list[Program]:
    """The processes of the portal itself, in the order of their start. Of beat there is one."""
    program = partial(python, options, env)
    web = program(
        "web",
        *(*_GUNICORN, "--bind", f"{ports.HOST}:{options.port}", "portal.wsgi"),
        ready=partial(ports.answers, f"{options.address}/"),
    )
    worker = program(
        "worker",
        *(*_CELERY, "worker", "--concurrency", "2", "--loglevel", "INFO"),
        *("--without-mingle", "--without-gossip"),
    )
    beat = program(
        "beat",
        *(
            *_CELERY,
            "beat",
            "--pidfile=",
            "--loglevel",
            "INFO",
            "--schedule",
            str(options.data / "beat-schedule"),
        ),
    )
    watcher = program("watcher", "manage.py", "watch_cluster")
    feeder = program("feeder", "manage.py", "load_trace", "--demo", "--sweeps", once=True)
    past = program("past", "manage.py", "load_demo_past", once=True)
    return [web, worker, beat, watcher, *([past, feeder] if options.feed else [])]


def python(
    options: Options, env: Mapping[str, str], name: str, *arguments: str, **rest: object
) -> Program:
    """A program of this checkout under this Python; `rest` as in Program."""
    return Program(
        name=name,
        argv=(sys.executable, *arguments),
        env=env,
        cwd=ROOT,
        log=options.logs / f"{name}.log",
        **rest,  # type: ignore[arg-type]  # one mapping for arguments of several types
    )
