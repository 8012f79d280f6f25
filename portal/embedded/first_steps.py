"""What has to be done before the portal can serve: tables, demo data, and a way in."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from portal.embedded import demo
from portal.embedded.programs import CannotStart, Program, kill_group, last_lines, spawn
from portal.embedded.terminal import step

_DECIDES = (
    *("*/migrations/*.py", "portal/*/migrations/*.py"),
    *("portal/site/seed.py", "portal/site/management/commands/seed_demo.py"),
    "requirements/runtime.txt",
)


def prepare_database(options: demo.Options, env: Mapping[str, str]) -> None:
    """Make the tables and the demo data; nothing when this very code has done so before."""
    mark = options.data / "prepared"
    state = fingerprint(demo.ROOT, salt=env["DATABASE_URL"] + env["MUSTER_SIMCLUSTER_URL"])
    if mark.exists() and mark.read_text() == state:
        return
    with step("Making the tables"):
        run_to_end(demo.python(options, env, "migrate", "manage.py", "migrate", "--no-input"))
    with step("Making the demo's people and tenants"):
        run_to_end(demo.python(options, env, "seed", "manage.py", "seed_demo"))
    mark.write_text(state)


def fingerprint(root: Path, *, salt: str) -> str:
    """Changes whenever the tables or the demo data may have to change."""
    files = sorted(path for pattern in _DECIDES for path in root.glob(pattern))
    found = hashlib.sha256(salt.encode())
    for file in files:
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
    log = program.log
    if log is None:
        raise AssertionError("a program that runs to its end is heard by its log")
    log.unlink(missing_ok=True)
    process = spawn(program)
    try:
        code = process.wait()
    finally:
        kill_group(process)
    if code != 0:
        raise CannotStart(f"{program.name} failed (exit {code}):\n{last_lines(log)}")
    return log.read_text(errors="replace")
