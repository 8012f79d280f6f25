from datetime import UTC, datetime

import pytest

from portal.core.errors import Conflict, GangTooLarge, NotAllowed, Refused
from portal.core.models import AuditEvent
from scheduling.models import Job
from scheduling.services.requests import GroupRequest, Wishes
from scheduling.services.submission import spell, submit_job
from tenants.models import Role, Tenant
from tests.factories import FlavorFactory, MembershipFactory, PriorityClassFactory
from tests.scheduling.world import T0, after, operator, person
from topology.models import Cluster, Node


def groups(**what):
    return {"groups": (GroupRequest(**what),)}


def test_a_job_is_queued_with_its_groups_and_lines(world):
    urgent = PriorityClassFactory(value=100)
    wanted = (
        GroupRequest(name="chief", members=1, gpus_per_member=0, cpu_milli=500),
        GroupRequest(name="workers", members=3, min_member=2, max_member=4, gpus_per_member=8),
    )

    job = world.submit(
        groups=wanted,
        flavors=(world.flavor,),
        walltime_seconds=60,
        priority_class=urgent,
        image="busybox",
        command=("sleep", "1"),
        environment={"A": "b"},
        annotations={"example.org/a": "b"},
        external_id="x-1",
        at=after(3),
    )

    job.refresh_from_db()
    line, audit = job.events.get(), AuditEvent.objects.get()
    fields = ("name", "min_member", "max_member", "gpus_per_member", "cpu_milli")
    assert list(job.groups.order_by("index").values_list(*fields)) == [
        ("chief", 1, 1, 0, 500),
        ("workers", 2, 4, 8, 0),
    ]
    assert (job.state, job.priority, job.submitted_at) == ("queued", 100, after(3))
    assert (job.command, job.environment) == (["sleep", "1"], {"A": "b"})
    assert [row.flavor for row in job.accepted.all()] == [world.flavor]
    assert (line.from_state, line.to_state, line.actor) == ("", "queued", world.researcher)
    assert (audit.action, audit.object_id, audit.after) == (
        "submit_job",
        job.public_id,
        {"name": "train", "gpus": 16},
    )


def test_a_job_without_a_priority_gets_the_default_one(world):
    before = world.submit()
    PriorityClassFactory(value=50, is_default=True)

    after_it = world.submit()

    assert (before.priority, after_it.priority) == (0, 50)


def test_a_cycle_is_asked_for_in_the_same_transaction(
    world, sent, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks() as callbacks:
        world.submit()

    asked = Cluster.objects.get(pk=world.cluster.pk).cycle_asked
    before = list(sent)
    for callback in callbacks:
        callback()
    assert (asked, before) == (1, [])
    assert sent == [("scheduling.run_cycle", {"cluster_id": world.cluster.pk})]


REFUSALS = {
    "no name": ("name", {"name": " "}),
    "a long name": ("name", {"name": "x" * 81}),
    "a name of two lines": ("name", {"name": "a\nb"}),
    "a long external id": ("external_id", {"external_id": "x" * 81}),
    "an unprintable external id": ("external_id", {"external_id": "a\0"}),
    "no groups": ("groups", {"groups": ()}),
    "too many groups": (
        "groups",
        {"groups": tuple(GroupRequest(name=f"g{n}") for n in range(21))},
    ),
    "two groups of one name": ("groups", {"groups": (GroupRequest(), GroupRequest())}),
    "a group named in capitals": ("groups", groups(name="Main")),
    "no members": ("members", groups(members=0)),
    "a minimum above the members": ("members", groups(members=1, min_member=2)),
    "a maximum below the members": ("members", groups(members=2, max_member=1)),
    "too many members": ("members", groups(members=10_001)),
    "too many members of all groups": (
        "members",
        {"groups": (GroupRequest(members=6_000), GroupRequest(name="b", members=6_000))},
    ),
    "fewer GPUs than none": ("gpus_per_member", groups(gpus_per_member=-1)),
    "less CPU than none": ("cpu_milli", groups(cpu_milli=-1)),
    "more CPU than can be counted": ("cpu_milli", groups(cpu_milli=2**62)),
    "more memory than can be counted": ("memory_mib", groups(memory_mib=2**62)),
    "no time": ("walltime_seconds", {"walltime_seconds": 0}),
    "more than a year": ("walltime_seconds", {"walltime_seconds": 367 * 86_400}),
    "an earliest start that never comes": (
        "not_before",
        {"wishes": Wishes(not_before=datetime.max.replace(tzinfo=UTC))},
    ),
    "a variable with a space": ("environment", {"environment": {"A B": ""}}),
    "an annotation with a space": ("annotations", {"annotations": {"a b": ""}}),
    "devices by the environment": (
        "environment",
        {"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}},
    ),
    "devices by an annotation": ("annotations", {"annotations": {"cdi.k8s.io/a": "all"}}),
    "a GPU by HAMi's annotation": (
        "annotations",
        {"annotations": {"nvidia.com/use-gpuuuid": "GPU-1"}},
    ),
    "more of a GPU by HAMi's annotation": ("annotations", {"annotations": {"hami.io/a": "b"}}),
    "more of a GPU by the environment": (
        "environment",
        {"environment": {"CUDA_DEVICE_MEMORY_LIMIT_0": "80000m"}},
    ),
    "an annotation of ours": ("annotations", {"annotations": {"muster.dev/attempt": "9"}}),
    "a long image": ("image", {"image": "x" * 301}),
    "a command with NUL": ("command", {"command": ("a\0",)}),
    "a command with half a character": ("command", {"command": ("\ud800",)}),
    "too much text": ("command", {"environment": {"A": "x" * 70_000}}),
}


@pytest.mark.parametrize(("field", "what"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_could_never_run_is_refused_with_its_field(world, field, what):
    with pytest.raises(Refused) as caught:
        world.submit(**what)

    assert caught.value.field == field
    assert not Job.objects.exists()


def test_a_member_larger_than_any_node_is_refused_with_the_limit(world):
    with pytest.raises(GangTooLarge) as caught:
        world.submit(gpus=9)

    assert caught.value.field == "gpus_per_member"
    assert caught.value.numbers == {"limit": 8, "asked": 9}


def test_a_priority_above_the_tenants_is_refused(world):
    world.tenant.highest_priority = PriorityClassFactory(value=10)

    with pytest.raises(Refused) as caught:
        world.submit(priority_class=PriorityClassFactory(value=11))

    assert caught.value.field == "priority"


def test_a_flavor_of_another_cluster_is_refused(world):
    with pytest.raises(Refused) as caught:
        world.submit(flavors=(FlavorFactory(),))

    assert caught.value.field == "gpu"


def test_a_flavor_named_twice_is_refused(world):
    with pytest.raises(Refused) as caught:
        world.submit(flavors=(world.flavor, world.flavor))

    assert caught.value.field == "gpu"


def test_an_archived_tenant_takes_no_jobs(world):
    world.tenant.archived_at = T0

    with pytest.raises(Refused) as caught:
        world.submit()

    assert caught.value.field == "tenant"


def test_a_cluster_to_look_at_takes_no_jobs(world):
    world.cluster.is_writable = False

    with pytest.raises(Refused) as caught:
        world.submit()

    assert caught.value.field == "cluster"


def test_a_viewer_may_not_submit(world):
    viewer = person(world.tenant, Role.VIEWER)

    with pytest.raises(NotAllowed):
        submit_job(world.request(), tenant=world.tenant, by=viewer, at=T0)

    assert not Job.objects.exists()


def test_an_operator_may_submit_anywhere(world):
    job = submit_job(world.request(), tenant=world.tenant, by=operator(), at=T0)

    assert job.tenant == world.tenant


def test_the_same_external_id_gives_the_job_that_is_there(world):
    first = world.submit(external_id="x-1")

    second = world.submit(external_id="x-1", name="other")

    assert second == first
    assert Job.objects.get().name == "train"
    assert AuditEvent.objects.count() == 1


@pytest.mark.parametrize(
    "limit",
    [
        lambda: Node.objects.update(gpu_count=1),
        lambda: Cluster.objects.update(is_writable=False),
        lambda: Tenant.objects.update(archived_at=T0),
    ],
    ids=["largest node", "cluster to look at", "archived tenant"],
)
def test_a_request_made_again_gives_its_job_whatever_the_limits_have_become(world, limit):
    first = world.submit(gpus=8, external_id="x-1")
    limit()
    world.cluster.refresh_from_db()
    world.tenant.refresh_from_db()

    assert world.submit(gpus=8, external_id="x-1") == first
    with pytest.raises(Refused):
        world.submit(gpus=8, external_id="x-2")


def test_a_request_made_again_by_one_who_may_submit_no_longer_is_refused(world):
    world.submit(external_id="x-1")
    world.researcher = person(world.tenant, Role.VIEWER)

    with pytest.raises(NotAllowed):
        world.submit(external_id="x-1")


def test_an_external_id_of_another_tenant_is_taken(world):
    world.submit(external_id="x-1")
    stranger = MembershipFactory(role=Role.RESEARCHER)

    with pytest.raises(Conflict) as caught:
        submit_job(
            world.request(external_id="x-1"), tenant=stranger.tenant, by=stranger.user, at=T0
        )

    assert caught.value.field == "external_id"
    assert "train" not in str(caught.value)


def test_jobs_without_an_external_id_are_all_different(world):
    assert world.submit() != world.submit()


def test_public_ids_follow_one_another(world):
    ids = [world.submit().public_id for _ in range(3)]

    assert ids == sorted(set(ids))


@pytest.mark.parametrize(
    ("number", "text"), [(0, "000000"), (30, "000010"), (30**6 - 1, "zzzzzz"), (30**6, "1000000")]
)
def test_numbers_are_spelt_in_the_alphabet_of_ids(number, text):
    assert spell(number) == text
