"""The image, as far as it can be tried without an engine that builds it."""

import re
import shlex
import subprocess

import pytest

from tests.deploy.dockerfile import ROOT, allowed, copied, steps


def test_what_is_copied_is_there_and_nothing_else_is_let_in():
    assert [name for name in copied() if not (ROOT / name).exists()] == []
    assert sorted(copied()) == sorted(allowed())


def test_all_code_is_copied_but_what_is_for_demos_and_tests():
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    packages = {line.partition("/")[0] for line in listed.stdout.split()}

    assert packages - set(copied()) == {"simcluster", "tests"}


def test_packages_are_installed_by_their_hashes():
    [install] = [step.rest for step in steps() if "pip install" in step.rest]
    text = (ROOT / "requirements" / "image.txt").read_text()
    pins = re.split(r"(?m)^(?=[a-z0-9-]+==)", text)[1:]

    assert "--require-hashes" in install
    assert [pin.split()[0] for pin in pins if "--hash=sha256:" not in pin] == []
    assert len(pins) > 50


def test_what_the_image_has_is_what_is_tested():
    """Every package of the image is in the set that tests run with, at the same version."""
    pinned = re.compile(r"(?m)^([a-z0-9-]+)==([^ ;\\]+)")
    read = {
        name: dict(pinned.findall((ROOT / "requirements" / f"{name}.txt").read_text()))
        for name in ("image", "dev")
    }

    assert read["image"].items() <= read["dev"].items()


def test_it_runs_as_nobody_in_particular_and_keeps_no_secret():
    last = [step for step in steps() if step.stage == steps()[-1].stage]
    told = [step.rest for step in steps() if step.word in {"ENV", "ARG"}]

    assert ("USER", "10001:10001") in [(step.word, step.rest) for step in last]
    assert [step.rest for step in last if step.word == "COPY"] == [
        "--from=files /venv /venv",
        "--from=files /muster /muster",
    ]
    assert [line for line in told if re.search("SECRET|PASSWORD|TOKEN|_URL", line)] == []


@pytest.fixture(scope="module")
def built(image):
    """The image after the step that gathers static files, as the Dockerfile says it."""
    [line] = [step.rest for step in steps() if "collectstatic" in step.rest]
    words = shlex.split(line.partition("&&")[0])
    given = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    command = words[len(given) :]

    done = image(*command, **given, DATABASE_URL="", REDIS_URL="")

    assert done.returncode == 0, done.stderr
    return image


def test_static_files_are_gathered_when_it_is_built(built):
    manifest = built.tree / "staticfiles" / "staticfiles.json"

    assert manifest.exists()
    assert list((built.tree / "staticfiles" / "site").glob("muster.*.css"))


@pytest.mark.parametrize(
    "command",
    [
        ("python", "-c", "import portal.wsgi"),
        ("python", "-m", "celery", "-A", "portal", "report"),
        ("python", "manage.py", "watch_cluster", "--help"),
        ("python", "manage.py", "cluster_objects", "--account", "a"),
        ("python", "-m", "topology.agent", "--help"),
    ],
    ids=lambda command: " ".join(command[1:4]),
)
def test_each_program_starts_from_what_is_in_it(built, command):
    done = built(*command)

    assert done.returncode == 0, done.stderr


def test_its_chinese_texts_are_compiled(built):
    code = (
        "import django; django.setup()\n"
        "from django.utils import translation\n"
        "translation.activate('zh-hans'); print(translation.gettext('Jobs'))"
    )

    assert built("python", "-c", code).stdout == "作业\n"


def test_checks_for_production_find_nothing(built):
    done = built("python", "manage.py", "check", "--deploy", "--fail-level", "WARNING")

    assert (done.returncode, "no issues (2 silenced)" in done.stdout) == (0, True), done.stderr


ASK = """
import django; django.setup()
from django.test import Client
answer = Client().get({path!r}, headers={headers!r})
print(answer.status_code, answer.headers.get("Location", ""))
"""


@pytest.mark.parametrize(
    ("path", "headers", "answer"),
    [
        ("/healthz", {"Host": "10.1.2.3:8000"}, "200"),
        ("/metrics", {"Host": "10.1.2.3:8000", "X-Forwarded-For": "10.9.9.9"}, "401"),
        ("/healthz", {"Host": "evil.example"}, "400"),
        ("/", {"Host": "muster.example.org"}, "301 https://muster.example.org/"),
    ],
    ids=["a probe", "Prometheus", "a name that is not ours", "a browser without TLS"],
)
def test_pods_answer_whom_they_should(built, path, headers, answer):
    done = built("python", "-c", ASK.format(path=path, headers=headers))

    assert done.stdout.strip() == answer, done.stderr
