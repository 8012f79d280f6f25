"""Tasks are sent by name: every name in the code is one that a worker knows."""

import ast
import inspect
from pathlib import Path

import pytest
from django.conf import settings

from portal.celery import app

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("portal", "tenants", "topology", "scheduling")


SENDERS = {"send_on_commit", "send_again"}


def calls():
    """(where, call) for each task that is sent."""
    files = {file for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    for file in sorted(files - {ROOT / "portal/core/queueing.py"}):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in SENDERS:
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node


@pytest.fixture(scope="module")
def known():
    app.loader.import_default_modules()
    return {name: task for name, task in app.tasks.items() if not name.startswith("celery.")}


def test_every_name_is_spelt_out_where_it_is_sent():
    spelt = [isinstance(call.args[0], ast.Constant) for _, call in calls()]

    assert spelt
    assert all(spelt)


def test_every_task_that_is_sent_is_known(known):
    sent = [(where, call.args[0].value) for where, call in calls()]

    assert [(where, name) for where, name in sent if name not in known] == []


def test_every_task_gets_the_arguments_that_it_takes(known):
    for where, call in calls():
        given = {keyword.arg for keyword in call.keywords}
        takes = set(inspect.signature(known[call.args[0].value].run).parameters)
        assert (where, given) == (where, takes)


def test_the_beat_sends_tasks_that_are_known(known):
    beat = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}

    assert beat
    assert beat <= set(known)


def test_tasks_keep_no_results_and_are_named_for_their_app(known):
    assert known
    assert [name for name, task in known.items() if not task.ignore_result] == []
    assert {name.split(".")[0] for name in known} <= set(PACKAGES)
