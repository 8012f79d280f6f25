"""Arrays: one job so many times, so many of them at once, and cancelled in one go."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.core.errors import Conflict, NotAllowed, Refused
from portal.core.models import AuditEvent
from scheduling.models import Job, JobArray, JobDependency
from scheduling.reports.reasons import reason_text
from scheduling.services.arrays import cancel_array, submit_array
from scheduling.services.holding import hold_job
from scheduling.services.requests import After, ArrayRequest, GroupRequest, Wishes
from tenants.models import Role
from tests.factories import MembershipFactory, TenantFactory
from tests.scheduling.world import T0, after, person

TURN = "It waits for its turn: tasks of its array that run at once: 2."


def submit(world, tasks=4, at_once=None, by=None, **what):
    asked = {"groups": (GroupRequest(gpus_per_member=4),), "name": "sweep", **what}
    request = ArrayRequest(job=world.request(**asked), tasks=tasks, at_once=at_once)
    return submit_array(request, tenant=world.tenant, by=by or world.researcher, at=T0)


def tasks_of(array):
    return list(array.tasks.order_by("array_index"))


def states_of(array):
    return [job.state for job in tasks_of(array)]


def end(world, job):
    world.say(job, "succeeded")
    world.end(job, "complete")


def test_each_task_is_a_job_that_knows_its_number(world):
    array = submit(world, tasks=3, environment={"LR": "0.1"})

    jobs = tasks_of(array)
    assert (array.name, array.size, array.at_once) == ("sweep", 3, None)
    assert [job.name for job in jobs] == ["sweep[0]", "sweep[1]", "sweep[2]"]
    assert len({job.public_id for job in jobs}) == 3
    assert [job.environment for job in jobs] == [
        {"LR": "0.1", "MUSTER_ARRAY_INDEX": str(index), "MUSTER_ARRAY_SIZE": "3"}
        for index in range(3)
    ]
    assert [job.groups.get().gpus_per_member for job in jobs] == [4, 4, 4]
    assert [job.events.get().reason for job in jobs] == ["submitted"] * 3
    line = AuditEvent.objects.get()
    assert (line.action, line.object_id) == ("submit_array", array.public_id)


def test_a_thousand_tasks_take_no_more_queries_than_two(world, django_assert_num_queries):
    with django_assert_num_queries(_queries(world, 2)):
        array = submit(world, tasks=1000)

    assert array.tasks.count() == 1000


def _queries(world, tasks):
    with CaptureQueriesContext(connection) as seen:
        submit(world, tasks=tasks)
    return len(seen)


def test_all_tasks_start_where_there_is_room(world):
    array = submit(world, tasks=6)

    world.plan()

    assert states_of(array) == ["starting"] * 4 + ["queued"] * 2


def test_no_more_run_than_the_array_lets(world):
    array = submit(world, tasks=5, at_once=2)

    world.plan()
    first = states_of(array)
    waits = [reason_text(job) for job in tasks_of(array)[2:]]
    end(world, tasks_of(array)[1])
    world.plan(after(30))

    assert first == ["starting", "starting", "queued", "queued", "queued"]
    assert waits == [TURN] * 3
    assert states_of(array) == ["starting", "succeeded", "starting", "queued", "queued"]


def test_a_task_on_hold_lets_the_next_one_go(world):
    array = submit(world, tasks=3, at_once=1)
    hold_job(tasks_of(array)[0], by=world.researcher)

    world.plan()

    assert states_of(array) == ["queued", "starting", "queued"]


def test_a_task_that_stops_still_counts(world):
    array = submit(world, tasks=2, at_once=1)
    world.plan()

    stopped = tasks_of(array)[0]
    world.say(stopped, "running")
    Job.objects.filter(pk=stopped.pk).update(state="stopping", stopping_to="queued")
    world.plan(after(30))

    assert states_of(array) == ["stopping", "queued"]


def test_the_job_that_an_array_waits_for_is_named_before_its_turns(world):
    first = world.submit(gpus=8)
    array = submit(world, tasks=2, at_once=1, wishes=Wishes(after=(After(job=first),)))

    world.plan()

    assert JobDependency.objects.count() == 2
    assert {reason_text(job) for job in tasks_of(array)} == {
        "It waits for a job that it depends on."
    }


def test_an_array_asked_for_twice_is_one(world):
    arrays = [submit(world, external_id="x-1") for _ in range(2)]

    assert arrays[0] == arrays[1]
    assert Job.objects.count() == 4


def test_anothers_external_id_is_taken(world):
    submit(world, external_id="x-1")
    world.tenant = TenantFactory()
    world.researcher = MembershipFactory(tenant=world.tenant, role=Role.RESEARCHER).user

    with pytest.raises(Conflict):
        submit(world, external_id="x-1")


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("tasks", {"tasks": 0}),
        ("tasks", {"tasks": 1001}),
        ("at_once", {"at_once": 0}),
        ("at_once", {"at_once": 5}),
        ("name", {"name": "x" * 78}),
        ("environment", {"environment": {"MUSTER_ARRAY_INDEX": "1"}}),
        ("gpus_per_member", {"groups": (GroupRequest(gpus_per_member=9),)}),
    ],
)
def test_what_cannot_be_is_refused_whole(world, field, asked):
    with pytest.raises(Refused) as refusal:
        submit(world, **asked)

    assert refusal.value.field == field
    assert not JobArray.objects.exists()
    assert not Job.objects.exists()


def test_the_longest_name_leaves_room_for_the_number(world):
    array = submit(world, tasks=11, name="x" * 76)

    assert tasks_of(array)[-1].name == "x" * 76 + "[10]"


def test_a_viewer_submits_and_cancels_none(world):
    viewer = person(world.tenant, Role.VIEWER)
    array = submit(world)

    with pytest.raises(NotAllowed):
        submit(world, by=viewer)
    with pytest.raises(NotAllowed):
        cancel_array(array, by=viewer, at=T0)

    assert states_of(array) == ["queued"] * 4


def test_what_is_left_of_an_array_is_cancelled_in_one_go(world):
    array = submit(world, tasks=6)
    world.plan()
    end(world, tasks_of(array)[0])

    count = cancel_array(array, by=world.researcher, at=after(30))

    assert count == 5
    assert states_of(array) == ["succeeded"] + ["stopping"] * 3 + ["cancelled"] * 2
    last = tasks_of(array)[-1].events.last()
    assert (last.to_state, last.actor) == ("cancelled", world.researcher)


def test_many_tasks_that_run_are_cancelled_in_no_more_queries_than_two(
    world, django_assert_num_queries
):
    one_gpu = (GroupRequest(gpus_per_member=1),)
    few, many = (submit(world, tasks=tasks, groups=one_gpu) for tasks in (2, 12))
    world.plan()
    Job.objects.filter(array_index=0).update(state="stopping", stopping_to="queued")

    with CaptureQueriesContext(connection) as seen:
        cancel_array(few, by=world.researcher, at=after(30))
    with django_assert_num_queries(len(seen)):
        cancel_array(many, by=world.researcher, at=after(30))

    assert set(Job.objects.values_list("state", "stopping_to")) == {("stopping", "cancelled")}


def test_an_array_that_has_ended_is_not_cancelled(world):
    array = submit(world)
    cancel_array(array, by=world.researcher, at=after(30))

    with pytest.raises(Conflict):
        cancel_array(array, by=world.researcher, at=after(40))
