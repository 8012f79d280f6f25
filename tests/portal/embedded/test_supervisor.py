"""The supervisor raises the dead, with patience, and stops everything in time."""

import os
import signal
import time

import pytest

from portal.embedded import supervisor
from portal.embedded.supervisor import Supervisor, pause_before_restart, trim_log


@pytest.fixture
def told():
    return []


@pytest.fixture
def keeper(told):
    made = Supervisor(told.append)
    yield made
    made.stop()


def counted(code):
    """Code that notes each of its starts before it goes on."""
    return f"(tmp / 'starts').open('a').write(str(os.getpid()) + ' ')\n{code}"


def starts(tmp_path):
    file = tmp_path / "starts"
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def test_a_killed_program_is_started_again_and_said_so(keeper, told, child, tmp_path, eventually):
    program = child("idle", counted("time.sleep(60)"), ready=lambda: bool(starts(tmp_path)))
    keeper.start(program)
    os.kill(starts(tmp_path)[0], signal.SIGKILL)

    assert eventually(lambda: keeper.look_after(time.monotonic()) or len(starts(tmp_path)) == 2)
    death, birth = told
    assert death == (
        "idle ended after 0 s (killed by SIGKILL); it is started again in 0.5 s."
        f" Its log: {program.log}"
    )
    assert birth == "idle is started again."


def test_pauses_double_up_to_half_a_minute():
    pauses = [pause_before_restart(failures) for failures in (1, 2, 3, 4, 7, 1000)]

    assert pauses == [0.5, 1.0, 2.0, 4.0, 30.0, 30.0]


def test_a_program_that_was_up_for_long_is_forgiven(keeper, told, child, tmp_path, eventually):
    program = child("short", counted("sys.exit(1)"), ready=lambda: bool(starts(tmp_path)))
    keeper.start(program)
    began = now = time.monotonic()
    for _ in range(2):
        seen = len(told)
        assert eventually(lambda at=now, seen=seen: keeper.look_after(at) or len(told) > seen)
        now += 10
        keeper.look_after(now)  # the pause is over by then
    assert eventually(lambda: len(starts(tmp_path)) == 3)

    seen = len(told)
    assert eventually(lambda: keeper.look_after(began + 1000) or len(told) > seen)

    pauses = [line.split(" again in ")[1].split(" s.")[0] for line in told if "again in" in line]
    assert pauses == ["0.5", "1", "0.5"]


def test_it_keeps_watch_until_it_is_told_that_that_is_enough(keeper, child, tmp_path):
    keeper.start(child("web", counted("time.sleep(60)"), ready=lambda: bool(starts(tmp_path))))
    answers = iter([False, True])

    keeper.watch(until=lambda: next(answers))

    assert next(answers, "asked no more") == "asked no more"


def test_a_program_that_runs_once_is_not_started_again(keeper, told, child, tmp_path, eventually):
    keeper.start(child("feeder", counted(""), once=True, ready=lambda: bool(starts(tmp_path))))

    assert eventually(lambda: keeper.look_after(time.monotonic()) or told)
    keeper.look_after(time.monotonic() + 1000)
    assert told == ["feeder is done."]
    assert len(starts(tmp_path)) == 1


def test_those_that_others_lean_on_stop_last(keeper, child, tmp_path):
    def noting(name):
        return (
            f"def end(*_):\n (tmp / 'ends').open('a').write({name!r} + ' '); sys.exit()\n"
            f"signal.signal(signal.SIGTERM, end); (tmp / {name!r}).touch(); time.sleep(60)"
        )

    for name, foundation in (("database", True), ("web", False), ("broker", True)):
        program = child(name, noting(name), foundation=foundation, ready=(tmp_path / name).exists)
        keeper.start(program)

    keeper.stop()

    first, *rest = (tmp_path / "ends").read_text().split()
    assert first == "web"
    assert sorted(rest) == ["broker", "database"]


def test_what_ignores_the_request_is_killed_in_time(keeper, child, tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "STOP_SECONDS", (0.5, 0.5))
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n(tmp / 'up').touch(); time.sleep(60)"
    keeper.start(child("deaf", code, ready=(tmp_path / "up").exists))

    began = time.monotonic()
    keeper.stop()

    assert time.monotonic() - began < 5


def test_stopping_everything_fits_into_fifteen_seconds():
    assert sum(supervisor.STOP_SECONDS) < 15


def test_a_long_log_is_moved_aside_and_writers_go_on(child):
    program = child("chatty", "")
    program.log.write_text("x" * 100)

    trim_log(program, limit=99)

    assert program.log.read_text() == ""
    assert program.log.with_name("chatty.log.1").read_text() == "x" * 100
