"""The cycle with real concurrency: threads have connections of their own, and commit."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections, transaction

from portal.core.errors import Conflict
from portal.core.locks import LockSpace, advisory_lock
from scheduling import cycle
from scheduling.models import Job
from scheduling.services.lifecycle import cancel_job
from scheduling.services.plans import apply_plan
from scheduling.tasks import run_cycle, run_cycles
from tests.factories import ClusterFactory
from tests.scheduling.world import T0, World, held_gpus, state_of
from topology.models import Cluster
from topology.services.cycle_request import ask_for_cycle

SOON = 20  # seconds; a deadline, never waited for when all is well


def clock(_cluster):
    return T0


def asked(cluster):
    cluster.refresh_from_db()
    return cluster.cycle_asked, cluster.cycle_answered


@pytest.fixture
def elsewhere():
    """Calls made in a thread with a database connection of its own."""
    with ThreadPoolExecutor(4) as pool:

        def call(function, *args, **kwargs):
            def work():
                try:
                    return function(*args, **kwargs)
                finally:
                    connections.close_all()

            return pool.submit(work)

        yield call


def test_a_cycle_answers_who_asked(world):
    job = world.submit()

    cycles = cycle.run_while_asked(world.cluster.pk, clock=clock)

    assert (cycles, state_of(job), asked(world.cluster)) == (1, "starting", (1, 1))


def test_nobody_asked_so_nothing_is_planned(world):
    assert cycle.run_while_asked(world.cluster.pk, clock=clock) == 0


def test_many_who_asked_are_served_by_one_cycle(world):
    jobs = [world.submit(gpus=1) for _ in range(5)]

    cycles = cycle.run_while_asked(world.cluster.pk, clock=clock)

    assert (cycles, asked(world.cluster)) == (1, (5, 5))
    assert {state_of(job) for job in jobs} == {"starting"}


def test_the_task_plans_and_the_beat_asks_for_every_cluster(
    world, sent, django_capture_on_commit_callbacks
):
    job = world.submit()
    other = ClusterFactory()
    run_cycle(cluster_id=world.cluster.pk)

    with django_capture_on_commit_callbacks(execute=True):
        run_cycles()

    assert state_of(job) == "starting"
    assert sorted(sent, key=lambda task: task[1]["cluster_id"]) == [
        ("scheduling.run_cycle", {"cluster_id": pk}) for pk in sorted([world.cluster.pk, other.pk])
    ]


def test_an_unsound_plan_is_not_carried_out_and_stays_asked_for(world, monkeypatch):
    job = world.submit()
    # The doubter is made to doubt: a sound engine gives no other way to see this.
    monkeypatch.setattr(cycle, "violations", lambda *_: ["a rule is broken"])

    with pytest.raises(AssertionError, match="a rule is broken"):
        cycle.run_while_asked(world.cluster.pk, clock=clock)

    assert (state_of(job), asked(world.cluster)) == ("queued", (1, 0))


@pytest.mark.django_db(transaction=True)
def test_a_change_that_comes_while_a_cycle_runs_leads_to_one_more(elsewhere, monkeypatch):
    world = World.of()
    first = world.submit()
    late = []

    def while_it_acts(*args, **kwargs):
        """The second job is submitted, and its task run, after the first cycle's snapshot."""
        if not late:
            late.append(elsewhere(world.submit).result(SOON))
            turned_away = elsewhere(cycle.run_while_asked, world.cluster.pk, clock=clock)
            late.append(turned_away.result(SOON))
        return apply_plan(*args, **kwargs)

    monkeypatch.setattr(cycle, "apply_plan", while_it_acts)

    cycles = cycle.run_while_asked(world.cluster.pk, clock=clock)

    second, turned_away = late
    assert (cycles, turned_away) == (2, 0)
    assert (state_of(first), state_of(second)) == ("starting", "starting")
    assert asked(world.cluster) == (2, 2)


@pytest.mark.django_db(transaction=True)
def test_who_asks_before_the_lock_is_let_go_is_not_forgotten(elsewhere, monkeypatch):
    """Turned away between the holder's last look and its letting go: the holder looks again."""
    world = World.of()
    world.submit()
    seen, late = cycle._is_asked, []  # noqa: SLF001 - the very instant is the point

    def last_look(cluster_id):
        found = seen(cluster_id)
        if found is None and not late:
            late.append(elsewhere(world.submit).result(SOON))
            elsewhere(cycle.run_while_asked, world.cluster.pk, clock=clock).result(SOON)
        return found

    monkeypatch.setattr(cycle, "_is_asked", last_look)

    cycles = cycle.run_while_asked(world.cluster.pk, clock=clock)

    assert (cycles, state_of(late[0]), asked(world.cluster)) == (2, "starting", (2, 2))


@pytest.mark.django_db(transaction=True)
def test_only_one_worker_plans_a_cluster(elsewhere):
    world = World.of()
    job = world.submit()

    with advisory_lock(LockSpace.CYCLE, world.cluster.pk):
        cycles = elsewhere(cycle.run_while_asked, world.cluster.pk, clock=clock).result(SOON)

    assert (cycles, state_of(job), asked(world.cluster)) == (0, "queued", (1, 0))


@pytest.mark.django_db(transaction=True)
def test_who_asks_in_a_transaction_is_heard_when_it_commits(elsewhere):
    world = World.of()
    with transaction.atomic():
        ask_for_cycle(world.cluster.pk)
        before = elsewhere(cycle.run_while_asked, world.cluster.pk, clock=clock).result(SOON)

    after_it = cycle.run_while_asked(world.cluster.pk, clock=clock)

    assert (before, after_it) == (0, 1)


@pytest.mark.django_db(transaction=True)
def test_jobs_submitted_at_once_by_many_are_all_planned_and_no_device_twice(elsewhere):
    world = World.of(nodes=2, gpus=4)
    together = threading.Barrier(4)

    def submit_and_plan():
        together.wait(SOON)
        for _ in range(3):
            world.submit(gpus=1)
            cycle.run_while_asked(world.cluster.pk, clock=clock)

    for done in [elsewhere(submit_and_plan) for _ in range(4)]:
        done.result(SOON)

    states = sorted(Job.objects.values_list("state", flat=True))
    held = held_gpus()
    assert states == ["queued"] * 4 + ["starting"] * 8
    assert len(held) == len(set(held)) == 8
    assert Cluster.objects.filter(cycle_asked=12, cycle_answered=12).exists()


@pytest.mark.django_db(transaction=True)
def test_a_job_submitted_by_two_at_once_is_one_job(elsewhere):
    world = World.of()
    together = threading.Barrier(4)

    def submit():
        together.wait(SOON)
        return world.submit(external_id="x-1").pk

    jobs = {done.result(SOON) for done in [elsewhere(submit) for _ in range(4)]}

    assert len(jobs) == Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_job_is_either_started_or_cancelled_never_both(elsewhere):
    world = World.of(nodes=1)
    jobs = [world.submit(gpus=1) for _ in range(6)]
    together = threading.Barrier(2)

    def cancel_all():
        together.wait(SOON)
        lost = 0
        for job in jobs:
            try:
                cancel_job(job, by=world.researcher, at=T0)
            except Conflict:
                lost += 1
        return lost

    def plan():
        together.wait(SOON)
        cycle.run_while_asked(world.cluster.pk, clock=clock)

    cancelling, planning = elsewhere(cancel_all), elsewhere(plan)
    lost = cancelling.result(SOON)
    planning.result(SOON)

    states = [state_of(job) for job in jobs]
    assert states.count("starting") == lost == len(held_gpus())
    assert states.count("cancelled") == 6 - lost


@pytest.mark.django_db(transaction=True)
def test_a_snapshot_is_taken_of_one_instant_and_without_writing():
    world = World.of()
    levels = []

    def note_level(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if "topology_node" in sql and "SELECT" in sql:
            with connection.connection.cursor() as cursor:
                cursor.execute("SHOW transaction_isolation")
                levels.append(cursor.fetchone()[0])
        return result

    world.submit()
    with connection.execute_wrapper(note_level):
        cycle.run(world.cluster.pk, at=T0)

    assert levels[0] == "repeatable read"
