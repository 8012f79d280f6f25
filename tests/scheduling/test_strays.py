"""Pods that bear our labels and are in no ledger: they hold what they hold all the same."""

from scheduling.services.observation import note_gone
from tests.scheduling.world import state_of
from topology.kube.values import Use
from topology.models import Node


def use(gpus=2):
    return Use(name="muster-t/x", gpus=gpus)


def strays():
    """GPUs that strays take, by node, where any do."""
    return {node.name: node.foreign_gpus for node in Node.objects.exclude(strays={})}


def placed(job):
    return job.members.get().placement.node.name


def test_a_pod_in_the_likeness_of_a_member_takes_no_place_of_it_and_counts_as_a_stray(world):
    job = world.running()

    world.say(job, "running", pod_uid="forged", by_hand=True, node=placed(job), use=use())

    assert (job.members.get().pod_uid, strays()) == (f"{job.public_id}-main-0-1", {placed(job): 2})
    assert state_of(job) == "running"


def test_a_pod_in_the_likeness_of_a_member_that_is_still_to_come_is_not_it(world):
    job = world.started()

    world.say(job, "running", by_hand=True, node=placed(job), use=use())

    assert (job.members.get().pod_uid, strays()) == ("", {placed(job): 2})


def test_a_member_in_the_ledger_is_no_stray_and_one_that_outlives_its_job_is(world):
    job = world.running()
    node = placed(job)
    world.say(job, "running", node=node, use=use())
    before = strays()
    note_gone(job.members.get())

    world.say(job, "running", node=node, use=use())
    during = strays()
    world.say(job, "gone", node=node)

    assert (before, during, strays()) == ({}, {node: 2}, {})
