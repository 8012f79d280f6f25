"""A waiting job asks for something else and keeps its place."""

import pytest

from portal.core.errors import Conflict, NotAllowed, Refused
from scheduling.engine.explain import ChangeKind
from scheduling.models import Job
from scheduling.services.changing import JobChange, change_waiting_job
from scheduling.services.requests import Wishes
from tenants.models import Role
from tests.factories import FlavorFactory, StartEstimateFactory
from tests.scheduling.world import T0, person


def change(world, job, kind, value, *, by=None, seen=None):
    version = Job.objects.get(pk=job.pk).version if seen is None else seen
    change_waiting_job(job, JobChange(kind, value), by=by or world.researcher, seen=version)
    return Job.objects.get(pk=job.pk)


@pytest.fixture
def job(world):
    wishes = Wishes(required="rack", patience_seconds=60)
    return world.submit(
        members=2,
        walltime_seconds=7200,
        wishes=wishes,
        flavors=(world.flavor,),
        is_preemptible=False,
    )


def test_fewer_members_are_all_it_has_and_its_place_stays(world, job):
    changed = change(world, job, ChangeKind.MEMBERS, "1")

    group = changed.groups.get()
    assert (group.min_member, group.max_member, group.gpus_per_member) == (1, 1, 8)
    assert (changed.submitted_at, changed.version) == (job.submitted_at, job.version + 1)


def test_a_job_that_may_grow_still_may(world, job):
    job.groups.update(max_member=4)

    group = change(world, job, ChangeKind.MEMBERS, "1").groups.get()

    assert (group.min_member, group.max_member) == (1, 4)


def test_each_kind_of_change_is_made(world, job):
    other = FlavorFactory(cluster=world.cluster)

    change(world, job, ChangeKind.GPUS_PER_MEMBER, "4")
    change(world, job, ChangeKind.FLAVOR, other.name)
    change(world, job, ChangeKind.WALLTIME, "3600")
    change(world, job, ChangeKind.LEVEL, "block")
    changed = change(world, job, ChangeKind.PREEMPTIBLE, "1")

    accepted = changed.accepted.order_by("rank").values_list("flavor__name", flat=True)
    assert changed.groups.get().gpus_per_member == 4
    assert list(accepted) == [world.flavor.name, other.name]
    assert (changed.walltime_seconds, changed.required_level) == (3600, "block")
    assert (changed.is_preemptible, changed.patience_seconds) == (True, 60)


def test_without_a_level_there_is_nothing_to_be_patient_about(world, job):
    changed = change(world, job, ChangeKind.LEVEL, "")

    assert (changed.required_level, changed.patience_seconds) == ("", None)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ChangeKind.MEMBERS, "2"),
        (ChangeKind.MEMBERS, "0"),
        (ChangeKind.MEMBERS, "one"),
        (ChangeKind.GPUS_PER_MEMBER, "8"),
        (ChangeKind.WALLTIME, "7200"),
        (ChangeKind.WALLTIME, "59"),
        (ChangeKind.LEVEL, "node"),
        (ChangeKind.FLAVOR, "nobody-has-it"),
        (ChangeKind.PREEMPTIBLE, "0"),
    ],
)
def test_what_asks_for_no_less_or_cannot_be_is_refused(world, job, kind, value):
    with pytest.raises(Refused):
        change(world, job, kind, value)


def test_a_viewer_may_not_and_a_running_or_changed_job_is_not_changed(world, job):
    with pytest.raises(NotAllowed):
        change(world, job, ChangeKind.MEMBERS, "1", by=person(world.tenant, Role.VIEWER))
    with pytest.raises(Conflict):
        change(world, job, ChangeKind.MEMBERS, "1", seen=99)
    world.plan()
    with pytest.raises(Conflict):
        change(world, job, ChangeKind.MEMBERS, "1")


def test_what_was_told_of_the_old_request_does_not_count(world, job):
    StartEstimateFactory(job=job, first_at=T0)

    change(world, job, ChangeKind.MEMBERS, "1")

    assert not job.estimates.exists()


def test_a_job_without_a_limit_gets_none_that_could_not_be_submitted(world):
    job = world.submit()

    with pytest.raises(Refused):
        change(world, job, ChangeKind.WALLTIME, str(367 * 86_400))
    assert change(world, job, ChangeKind.WALLTIME, "3600").walltime_seconds == 3600
