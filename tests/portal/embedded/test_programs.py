"""Programs end with the process that started them."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from portal.embedded.programs import CannotStart, Program, kill_group, spawn, stop, wait_until_ready
from tests.processes import is_running

ROOT = Path(__file__).resolve().parents[3]
STARTER = """
import sys, time
sys.path.insert(0, {root!r})
from portal.embedded.programs import Account, Program, spawn
process = spawn(Program(name="child", argv=("/bin/sleep", "60"), account={account!r}))
print(process.pid, flush=True)
time.sleep(60)
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def killed_starter(account):
    """The child's process id, after the one that started it was killed without warning."""
    code = STARTER.format(root=str(ROOT), account=account)
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    with starter:
        pid = int(starter.stdout.readline())
        assert is_running(pid)
        starter.kill()
    return pid


def test_a_child_dies_when_its_parent_is_killed(eventually):
    pid = killed_starter(account=None)

    assert eventually(lambda: not is_running(pid))


@needs_root
def test_a_child_of_another_user_dies_when_its_parent_is_killed(eventually, unprivileged):
    pid = killed_starter(account=unprivileged)

    assert eventually(lambda: not is_running(pid))


@needs_root
def test_a_program_of_another_user_keeps_nothing_of_root(tmp_path, unprivileged):
    program = Program(
        name="who",
        argv=("/bin/sh", "-c", "id -u; id -g; id -G"),
        env={"PATH": os.environ["PATH"]},
        account=unprivileged,
        log=tmp_path / "who.log",
    )

    assert spawn(program).wait(10) == 0
    assert program.log.read_text().split() == [
        str(unprivileged.uid),
        str(unprivileged.gid),
        str(unprivileged.gid),
    ]


def test_programs_are_started_in_the_main_thread_only(child):
    refused = []

    def attempt():
        try:
            spawn(child("idle", "time.sleep(60)"))
        except AssertionError as error:
            refused.append(str(error))

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()

    assert refused == ["programs are started in the main thread, or they die with another"]


def test_a_program_that_ends_at_once_is_reported_with_its_log(child):
    program = child("broken", "print('the disk is full'); sys.exit(3)", ready=lambda: False)

    with pytest.raises(CannotStart) as caught:
        wait_until_ready(spawn(program), program)

    assert str(caught.value).splitlines() == [
        "broken ended at once:",
        "    the disk is full",
        f"    (all of it: {program.log})",
    ]


def test_a_program_that_never_answers_is_given_up(child):
    program = child("mute", "time.sleep(60)", ready=lambda: False)
    process = spawn(program)

    with pytest.raises(CannotStart, match="mute did not answer within 0 s"):
        wait_until_ready(process, program, within=0.1)

    kill_group(process)


def test_stop_ends_the_whole_group(child, eventually, tmp_path):
    grandchild = (
        "import subprocess\n"
        "sleeper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "(tmp / 'pid').write_text(str(sleeper.pid)); (tmp / 'up').touch(); time.sleep(60)"
    )
    process = spawn(child("parent", grandchild))
    assert eventually((tmp_path / "up").exists)
    pid = int((tmp_path / "pid").read_text())

    stop(process, by=signal.SIGTERM)

    assert process.returncode == -signal.SIGTERM
    assert eventually(lambda: not is_running(pid))
