"""Gangs that a cluster's own scheduler binds as one, where it offers that and where it does not."""

import logging

import pytest

from scheduling.models import Job
from scheduling.services.reconciling import reconcile
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.stage import a_stage
from topology.kube import podgroups
from topology.kube.live import LiveGateway
from topology.kube.wire import ApiError
from topology.models import Cluster, ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)

SAID = "gangs start without PodGroups"


class Killed(Exception):
    """The worker is gone, in the middle of its work."""


class Grouping:
    """The simulated cluster, as one that has PodGroups: keeps them, and what was asked of them.

    refuses: the status that is answered instead. dies: "before" or "after" the next group is made.
    """

    def __init__(self, sim, wire, *, refuses=0, dies=""):
        self.sim, self.wire, self.refuses, self.dies = sim, wire, refuses, dies
        self.groups, self.eased, self.pods_then, self.open_then = {}, [], [], []
        self.read, self.follow = wire.read, wire.follow

    def ask(self, request):
        if podgroups.PLURAL not in request.path:
            return self.wire.ask(request)
        if self.refuses:
            raise ApiError(self.refuses, reason="No", message="no groups here")
        dies, self.dies = self.dies, ""
        if dies == "before":
            raise Killed
        name = request.path.rpartition("/")[2]
        if isinstance(request.body, list):
            self.eased.append(name)
            return self.groups[name]
        self.groups[name] = request.body
        self.pods_then.append(len(self.sim.call("GET", "/api/v1/pods")["items"]))
        self.open_then += [job for job in jobs(self.sim) if not job["spec"]["suspend"]]
        if dies == "after":
            raise Killed
        return request.body


def jobs(sim):
    return sim.call("GET", "/apis/batch/v1/jobs")["items"]


@pytest.fixture
def begin(tmp_path, sent):
    """A stage whose cluster is known to offer groups, and does as the keywords say."""

    def begin(stage, **does):
        Cluster.objects.update(has_pod_groups=True)
        wire = Grouping(stage.sim, stage.gateway.wire, **does)
        stage.gateway = LiveGateway(wire)
        return wire

    with a_stage("2xH100-SXM:8", folder=tmp_path, sent=sent) as stage:
        yield stage, lambda **does: begin(stage, **does)


@pytest.fixture
def submit(begin):
    stage, _begin = begin
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=16)
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user

    def submit(*groups, seconds=100_000, **how):
        runs = {"simcluster.muster.dev/run-seconds": str(seconds)}
        request = JobRequest(
            name="train", cluster=stage.cluster, groups=groups, annotations=runs, **how
        )
        return submit_job(request, tenant=tenant, by=person, at=stage.now)

    return submit


def members(count, *, most=None, gpus=2, name="main"):
    return GroupRequest(name=name, members=count, max_member=most, gpus_per_member=gpus)


def is_running(job):
    return Job.objects.get(pk=job.pk).state == "running"


def least_of(group):
    return group["spec"]["schedulingPolicy"]["gang"]["minCount"]


def test_the_group_is_there_before_any_pod_that_names_it(begin, submit):
    stage, begin = begin
    wire = begin()
    job = submit(members(2), members(1, name="extra"))

    stage.until(lambda: is_running(job))

    (group,) = wire.groups.values()
    made = jobs(stage.sim)
    assert (least_of(group), wire.pods_then, wire.open_then) == (3, [0], [])
    owners = {own["uid"] for own in group["metadata"]["ownerReferences"]}
    assert owners == {job["metadata"]["uid"] for job in made}
    assert all(map(podgroups.is_named_by, made))
    assert group["spec"]["priorityClassName"] == "muster-member"


def test_only_who_has_to_be_bound_together_is(begin, submit):
    stage, begin = begin
    wire = begin()
    alone, growing = submit(members(1)), submit(members(1, most=2))
    elastic = submit(members(2, most=4))

    stage.until(lambda: all(map(is_running, (alone, growing, elastic))))

    assert {name: least_of(group) for name, group in wire.groups.items()} == {
        podgroups.name_of(elastic.public_id): 2
    }


def test_members_that_come_later_are_bound_one_at_a_time(begin, submit):
    stage, begin = begin
    wire = begin()
    first = submit(members(1, gpus=8), seconds=100)
    second = submit(members(1, gpus=4), seconds=100_000)
    elastic = submit(members(2, most=6))
    stage.until(lambda: all(map(is_running, (first, second, elastic))))
    before = list(wire.eased)

    def has_grown():
        reconcile(stage.cluster, at=stage.now)
        stage.work()
        return len(running(stage, elastic)) == 6

    stage.until(has_grown, step=10)

    assert (before, set(wire.eased)) == ([], {podgroups.name_of(elastic.public_id)})


def running(stage, job):
    pods = [pod for pod in stage.gateway.members() if pod.job == job.public_id]
    return [pod for pod in pods if pod.phase == "running"]


@pytest.mark.parametrize("status", [403, 404])
def test_a_cluster_that_makes_none_after_all_is_done_without_and_it_is_said_once(
    begin, submit, caplog, status
):
    stage, begin = begin
    begin(refuses=status)
    caplog.set_level(logging.WARNING)

    both = [submit(members(2)), submit(members(2))]
    stage.until(lambda: all(map(is_running, both)))

    assert [record.getMessage() for record in caplog.records if SAID in record.msg] == [
        f"{SAID} in {stage.cluster.slug}: no groups here"
    ]
    assert not any(map(podgroups.is_named_by, jobs(stage.sim)))
    assert not Cluster.objects.get().has_pod_groups


def test_a_cluster_that_lost_them_starts_gangs_all_the_same(begin, submit):
    stage, _begin = begin
    Cluster.objects.update(has_pod_groups=True)  # and the simulated cluster has none
    job = submit(members(2))

    stage.until(lambda: is_running(job))

    assert not Cluster.objects.get().has_pod_groups


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_worker_that_dies_leaves_what_the_next_one_takes_up(begin, submit, dies):
    stage, begin = begin
    wire = begin(dies=dies)
    job = submit(members(2))

    with pytest.raises(Killed):
        stage.until(lambda: is_running(job))
    first = [own["metadata"]["uid"] for own in jobs(stage.sim)]
    stage.sent.append(("scheduling.bind_job", {"job_id": job.pk, "attempt": 1}))
    stage.until(lambda: is_running(job))

    assert [own["metadata"]["uid"] for own in jobs(stage.sim)] == first
    assert list(wire.groups) == [podgroups.name_of(job.public_id)]


def test_what_was_made_for_a_group_is_made_anew_when_there_are_none_any_more(begin, submit):
    stage, begin = begin
    begin(dies="before")
    job = submit(members(2))
    with pytest.raises(Killed):
        stage.until(lambda: is_running(job))
    assert all(map(podgroups.is_named_by, jobs(stage.sim)))

    Cluster.objects.update(has_pod_groups=False)  # as the next check finds it
    stage.sent.append(("scheduling.bind_job", {"job_id": job.pk, "attempt": 1}))
    stage.until(lambda: is_running(job))

    assert [podgroups.is_named_by(own) for own in jobs(stage.sim)] == [False]
