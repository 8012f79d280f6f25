"""What the demo starts, what it tells its processes, and what it tells people."""

import fcntl
import json
import os
import socket
import stat
import subprocess
import sys

import pytest

from portal.embedded import __main__ as embedded
from portal.embedded import checkout, demo, first_steps, ports
from portal.embedded.__main__ import main
from portal.embedded.programs import CannotStart
from portal.embedded.supervisor import StopAsked, Supervisor

SERVICES = demo.Services(
    database_url="postgresql://muster@/muster?host=/d",
    redis_url="unix:///d/v.sock",
    simcluster_url="http://127.0.0.1:4000",
)


@pytest.fixture
def options(tmp_path):
    return demo.Options(port=8123, data=tmp_path)


def test_every_process_is_told_the_same_and_nothing_of_other_programs(options, tmp_path):
    given = {"PATH": "/bin", "PGHOST": "elsewhere", "DJANGO_SETTINGS_MODULE": "other.settings"}

    env = demo.environment(given, options, SERVICES)

    assert env == {
        "PATH": "/bin",
        "DATABASE_URL": "postgresql://muster@/muster?host=/d",
        "REDIS_URL": "unix:///d/v.sock",
        "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
        "MUSTER_ALLOWED_HOSTS": "localhost,127.0.0.1",
        "MUSTER_BASE_URL": "http://127.0.0.1:8123",
        "MUSTER_DATA_DIR": str(tmp_path),
        "MUSTER_SECRET_KEY": (tmp_path / "secret-key").read_text(),
        "MUSTER_SIMCLUSTER_TOKEN": (tmp_path / "simcluster-token").read_text(),
        "MUSTER_SIMCLUSTER_URL": "http://127.0.0.1:4000",
        "PYTHONUNBUFFERED": "1",
    }


def test_a_secret_is_made_once_and_read_by_its_owner_alone(tmp_path):
    first = demo.kept_secret(tmp_path / "key")

    assert demo.kept_secret(tmp_path / "key") == first
    assert len(first) >= 50
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


@pytest.mark.parametrize("left", ["", "short", "\ufffd" * 64])
def test_a_secret_that_was_cut_off_is_made_anew(tmp_path, left):
    (tmp_path / "key").write_text(left)

    made = demo.kept_secret(tmp_path / "key")

    assert len(made) == 64
    assert demo.kept_secret(tmp_path / "key") == made
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_shell_reads_back_what_the_portal_was_told(options, tmp_path):
    file = tmp_path / "environment"
    env = demo.environment({"PATH": "/bin", "MUSTER_NOTE": "it's $HOME"}, options, SERVICES)

    demo.keep_environment(file, env)

    told = subprocess.run(
        ["/bin/bash", "-c", f"set -a; source {file}; env -0"],
        env={},
        capture_output=True,
        check=True,
    )
    read = dict(line.split("=", 1) for line in told.stdout.decode().split("\0") if line)
    ours = {key: value for key, value in env.items() if key not in {"PATH", "PYTHONUNBUFFERED"}}
    assert {key: read.get(key) for key in ours} == ours
    assert "PYTHONUNBUFFERED" not in read
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_secrets_are_on_no_command_line(options):
    env = demo.environment({}, options, SERVICES)
    programs = [demo.simcluster(options, env), *demo.portal_programs(options, env)]

    words = [word for program in programs for word in program.argv]

    assert env["MUSTER_SIMCLUSTER_TOKEN"] not in words
    assert env["MUSTER_SECRET_KEY"] not in words


@pytest.mark.parametrize(
    ("feed", "names"),
    [
        (True, ["web", "worker", "beat", "watcher", "past", "feeder"]),
        (False, ["web", "worker", "beat", "watcher"]),
    ],
    ids=["with the trace", "without it"],
)
def test_the_portal_is_these_processes(tmp_path, feed, names):
    options = demo.Options(feed=feed, data=tmp_path)
    env = demo.environment({}, options, SERVICES)

    assert [program.name for program in demo.portal_programs(options, env)] == names


def test_a_taken_port_is_named_with_the_way_out(tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind((ports.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]

        status = main(["--port", str(port), "--data", str(tmp_path)])

    assert status == 1
    assert capsys.readouterr().out == (
        f"\nPort {port} is taken by another program."
        f" Take another one: bin/run --port {ports.next_free(port)}\n"
    )


def test_a_second_run_says_that_there_is_one(tmp_path, capsys):
    held = checkout.lock(tmp_path, address="http://127.0.0.1:8000")

    status = main(["--data", str(tmp_path)])

    os.close(held)
    assert status == 1
    assert capsys.readouterr().out == (
        f"\nMuster already runs from {tmp_path}, at http://127.0.0.1:8000."
        f"\nUse that one, or stop it first: kill {os.getpid()}\n"
    )


def test_the_lock_waits_for_the_programs_of_a_killed_run(tmp_path, capsys):
    """They inherit it, so it is held until the last of them has gone."""
    file = tmp_path / "run.lock"
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        json.dump({"pid": 2**22 + 1, "address": "gone"}, handle)
        handle.flush()
        left_over = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(1)"], pass_fds=(handle.fileno(),)
        )

    os.close(checkout.lock(tmp_path, address="http://127.0.0.1:8000"))

    assert left_over.wait(5) == 0
    assert "still stopping" in capsys.readouterr().out


def test_beginning_anew_forgets_all_but_the_locks(tmp_path):
    os.close(checkout.lock(tmp_path, address="here"))
    (tmp_path / "postgres" / "data").mkdir(parents=True)
    (tmp_path / "logs").mkdir()
    demo.kept_secret(tmp_path / "secret-key")

    checkout.forget(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["run.lock"]


def test_a_kept_port_is_taken_again_while_it_is_free(tmp_path):
    first = ports.kept(tmp_path / "port")

    assert ports.kept(tmp_path / "port") == first

    with socket.socket() as taken:
        taken.bind((ports.HOST, first))
        assert ports.kept(tmp_path / "port") != first


@pytest.mark.parametrize("left", ["", "nonsense", "123456", "-1"])
def test_a_kept_port_that_is_none_is_chosen_anew(tmp_path, left):
    (tmp_path / "port").write_text(left)

    assert 0 < ports.kept(tmp_path / "port") < 65_536


@pytest.mark.parametrize("left", ["", "{", "[]", "\0" * 9])
def test_a_lock_file_with_nonsense_in_it_is_a_lock_all_the_same(tmp_path, left):
    (tmp_path / "run.lock").write_text(left)

    os.close(checkout.lock(tmp_path, address="here"))

    told = json.loads((tmp_path / "run.lock").read_text())
    assert told == {"pid": os.getpid(), "address": "here"}


def test_a_disk_that_fails_is_named(tmp_path, capsys):
    (tmp_path / "run.lock").symlink_to("run.lock")  # no file can be opened there

    assert main(["--data", str(tmp_path)]) == 1
    assert "run.lock" in capsys.readouterr().out


def test_a_fingerprint_changes_with_the_files_it_is_of_and_their_address(tmp_path):
    folder = tmp_path / "tenants" / "migrations"
    folder.mkdir(parents=True)
    (folder / "0001_initial.py").write_text("one")
    patterns = ("*/migrations/*.py",)
    before = first_steps.fingerprint(tmp_path, patterns, salt="here")

    (tmp_path / "unrelated").touch()

    assert first_steps.fingerprint(tmp_path, patterns, salt="here") == before
    assert first_steps.fingerprint(tmp_path, patterns, salt="elsewhere") != before

    (folder / "0002_more.py").write_text("two")

    assert first_steps.fingerprint(tmp_path, patterns, salt="here") != before


def test_a_step_that_fails_shows_its_last_lines(child):
    program = child("migrate", "print('no such table'); sys.exit(1)")

    with pytest.raises(CannotStart) as caught:
        first_steps.run_to_end(program)

    assert str(caught.value).splitlines() == [
        "migrate failed (exit 1):",
        "    no such table",
        f"    (all of it: {program.log})",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "70000"], "70000 is no port: take one from 1 to 65534"),
        (["--speed", "0"], "take a speed above 0 and up to 1000"),
    ],
    ids=["a port that is none", "a clock that stands still"],
)
def test_a_wrong_option_is_refused_with_what_would_be_right(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert sentence in capsys.readouterr().err


def test_begun_anew_in_the_portal_all_is_forgotten_and_started_again(tmp_path, monkeypatch):
    """The second run is a reset, and the lock is free for it."""
    seen = []

    class Keeper(Supervisor):
        def watch(self, *, until):
            if len(seen) == 1:
                checkout.ask_for_reset(tmp_path)
                (tmp_path / "left").touch()
            assert until() is (len(seen) == 1)
            if len(seen) == 2:
                raise StopAsked

    def start_services(_supervisor, options):
        seen.append((options.data / "left").exists() or checkout.is_reset_asked(options.data))
        return {}

    monkeypatch.setattr(embedded, "Supervisor", Keeper)
    monkeypatch.setattr(embedded, "start_services", start_services)
    monkeypatch.setattr(embedded, "start_portal", lambda *_: None)
    monkeypatch.setattr(embedded.demo, "keep_environment", lambda *_: None)
    monkeypatch.setattr(embedded.first_steps, "sign_in_link", lambda *_: "link")
    monkeypatch.setattr(embedded, "stop_on_signals", lambda: None)

    assert main(["--data", str(tmp_path), "--port", str(ports.any_free())]) == 0
    assert seen == [False, False]


def test_a_request_that_an_earlier_run_left_is_dropped(tmp_path):
    checkout.ask_for_reset(tmp_path)

    checkout.drop_request(tmp_path)

    assert not checkout.is_reset_asked(tmp_path)
