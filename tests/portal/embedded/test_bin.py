"""The scripts that come before Python: they find one, and install once."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def checkout(tmp_path):
    """A checkout with a virtual environment, in which nothing is installed yet."""
    for folder in ("bin", "requirements", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "bin" / "venv.sh", tmp_path / "bin")
    for name in ("runtime", "dev"):
        (tmp_path / "requirements" / f"{name}.txt").write_text(f"{name}==1\n")
    executable(tmp_path / ".venv" / "bin" / "python", f'exec {sys.executable} "$@"')
    return tmp_path


def executable(file, code):
    file.write_text(f"#!/bin/bash\n{code}\n")
    file.chmod(0o755)


def bash(checkout, code, path=None):
    """What bash says, having read venv.sh; what would take minutes is only spoken of."""
    spoken = 'make_venv() { say made; }\ninstall() { say "installed $1"; }\n'
    return subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", f"source bin/venv.sh\n{spoken}{code}"],
        cwd=checkout,
        env={"PATH": path or os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )


def steps(done):
    return [line for line in done.stderr.splitlines() if re.match("(made|installed)", line)]


def test_packages_are_installed_once(checkout):
    first = bash(checkout, "ensure_venv runtime")
    second = bash(checkout, "ensure_venv runtime")

    assert steps(first) == ["installed runtime"]
    assert (second.stdout, second.stderr, second.returncode) == ("", "", 0)


def test_packages_are_installed_again_when_they_change(checkout):
    bash(checkout, "ensure_venv runtime")
    (checkout / "requirements" / "runtime.txt").write_text("runtime==2\n")

    assert steps(bash(checkout, "ensure_venv runtime")) == ["installed runtime"]


def test_what_developers_have_is_enough_to_run(checkout):
    bash(checkout, "ensure_venv dev")

    assert bash(checkout, "ensure_venv runtime").stderr == ""


def test_what_runs_is_not_enough_for_developers(checkout):
    bash(checkout, "ensure_venv runtime")

    assert steps(bash(checkout, "ensure_venv dev")) == ["installed dev"]


def test_an_interrupted_installation_is_made_anew(checkout):
    assert bash(checkout, "install() { exit 9; }; ensure_venv runtime").returncode == 9

    assert steps(bash(checkout, "ensure_venv runtime")) == ["made", "installed runtime"]
    assert steps(bash(checkout, "ensure_venv runtime")) == []


def test_a_virtual_environment_whose_python_has_gone_is_made_anew(checkout):
    bash(checkout, "ensure_venv runtime")
    (checkout / ".venv" / "bin" / "python").unlink()

    assert steps(bash(checkout, "ensure_venv runtime"))[0] == "made"


def test_a_failed_installation_says_what_to_do(checkout):
    done = bash(checkout, "install() { return 1; }; ensure_venv runtime")

    assert done.returncode == 1
    assert "set HTTPS_PROXY or PIP_INDEX_URL; then run the same command again" in done.stderr


def test_an_old_python_is_passed_over(checkout):
    executable(checkout / "bin" / "python3.11", "exit 127")
    executable(checkout / "bin" / "python3.12", f'exec {sys.executable} "$@"')

    done = bash(checkout, "find_python", path=str(checkout / "bin"))

    assert done.stdout.strip() == sys.executable


def test_without_a_python_it_says_what_is_missing(checkout):
    done = bash(checkout, "find_python", path=str(checkout / "requirements"))

    assert done.returncode == 1
    assert "Python 3.11 or newer is needed and was not found" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr


def test_developers_have_every_package_that_runs():
    def pins(name):
        text = (ROOT / "requirements" / f"{name}.txt").read_text()
        return set(re.findall(r"^(\S+==\S+)", text, re.MULTILINE))

    assert pins("runtime") - pins("dev") == set()
    assert len(pins("runtime")) > 50


def test_ci_calls_the_tests_and_nothing_else():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()

    assert lines == [
        "#!/usr/bin/env bash",
        'exec "$(dirname "${BASH_SOURCE[0]}")/../bin/test" "$@"',
    ]
