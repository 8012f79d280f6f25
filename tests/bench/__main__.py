"""Measures what has a limit: `bin/bench [NAME] [--json]`. Exit 1: something is over it."""

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import django
import environ
from django.conf import settings
from django.db import connection, connections
from django.test.utils import setup_test_environment

from portal.embedded import postgres
from tests.bench import cold, engine, inflation, replays
from tests.bench.figures import NotRun

WITHOUT_DATABASE = {
    **engine.BENCHES,
    **inflation.BENCHES,
    **replays.BENCHES,
    "watch-cold": cold.run,
}


@contextmanager
def throwaway_database():
    """A real PostgreSQL with our tables, which ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    server = environ.Env.db_url_config(postgres.ensure_test_server(folder / "pg"))
    settings.DATABASES["default"].update(server)
    connections["default"].settings_dict.update(server)
    setup_test_environment()
    connection.creation.create_test_db(verbosity=0)
    try:
        yield
    finally:
        connection.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def no_broker():
    """Nobody carries out what is sent."""
    from portal.core import queueing  # noqa: PLC0415 - needs the settings first

    send = queueing._send  # noqa: SLF001 - its one door, as in tests/conftest.py
    queueing._send = lambda *_: None  # noqa: SLF001 - as above
    try:
        yield
    finally:
        queueing._send = send  # noqa: SLF001 - as above


def empty():
    from django.core.management import call_command  # noqa: PLC0415 - needs the settings first

    call_command("flush", interactive=False, verbosity=0)


def of_database():
    """By name; each starts on an empty database."""
    from tests.bench import cycles, live, pages, tabs  # noqa: PLC0415 - needs the settings first

    return {
        "pages": [pages.run],
        "idle-tabs-50": [tabs.idle_tabs],
        "map-4096": [tabs.large_map],
        "snapshot": [cycles.snapshot],
        "snapshot-5000": [cycles.large_snapshot],
        "gang-512-bound": [live.gang],
        "singles-1000": [live.singles],
        "cycle": [cycles.burst, cycles.deep_queue],
    }


def figures(names, with_database):
    """What the benches measure; a database is made only if one of them needs it."""
    is_alone = len(names) == 1
    for name in names:
        yield from measured(name, WITHOUT_DATABASE.get(name, tuple), is_alone)
    parts = [(name, part) for name in names for part in with_database.get(name, ())]
    if not parts:
        return
    with throwaway_database(), no_broker():
        for name, part in parts:
            empty()
            yield from measured(name, part, is_alone)


def measured(name, part, is_alone):
    """What `part` measures. What it needs and is not there is said; alone, that is an error."""
    try:
        yield from part()
    except NotRun as reason:
        print(f"{name} was not run to its end: {reason}", file=sys.stderr)  # noqa: T201 - a command
        if is_alone:
            raise SystemExit(1) from reason


def main(arguments):
    with_database = of_database()
    known = [*WITHOUT_DATABASE, *with_database]
    parser = argparse.ArgumentParser(prog="bin/bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=known, metavar="NAME", help=", ".join(known))
    parser.add_argument("--json", action="store_true", help="one JSON object per figure")
    chosen = parser.parse_args(arguments)
    all_within = True
    for figure in figures([chosen.name] if chosen.name else known, with_database):
        said = json.dumps(figure.as_json()) if chosen.json else figure.as_text()
        print(said, flush=True)  # noqa: T201 - a command
        all_within &= figure.is_within
    return 0 if all_within else 1


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings.test"
    django.setup()
    logging.disable(logging.WARNING)
    sys.exit(main(sys.argv[1:]))
