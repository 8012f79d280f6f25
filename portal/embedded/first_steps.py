"""What has to be done before the portal can serve: tables, demo data, and a way in."""

import hashlib
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from portal.embedded import demo, given
from portal.embedded.programs import CannotStart, Program, kill_group, last_lines, spawn
from portal.embedded.terminal import step

_TABLES = ("*/migrations/*.py", "portal/site/seed.py", "requirements/runtime.txt")
_FILES = ("static/**/*", "requirements/runtime.txt")
_MANIFEST = "staticfiles/staticfiles.json"


def prepare(options: demo.Options, env: Mapping[str, str]) -> None:
    """Make the tables, the demo data and the static files, as far as they are not made already."""
    with gathering_static_files(options, env):
        make_tables(options, env)


def make_tables(options: demo.Options, env: Mapping[str, str]) -> None:
    mark = options.data / "prepared-tables"
    addresses = env["DATABASE_URL"] + env["MUSTER_SIMCLUSTER_URL"]
    state = fingerprint(demo.ROOT, _TABLES, salt=addresses)
    if is_marked(mark, state) and given.has_tables(env["DATABASE_URL"]):
        return
    with step("Making the tables"):
        run_to_end(demo.python(options, env, "migrate", "manage.py", "migrate", "--no-input"))
    with step("Making the demo's people and tenants"):
        run_to_end(demo.python(options, env, "seed", "manage.py", "seed_demo"))
    mark.write_text(state)


@contextmanager
def gathering_static_files(options: demo.Options, env: Mapping[str, str]) -> Iterator[None]:
    """Gather them on another core while the block runs; afterwards they are there."""
    mark = options.data / "prepared-static"
    state = fingerprint(demo.ROOT, _FILES)
    if (demo.ROOT / _MANIFEST).exists() and is_marked(mark, state):
        yield
        return
    collect = ("manage.py", "collectstatic", "--no-input", "--clear")
    program = demo.python(options, env, "collectstatic", *collect)
    process = begin(program)
    try:
        yield
        with step("Gathering static files"):
            finish(process, program)
    finally:
        kill_group(process)
    mark.write_text(state)


def is_marked(mark: Path, state: str) -> bool:
    return mark.exists() and mark.read_text() == state


def fingerprint(root: Path, patterns: Iterable[str], *, salt: str = "") -> str:
    """Changes with any file that a pattern names, and with `salt`."""
    files = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    found = hashlib.sha256(salt.encode())
    for file in sorted(files):
        found.update(str(file.relative_to(root)).encode())
        found.update(file.read_bytes())
    return found.hexdigest()


def sign_in_link(options: demo.Options, env: Mapping[str, str]) -> str:
    """An address that signs the demo's operator in, once."""
    command = ("manage.py", "sign_in_link", "--user", demo.USER)
    printed = run_to_end(demo.python(options, env, "sign-in-link", *command))
    links = [line for line in printed.split() if line.startswith(options.address)]
    if not links:
        raise CannotStart(f"No sign-in link was made:\n{printed}")
    return links[-1]


def run_to_end(program: Program) -> str:
    """What a program prints until it ends well; CannotStart, with its last lines, if it fails."""
    process = begin(program)
    try:
        return finish(process, program)
    finally:
        kill_group(process)


def begin(program: Program) -> subprocess.Popen[bytes]:
    if program.log is not None:
        program.log.unlink(missing_ok=True)
    return spawn(program)


def finish(process: subprocess.Popen[bytes], program: Program) -> str:
    code = process.wait()
    if code != 0:
        raise CannotStart(f"{program.name} failed (exit {code}):\n{last_lines(program.log)}")
    return program.log.read_text(errors="replace") if program.log else ""
