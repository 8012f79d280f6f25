"""The state file: an SQLite database that is never more than a moment behind the cluster."""

import json
import sqlite3
from pathlib import Path

from simcluster.clock import Clock
from simcluster.errors import UsageError
from simcluster.objects import name_of, namespace_of
from simcluster.reads import encoded
from simcluster.resources import BY_ID
from simcluster.store import Event
from simcluster.world import World

SAVE_SECONDS = 0.25
# What a restart adds to the version counter, so that no client has seen a version of the time
# between the last save and a crash: it is told 410 and lists again.
VERSION_GAP = 1_000_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT, namespace TEXT, name TEXT, body TEXT,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)"
_DROP = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?)"

Row = tuple[str, str, str]


class StateFile:
    """Notes what changed, and writes it with the clock's reading in one transaction."""

    def __init__(self, path: Path) -> None:
        self._changed: dict[Row, Event] = {}
        try:
            self._database = _open(path)
        except sqlite3.Error as error:
            raise UsageError(f"--state: {path} cannot be used: {error}") from error

    def clock(self) -> Clock | None:
        """The clock as it was last saved; None for a new file."""
        facts = dict(self._database.execute("SELECT name, value FROM facts"))
        if "now" not in facts:
            return None
        return Clock(
            float(facts["now"]),
            speed=float(facts["speed"]),
            frozen=facts["frozen"] == "True",
        )

    def restore(self, world: World) -> int:
        """Fill an empty world and follow it from now on; returns the number of objects."""
        facts = dict(self._database.execute("SELECT name, value FROM facts"))
        rows = self._database.execute("SELECT resource, body FROM objects").fetchall()
        objects = [(BY_ID[resource], json.loads(body)) for resource, body in rows]
        if objects:
            world.store.load(objects, version=int(facts["version"]) + VERSION_GAP)
        world.store.listeners.append(self._note)
        return len(objects)

    def save(self, world: World) -> None:
        """Write what changed since the last time."""
        changed, self._changed = self._changed, {}
        clock = world.clock
        facts = {
            "now": repr(clock.reached()),
            "speed": repr(clock.speed),
            "frozen": str(clock.frozen),
            "version": str(world.store.version),
        }
        self._database.execute("BEGIN")
        for row, event in changed.items():
            if event.kind == "DELETED":
                self._database.execute(_DROP, row)
            else:
                self._database.execute(_PUT, (*row, encoded(event.obj).decode()))
        self._database.executemany(_FACT, facts.items())
        self._database.execute("COMMIT")

    def close(self, world: World) -> None:
        self.save(world)
        self._database.close()

    def _note(self, event: Event) -> None:
        row = (event.resource.id, namespace_of(event.obj), name_of(event.obj))
        self._changed[row] = event


def _open(path: Path) -> sqlite3.Connection:
    """The database in `path`, ours alone, with its tables."""
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
    try:
        database.execute("PRAGMA locking_mode=EXCLUSIVE")  # one cluster, one file
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=OFF")  # kill -9 loses nothing; a power cut may
        database.executescript(_SCHEMA)
        database.execute(_FACT, ("format", "1"))
    except sqlite3.Error:
        database.close()
        raise
    return database
