from collections import Counter
from pathlib import Path

from django.core.management import call_command
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

ROOT = Path(__file__).resolve().parents[2]
APPS = {"core": "portal/core", "tenants": "tenants", "topology": "topology"}
APPS["scheduling"] = "scheduling"


def ours():
    """The migrations of our own apps, from the files alone."""
    loader = MigrationLoader(None)
    return {key: migration for key, migration in loader.disk_migrations.items() if key[0] in APPS}


def test_no_migration_is_missing(db, capsys):
    call_command("makemigrations", "--check", "--dry-run")

    assert "No changes detected" in capsys.readouterr().out


def test_no_number_is_used_twice():
    numbers = Counter((app, name.split("_")[0]) for app, name in ours())

    assert [number for number, times in numbers.items() if times > 1] == []


def test_every_app_with_models_has_its_first_migration():
    assert {app for app, name in ours() if name == "0001_initial"} == set(APPS)


def test_every_migration_says_what_it_is_about():
    assert [name for _, name in ours() if "_auto_" in name] == []


def irreversible(operations):
    for operation in operations:
        if isinstance(operation, Operation) and not operation.reversible:
            yield operation
        yield from irreversible(getattr(operation, "database_operations", None) or [])


def test_every_migration_can_be_taken_back():
    assert [key for key, migration in ours().items() if [*irreversible(migration.operations)]] == []


def test_each_file_is_a_migration():
    files = {
        (app, file.stem)
        for app, folder in APPS.items()
        for file in (ROOT / folder / "migrations").glob("*.py")
        if file.stem != "__init__"
    }

    assert files == set(ours())
