"""That the witness of the rounds notices what must never be."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from tests.kube.chaos.witness import Witness

AT = "2026-01-01T00:00:00Z"
BEFORE, AFTER = datetime(2025, 12, 31, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class Ledger:
    """A database that has the same rows for every member, and gangs of two members."""

    rows: tuple = (("a", None, [0, 1]), ("b", None, [0, 1]))

    def execute(self, question, values):
        self._found = [("main", 2)] if "min_member" in question else list(self.rows)
        return self

    def fetchall(self):
        return self._found


def pod(rank, node="", *, devices="0,1", phase="Running", event="MODIFIED"):
    """An event of the pod of that rank, which is bound if it has a node."""
    notes = {"muster.dev/attempt": "1", "muster.dev/devices": devices}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": AT}
    return {
        "type": event,
        "object": {
            "metadata": {
                "uid": f"pod-{rank}",
                "labels": {"muster.dev/job": "j-1", "muster.dev/group": "main"},
                "annotations": {**notes, "batch.kubernetes.io/job-completion-index": str(rank)},
            },
            "spec": {"nodeName": node} if node else {},
            "status": {"phase": phase, "conditions": [scheduled] if node else []},
        },
    }


def told(*events, ledger=None):
    """Somebody who has seen these events."""
    witness = Witness(None, "muster-t", ledger or Ledger(), since="0")
    for event in events:
        witness._take(event)  # noqa: SLF001 - events come from nowhere else
    return witness


def test_a_gang_that_is_bound_as_planned_is_fine():
    witness = told(pod(0, "a"), pod(1, "b"))

    assert (witness.wrong, witness.late(-1)) == ([], [])
    assert witness.live() == {
        ("j-1", "main", 1, 0, "a", (0, 1)),
        ("j-1", "main", 1, 1, "b", (0, 1)),
    }


@pytest.mark.parametrize(
    ("rows", "is_wrong"),
    [
        ([("a", None, [0, 1])], False),
        ([("b", None, [0, 1])], True),
        ([("a", None, [2, 3])], True),
        ([("a", AFTER, [0, 1])], False),
        ([("a", BEFORE, [0, 1])], True),
        ([], True),
    ],
    ids=["planned", "elsewhere", "other devices", "given back later", "given back before", "never"],
)
def test_a_pod_must_be_bound_as_an_active_row_says(rows, is_wrong):
    witness = told(pod(0, "a"), ledger=Ledger(rows))

    assert bool(witness.wrong) == is_wrong


@pytest.mark.parametrize(
    ("first", "is_wrong"),
    [
        (pod(0, "a"), True),
        (pod(0, "a", devices="2,3"), False),
        (pod(0, "b"), False),
        (pod(0, "a", phase="Succeeded"), False),
        (pod(0, "a", event="DELETED"), False),
    ],
    ids=["same", "other devices", "other node", "ended", "gone"],
)
def test_a_device_must_not_be_in_use_twice(first, is_wrong):
    rows = [("a", None, [0, 1]), ("a", None, [2, 3]), ("b", None, [0, 1])]
    witness = told(first, pod(1, "a"), ledger=Ledger(rows))

    assert bool(witness.wrong) == is_wrong


@pytest.mark.parametrize(
    ("events", "is_late"),
    [
        ([pod(0, "a"), pod(1)], True),
        ([pod(0, "a"), pod(1, "b")], False),
        ([pod(0, "a"), pod(1, "b"), pod(0, "a", phase="Succeeded")], False),
        ([pod(0), pod(1)], False),
    ],
    ids=["in part", "whole", "whole once", "not at all"],
)
def test_a_gang_must_not_stay_started_in_part(events, is_late):
    assert bool(told(*events).late(-1)) == is_late


def test_a_gang_that_was_taken_back_is_late_no_longer():
    witness = told(pod(0, "a"), pod(0, "a", event="DELETED"))

    assert witness.late(1) == []
