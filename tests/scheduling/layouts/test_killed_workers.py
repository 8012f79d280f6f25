"""A worker is killed at each step, there and back: the node ends verified, or as it was."""

import os
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from django.db import connection

from scheduling.services.layouts.rollouts import revert_rollout
from tests.scheduling.layouts.wishes import (
    HALVES,
    drive,
    in_cluster,
    operator,
    rollout,
    steps,
    version,
)
from tests.scheduling.stage import a_stage
from topology.models import NodeChange
from topology.states import Step

pytestmark = pytest.mark.django_db(transaction=True)

NODE = "a100-40gb-01"
CUT = {NODE: ({"nvidia.com/mig-3g.20gb": 4}, "success", False)}
WHOLE = {NODE: ({"nvidia.com/gpu": 2}, "success", False)}
# After which call of the cluster, counted in each step.
POINTS = [
    (Step.CORDON, 1),
    (Step.CORDON, 2),
    (Step.DRAIN, 1),
    (Step.WRITE, 1),
    (Step.WRITE, 2),
    (Step.LABEL, 1),
    (Step.LABEL, 2),
    (Step.MIG, 1),
    (Step.PLUGIN, 1),
    (Step.VERIFY, 1),
    (Step.UNCORDON, 1),
]


@contextmanager
def mortals(server):
    """A function that lets a worker do a change, and die at a point; whether it came so far.

    server: the address of the database server.
    """
    url = urlsplit(server)._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.scheduling.layouts.mortal"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings.dev", "DATABASE_URL": url},
    )

    def dies(change, step, call):
        program.stdin.write(f"{change.pk} {step} {call}\n")
        program.stdin.flush()
        status = program.stdout.readline().strip()
        assert status in {"-9", "0"}
        return status == "-9"

    try:
        yield dies
    finally:
        program.stdin.close()
        program.wait(timeout=60)
        program.stdout.close()


@pytest.fixture
def stage(tmp_path, sent):
    with a_stage("1xA100-40GB:2", folder=tmp_path, sent=sent) as stage:
        yield stage


def kill_at(stage, dies, changed, point):
    """Let workers do the change of the only node, until one is killed at the point."""
    stage.advance_rollout(changed.pk)
    stage.sent.clear()
    change = NodeChange.objects.get(rollout=changed)
    for _ in range(30):
        if dies(change, *point):
            return
        stage.sim.step(10)
    raise AssertionError(f"no worker came to {point}: {steps(changed)}")


def test_workers_are_killed_at_every_step_and_the_node_ends_verified_and_then_as_it_was(
    stage, database_url
):
    changed = rollout(stage, version(stage, HALVES))
    with mortals(database_url) as dies:
        for point in POINTS:
            kill_at(stage, dies, changed, point)
        there = drive(stage, changed, until={"done", "paused"}), in_cluster(stage)

        changed.refresh_from_db()
        revert_rollout(changed, by=operator(), at=stage.now)
        for point in POINTS:
            kill_at(stage, dies, changed, point)
        back = drive(stage, changed, until={"reverted", "failed"}), in_cluster(stage)

    assert (there, back) == (("done", CUT), ("reverted", WHOLE))
