"""The life of a job is one list: code, database, REST and pages read it, and nothing else."""

import ast
import re
from pathlib import Path

import pytest
from rest_framework import serializers

from scheduling.models import Job, JobEvent
from scheduling.states import (
    DISPLACEABLE,
    ENDED_PHASES,
    FINAL,
    HOLDING,
    PHASE_ORDER,
    TRANSITIONS,
    JobState,
    MemberPhase,
)

ROOT = Path(__file__).resolve().parents[2]
# Pure parts, whose scenarios and traces have words of their own.
PURE = {ROOT / "scheduling/engine", ROOT / "scheduling/simulation"}
PACKAGES = ("portal", "tenants", "topology", "scheduling")


def test_every_state_says_what_may_follow():
    assert set(TRANSITIONS) == set(JobState)


def test_the_states_that_end_a_job_are_four():
    assert {"succeeded", "failed", "timed_out", "cancelled"} == FINAL


def test_every_state_is_reached_from_the_queue():
    reached, front = set(), {JobState.QUEUED}
    while front:
        reached |= front
        front = {after for state in front for after in TRANSITIONS[state]} - reached

    assert reached == set(JobState)


def test_every_state_leads_to_an_end():
    ending = set(FINAL)
    while more := {s for s, after in TRANSITIONS.items() if after & ending} - ending:
        ending |= more

    assert ending == set(JobState)


def test_a_job_that_holds_devices_never_ends_or_waits_without_stopping():
    """Save by its own doing: by running to an end."""
    ends_by_itself = {JobState.SUCCEEDED, JobState.FAILED, JobState.TIMED_OUT}

    assert {JobState.STARTING, JobState.RUNNING, JobState.STOPPING} == HOLDING
    assert HOLDING - {JobState.STOPPING} == DISPLACEABLE
    assert TRANSITIONS[JobState.RUNNING] - ends_by_itself == {JobState.STOPPING}


def test_every_phase_has_its_place_and_the_last_ones_end():
    order = sorted(MemberPhase, key=PHASE_ORDER.__getitem__)

    assert set(order[-3:]) == ENDED_PHASES
    assert order[0] == MemberPhase.EXPECTED


def choices_of(model, field):
    return list(model._meta.get_field(field).choices)  # noqa: SLF001 - Django's public name for it


def test_the_database_knows_the_same_states():
    known = [tuple(choice) for choice in JobState.choices]

    assert choices_of(Job, "state") == choices_of(JobEvent, "to_state") == known


def rest_fields():
    """Every field of a job's REST serializers that is named for a state."""
    front = [serializers.BaseSerializer]
    while front:
        serializer = front.pop()
        front += serializer.__subclasses__()
        if serializer.__module__.startswith("scheduling."):
            for name, field in getattr(serializer, "_declared_fields", {}).items():
                if name in {"state", "from_state", "to_state"} and hasattr(field, "choices"):
                    yield pytest.param(field, id=f"{serializer.__name__}.{name}")


def test_rest_offers_the_same_states():
    __import__("scheduling.api.serializers")

    for field in (param.values[0] for param in rest_fields()):
        assert set(field.choices) == set(JobState.values)


def literals(path):
    """Lines where a state is spelt out as text."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                names = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
                if (
                    isinstance(side, ast.Constant)
                    and side.value in set(JobState)
                    and names & {"state", "stopping_to", "to_state", "from_state"}
                ):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_no_code_compares_a_state_with_text():
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    files = [file for file in files if PURE.isdisjoint(file.parents)]

    assert [line for file in files for line in literals(file)] == []


def test_a_template_names_no_state_that_there_is_not():
    spelt = re.compile(r"""job\.state\s*[!=]=\s*["'](\w+)""")

    named = {
        match[1]
        for file in (ROOT / "templates").rglob("*.html")
        for match in spelt.finditer(file.read_text())
    }

    assert named
    assert named <= set(JobState)
