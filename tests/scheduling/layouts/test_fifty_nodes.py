"""Fifty nodes in waves of five, with jobs that run, nodes that fail, and the way back."""

import pytest

from scheduling.models import Job, JobEvent
from scheduling.services.layouts.rollouts import revert_rollout
from scheduling.states import JobState
from tests.scheduling.layouts.wishes import (
    HALVES,
    drive,
    in_cluster,
    job,
    operator,
    preview,
    rollout,
    steps,
    version,
)
from tests.scheduling.stage import a_stage
from topology.models import NodeChange

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = {"nvidia.com/gpu": 1}
CUT = {"nvidia.com/mig-3g.20gb": 2}
SLOW = {"step": 60, "seconds": 7200}


@pytest.fixture
def stage(tmp_path, sent):
    with a_stage("50xA100-40GB:1", folder=tmp_path, sent=sent) as stage:
        yield stage


def stopped(jobs):
    events = JobEvent.objects.filter(job__in=jobs, to_state=JobState.STOPPING)
    return set(events.values_list("job_id", flat=True))


def test_every_node_is_verified_and_no_job_is_lost_that_was_not_in_the_preview(stage):
    running = [job(stage, run_seconds=100_000, checkpoint_seconds=60) for _ in range(8)]
    stage.run(20)
    of = version(stage, HALVES, gpus=1)
    foreseen = preview(stage, of, wave=5, max_unavailable=5)

    changed = rollout(stage, of, wave=5, max_unavailable=5)
    state = drive(stage, changed, until={"done", "paused"}, **SLOW)

    assert (state, set(steps(changed).values()), len(steps(changed))) == ("done", {"verified"}, 50)
    assert list(in_cluster(stage).values()) == [(CUT, "success", False)] * 50
    assert [len(wave) for wave in foreseen.waves] == [5] * 10
    assert {own.pk for own in foreseen.jobs} == {own.pk for own in running}
    assert stopped(running) <= {own.pk for own in foreseen.jobs}
    live = Job.objects.filter(pk__in=[own.pk for own in running])
    assert {own.state for own in live} == {JobState.QUEUED}


def test_three_nodes_that_fail_stop_it_are_named_and_all_goes_back(stage):
    failing = {"a100-40gb-02": "failed", "a100-40gb-03": "stuck", "a100-40gb-05": "fallback"}
    for node, how in failing.items():
        stage.sim.fault("gpu-layout", node=node, how=how)
    changed = rollout(
        stage, version(stage, HALVES, gpus=1), wave=5, max_unavailable=5, node_limit_seconds=600
    )

    state = drive(stage, changed, until={"done", "paused"}, **SLOW)
    drive(stage, changed, until={"done"}, step=100, seconds=1500)
    failed = NodeChange.objects.filter(rollout=changed, step="failed")
    mishaps = dict(failed.values_list("node__name", "mishap"))
    changed.refresh_from_db()
    revert_rollout(changed, by=operator(), at=stage.now)
    end = drive(stage, changed, until={"reverted", "failed"}, **SLOW)

    assert state == "paused"
    assert mishaps == {
        "a100-40gb-02": "mig_failed",
        "a100-40gb-03": "too_late",
        "a100-40gb-05": "wrong_counts",
    }
    assert (end, set(steps(changed).values())) == ("reverted", {"reverted"})
    assert {(tuple(offers), cordoned) for offers, _, cordoned in in_cluster(stage).values()} == {
        (tuple(WHOLE), False)
    }
