"""Why a job failed, in plain words."""

import pytest

from scheduling.reports.failures import failure_of
from scheduling.states import JobState
from tests.factories import JobEventFactory, JobFactory, MemberFactory, PlacementFactory
from tests.scene import NOON

pytestmark = pytest.mark.django_db


def failure(*members, state=JobState.FAILED, reason="", **changes):
    """Of a job with these members, each (exit code, seconds after noon of its end, message)."""
    job = JobFactory(state=state, attempt=1, members=max(1, len(members)), **changes)
    placement = PlacementFactory(job=job)
    made = [
        MemberFactory(
            placement=placement,
            rank=rank,
            phase="failed",
            exit_code=code,
            ended_at=None if after is None else NOON.replace(second=after),
            message=message,
        )
        for rank, (code, after, message) in enumerate(members)
    ]
    event = JobEventFactory(job=job, to_state=state, reason=reason, at=NOON)
    return failure_of(job, made, (event,))


def test_a_job_that_did_not_fail_has_no_failure():
    assert failure(state=JobState.SUCCEEDED) is None


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (1, "Its program ended with an error."),
        (127, "Its program was not found in the image."),
        (137, "Its program was killed (SIGKILL), most often for want of memory."),
        (140, "Its program was ended by a signal."),
        (77, "Its program ended with an exit code of its own."),
        (250, "Its program ended with an exit code of its own."),
    ],
)
def test_an_exit_code_is_said_in_words(code, what):
    found = failure((code, 1, ""))

    assert (found.what, found.is_ours, found.member_name) == (what, False, "main-0")
    assert found.remedies


def test_a_word_of_the_cluster_goes_before_the_exit_code():
    found = failure((137, 1, "OOMKilled: memory cgroup out of memory"))

    assert found.what == "It used more memory than it may, and was killed."


def test_a_node_that_could_not_give_its_gpus_is_no_fault_of_the_job():
    found = failure((1, 1, "UnexpectedAdmissionError: Allocate failed"))

    assert (found.is_ours, found.remedies) == (
        True,
        ("Submit it again; nothing needs to be changed.",),
    )


def test_who_failed_first_is_named_and_one_of_no_known_end_comes_last():
    found = failure((143, None, ""), (143, 9, ""), (139, 4, ""))

    assert (found.member_name, found.what) == (
        "main-2",
        "Its program crashed in compiled code (segmentation fault).",
    )


def test_a_job_whose_parent_failed_is_told_to_mend_that():
    found = failure(reason="a job that it waited for failed")

    assert found.remedies == ("Mend that job, then submit both again.",)


def test_a_job_that_lost_its_members_is_no_fault_of_its_own():
    assert failure(reason="lost members 5 times in a row").is_ours


def test_a_failure_without_a_member_says_what_the_cluster_said():
    assert failure(reason="BackoffLimitExceeded").what == "It failed: BackoffLimitExceeded"


@pytest.mark.parametrize(("checkpoint_at", "remedies"), [(None, 2), (NOON, 1)])
def test_a_job_out_of_time_is_told_to_save_its_work_unless_it_does(checkpoint_at, remedies):
    found = failure(state=JobState.TIMED_OUT, checkpoint_at=checkpoint_at)

    assert len(found.remedies) == remedies
