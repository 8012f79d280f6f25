from datetime import UTC, datetime
from string import Formatter

import pytest
from django.utils import translation

from scheduling.engine.plan import Reason
from scheduling.models import Job
from scheduling.reports.reasons import SENTENCES, Fact, facts, reason_text
from scheduling.states import JobState
from tenants.models import Tenant

VISION = Tenant(slug="vision")
AGAIN = {"at": "2026-01-02T03:04:00+00:00"}


def held(reason, numbers=None, **job):
    return Job(state=JobState.QUEUED, reason=reason, reason_numbers=numbers or {}, **job)


SAID = {
    "on hold, with its reason": (
        held("on_hold", held_because="data not ready"),
        "On hold: data not ready",
    ),
    "on hold": (held("on_hold"), "On hold until somebody releases it."),
    "not before": (
        held("not_before", AGAIN),
        "It may not start before 2026-01-02 03:04 UTC.",
    ),
    "its last start failed": (
        held(
            "not_before",
            AGAIN,
            failed_starts=1,
            start_again_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        ),
        "Its last start failed, as its events tell; the next try is at 2026-01-02 03:04 UTC.",
    ),
    "its last starts failed": (
        held(
            "not_before",
            AGAIN,
            failed_starts=3,
            start_again_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        ),
        ("Its last 3 starts failed, as its events tell; the next try is at 2026-01-02 03:04 UTC."),
    ),
    "not before, after a start that failed before then": (
        held(
            "not_before",
            AGAIN,
            not_before=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
            failed_starts=1,
            start_again_at=datetime(2026, 1, 2, tzinfo=UTC),
        ),
        "It may not start before 2026-01-02 03:04 UTC.",
    ),
    "a dependency failed": (
        held("dependency_failed", {"job": "j-000001"}),
        "A job that it depends on has failed, so it will not start.",
    ),
    "a foreign gate": (
        held("foreign_gate", {"gate": "kueue.x-k8s.io/admission"}),
        "Somebody else keeps it back, with the gate kueue.x-k8s.io/admission.",
    ),
    "too little memory": (
        held("memory_too_small", {"need": 90000, "largest": 81920}),
        "It needs 90000 MiB on one GPU; the largest it accepts has 81920 MiB.",
    ),
    "never fits one level": (
        held("never_fits", {"largest": 8, "now": 8, "level": "node"}),
        (
            "Never fits as asked: one node here could hold 8 of its members at most."
            " Cancel it and ask for less."
        ),
    ),
    "never fits the cluster": (
        held("never_fits", {"largest": 12, "now": 8}),
        (
            "Never fits as asked: this cluster could hold 12 of its members at most."
            " Cancel it and ask for less."
        ),
    ),
    "over the ceiling": (
        held("over_ceiling", {"limit": 24, "asked": 32}),
        "It asks for 32 GPUs; its tenant may never hold more than 24.",
    ),
    "over the budget": (
        held("budget_exhausted", {"left": 5400, "asked": 36000}),
        "It may use up 10.0 GPU-hours; the budget has 1.5 left.",
    ),
    "room on its way": (
        held("making_room", {"until": "2026-01-02T12:00:00+00:00", "victims": ["j-000002"]}),
        "Room is on its way back and expected at 2026-01-02 12:00 UTC.",
    ),
    "the quota is used up": (
        held("quota_exhausted", {"at": "vision", "free": 0.5, "asked": 8}, tenant=VISION),
        "GPUs left in the quota of its tenant: 0.5; it asks for 8.",
    ),
    "the quota of all that share is used up": (
        held("quota_exhausted", {"at": "research", "free": 15, "asked": 32}, tenant=VISION),
        "GPUs left in the quota that the tenants of research share: 15; it asks for 32.",
    ),
    "a walltime is missing": (
        held("no_walltime", {"at_most": 12_300}),
        "With a walltime of at most 3 h 25 min it could go ahead now.",
    ),
    "an earlier job's place": (
        held("would_delay", {"job": "j-000001", "at": "2026-01-02T03:04:00+00:00"}),
        "It would delay an earlier job, which is promised its place at 2026-01-02 03:04 UTC.",
    ),
    "scattered room": (
        held("fragmented", {"free": 2, "largest": 1}),
        "There is room for 2 of its members, but in one place for 1.",
    ),
    "no room": (held("no_room", {"missing": 3}), "There is no room for 3 of its members."),
    "not looked at": (held(""), "It has not been looked at yet; the next cycle will."),
    "running": (Job(state=JobState.RUNNING, reason="no_room"), ""),
}


@pytest.mark.parametrize(("job", "text"), SAID.values(), ids=SAID)
def test_a_wait_is_one_sentence(job, text):
    assert reason_text(job) == text


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_can_be_said_without_a_number(reason):
    assert reason_text(held(reason)) == SENTENCES[reason][-1]


def test_the_fullest_sentences_come_first():
    def holes(sentence):
        return sum(name is not None for _, name, _, _ in Formatter().parse(str(sentence)))

    for sentences in SENTENCES.values():
        counts = [holes(sentence) for sentence in sentences]
        assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_sentence_is_in_the_readers_language_or_in_english(language):
    with translation.override(language):
        assert "3" in reason_text(held("no_room", {"missing": 3}))


def test_facts_are_the_numbers_and_name_no_job():
    job = held("no_room", {"missing": 3, "waits_for": "j-000001"})

    assert facts(job) == (Fact("missing", 3),)
    assert facts(Job(state=JobState.RUNNING, reason_numbers={"missing": 3})) == ()
