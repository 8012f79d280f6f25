"""A rollout through all layers, on a simulated cluster whose clock the test steps."""

import json

import pytest
import yaml

from scheduling.models import Job, PlacementGpu
from scheduling.services.layouts.rollouts import revert_rollout
from tests.scheduling.layouts.wishes import (
    HALVES,
    drive,
    in_cluster,
    job,
    operator,
    rollout,
    steps,
    version,
)
from tests.scheduling.stage import a_stage
from topology.models import MigInstance, Node, RolloutEvent

pytestmark = pytest.mark.django_db(transaction=True)

NODE = "a100-40gb-01"
CUT = ({"nvidia.com/mig-3g.20gb": 4}, "success", False)


@pytest.fixture
def stage(tmp_path, sent):
    with a_stage("1xA100-40GB:2", folder=tmp_path, sent=sent) as stage:
        yield stage


def test_a_node_is_cut_step_by_step_and_verified(stage):
    changed = rollout(stage, version(stage, HALVES))

    state = drive(stage, changed, until={"done", "paused"})

    assert (state, steps(changed), in_cluster(stage)) == (
        "done",
        {NODE: "verified"},
        {NODE: CUT},
    )
    lines = RolloutEvent.objects.filter(rollout=changed).order_by("pk")
    assert list(lines.values_list("was", "became")) == [
        ("", "running"),
        ("waiting", "cordon"),
        ("cordon", "drain"),
        ("drain", "write"),
        ("write", "label"),
        ("label", "mig"),
        ("mig", "plugin"),
        ("plugin", "verify"),
        ("verify", "uncordon"),
        ("uncordon", "verified"),
        ("running", "done"),
    ]


def test_a_cut_gpu_takes_no_job_that_asks_for_a_whole_one(stage):
    drive(stage, rollout(stage, version(stage, HALVES, gpus=1, more=(None,))), until={"done"})
    first, second = job(stage, run_seconds=900), job(stage)

    stage.run(30)

    found = MigInstance.objects.order_by("start").values_list("gpu__index", "profile", "start")
    assert list(found) == [(0, "3g.20gb", 0), (0, "3g.20gb", 4)]
    jobs = Job.objects.filter(pk__in=[first.pk, second.pk]).order_by("pk")
    assert [own.state for own in jobs] == ["running", "queued"]
    held = PlacementGpu.objects.active().values_list("gpu__index", flat=True)
    assert list(held) == [1]


def test_a_running_job_saves_and_waits_again_and_comes_back_with_the_revert(stage):
    running = job(stage, run_seconds=5000, checkpoint_seconds=100)
    stage.run(350)
    changed = rollout(stage, version(stage, HALVES))
    drive(stage, changed, until={"done"})
    stopped = Job.objects.get(pk=running.pk)

    changed.refresh_from_db()
    revert_rollout(changed, by=operator(), at=stage.now)
    state = drive(stage, changed, until={"reverted", "failed"})
    stage.run(60)

    assert (stopped.state, stopped.attempt, stopped.checkpoint_at is None) == ("queued", 1, False)
    assert (state, steps(changed)) == ("reverted", {NODE: "reverted"})
    assert in_cluster(stage) == {NODE: ({"nvidia.com/gpu": 2}, "success", False)}
    again = Job.objects.get(pk=running.pk)
    assert (again.state, again.attempt, again.saved_seconds >= 300) == ("running", 2, True)


def test_nothing_starts_on_a_node_from_the_first_step_on(stage):
    changed = rollout(stage, version(stage, HALVES))
    stage.sent.clear()
    waiting = job(stage)
    stage.advance_rollout(changed.pk)
    busy = Node.objects.get().is_changing

    drive(stage, changed, until={"done"})

    assert busy
    assert not Node.objects.get().is_changing
    assert Job.objects.get(pk=waiting.pk).attempt == 0


CONFIG_MAPS = "/api/v1/namespaces/gpu-operator/configmaps"
MIG_MAP = f"{CONFIG_MAPS}/muster-mig-parted-config"


def mig_file(stage):
    return stage.sim.call("GET", MIG_MAP)["data"]["config.yaml"]


def put_mig_file(stage, text):
    there = stage.sim.call("GET", MIG_MAP)
    stage.sim.call("PUT", MIG_MAP, {**there, "data": {"config.yaml": text}})


def change_by_hand(stage, **changes):
    """As somebody does on the machine itself, who has its device plugin started anew then."""
    path = f"/api/v1/nodes/{NODE}"
    node = stage.sim.call("GET", path)
    gpus = json.loads(node["metadata"]["annotations"]["muster.dev/gpus"])
    node["metadata"]["annotations"]["muster.dev/gpus"] = json.dumps([g | changes for g in gpus])
    named = node["metadata"]["labels"]["nvidia.com/device-plugin.config"]
    for name in ("other", named):
        node["metadata"]["labels"]["nvidia.com/device-plugin.config"] = name
        node = stage.sim.call("PUT", path, node)
    stage.run(60)


def test_a_node_that_drifted_goes_back_to_what_it_was_and_its_version_stays_for_others(stage):
    drive(stage, rollout(stage, version(stage, HALVES)), until={"done"})
    change_by_hand(stage, slices=["7g.40gb@0"])
    drifted, file = in_cluster(stage), mig_file(stage)
    changed = rollout(stage, version(stage, {"1g.5gb": 7}))
    drive(stage, changed, until={"done"})

    changed.refresh_from_db()
    revert_rollout(changed, by=operator(), at=stage.now)
    state = drive(stage, changed, until={"reverted", "failed"})

    assert (state, in_cluster(stage)) == ("reverted", drifted)
    assert drifted[NODE][0] == {"nvidia.com/mig-7g.40gb": 2}
    name = "muster-layout-1-v1"
    after, before = (yaml.safe_load(text)["mig-configs"] for text in (mig_file(stage), file))
    assert after[name] == before[name]


def test_a_node_that_drifted_is_brought_back_by_its_version(stage):
    of = version(stage, HALVES)
    drive(stage, rollout(stage, of), until={"done"})
    change_by_hand(stage, slices=["7g.40gb@0"])

    state = drive(stage, rollout(stage, of), until={"done", "paused"})

    assert (state, in_cluster(stage)) == ("done", {NODE: CUT})


def test_a_file_that_cannot_be_read_stops_the_node_and_it_goes_back(stage):
    drive(stage, rollout(stage, version(stage, HALVES)), until={"done"})
    before = in_cluster(stage)
    put_mig_file(stage, mig_file(stage) + "more: &a [*a]\n")
    changed = rollout(stage, version(stage, {"1g.5gb": 7}))

    stopped = drive(stage, changed, until={"done", "paused"}, seconds=120)
    failed = changed.changes.get()
    changed.refresh_from_db()
    revert_rollout(changed, by=operator(), at=stage.now)
    state = drive(stage, changed, until={"reverted", "failed"}, seconds=300)

    assert (stopped, failed.mishap) == ("paused", "refused")
    assert "aliases are not read" in failed.numbers["said"]
    assert (state, in_cluster(stage)) == ("reverted", before)
