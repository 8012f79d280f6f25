"""Doors for the broker: fixed names, ids by keyword, one call each. Each may run twice."""

from typing import Any

from celery import shared_task
from django.utils import timezone

from portal.core.clock import now
from portal.core.errors import ClusterAway
from portal.core.locks import LockSpace, advisory_lock
from portal.core.queueing import send_again, send_on_commit
from scheduling import cycle
from scheduling.models import Job
from scheduling.services import advice, binding, outlook, reconciling, telling
from scheduling.services.binding_together import bind_together
from scheduling.services.layouts import changing, driving
from topology.kube.layout_doors import LiveLayoutDoors
from topology.models import Cluster, NodeChange, Rollout
from topology.services.cycle_request import ask_for_cycle
from topology.services.reach import gateway_to
from topology.states import ACTIVE

# A cluster that is away for seconds is asked again soon; after that the beat asks.
_PATIENT: dict[str, Any] = {
    "ignore_result": True,
    "autoretry_for": (ClusterAway,),
    "retry_backoff": 1,
    "retry_jitter": True,
    "max_retries": 3,
}


@shared_task(name="scheduling.run_cycle", ignore_result=True)
def run_cycle(*, cluster_id: int) -> None:
    """Plan one cluster, if anybody asked since the last snapshot."""
    if cycle.run_while_asked(cluster_id, clock=now):
        send_again("scheduling.look_ahead", cluster_id=cluster_id)
        advice.refresh_watched(Cluster.objects.get(pk=cluster_id))


@shared_task(name="scheduling.tell_people", ignore_result=True)
def tell_people() -> None:
    """The beat: people are told of what became of their jobs."""
    with advisory_lock(LockSpace.TELLING, 2) as held:
        while held and telling.tell_of_jobs(at=timezone.now()) == telling.BATCH:
            pass


@shared_task(name="scheduling.run_cycles", ignore_result=True)
def run_cycles() -> None:
    """The beat: time alone can change a verdict, and a message may have been lost."""
    for cluster_id in Cluster.objects.values_list("pk", flat=True):
        ask_for_cycle(cluster_id)


@shared_task(name="scheduling.look_ahead", ignore_result=True)
def look_ahead(*, cluster_id: int) -> None:
    """Estimate when waiting jobs start; the next cycle asks again."""
    cluster = Cluster.objects.get(pk=cluster_id)
    outlook.look_ahead(cluster, at=now(cluster))


@shared_task(name="scheduling.advise", ignore_result=True)
def advise(*, job_id: int) -> None:
    """Find out what would help a job that somebody looks at; who still looks asks again."""
    job = Job.objects.select_related("cluster").get(pk=job_id)
    advice.advise(job, at=now(job.cluster), wall=timezone.now())


@shared_task(name="scheduling.bind_job", **_PATIENT)
def bind_job(*, job_id: int, attempt: int) -> None:
    """Carry out one start; what is left undone the beat finds."""
    cluster = Cluster.objects.get(jobs=job_id)
    binding.bind(job_id, attempt, gateway_to(cluster), at=now(cluster))


@shared_task(name="scheduling.bind_jobs", **_PATIENT)
def bind_jobs(*, cluster_id: int, starts: list[list[int]]) -> None:
    """Carry out starts of several jobs of one member. starts: the key and attempt of each."""
    cluster = Cluster.objects.get(pk=cluster_id)
    bind_together(dict(starts), gateway_to(cluster), at=now(cluster))


@shared_task(name="scheduling.stop_job", **_PATIENT)
def stop_job(*, job_id: int) -> None:
    """Remove what a stopping or ended job still has in its cluster."""
    cluster = Job.objects.select_related("cluster").get(pk=job_id).cluster
    binding.remove(job_id, gateway_to(cluster), clock=lambda: now(cluster))


@shared_task(name="scheduling.scale_job", **_PATIENT)
def scale_job(*, job_id: int, attempt: int) -> None:
    """Bring a running gang to the size on record; what is left undone the beat finds."""
    cluster = Cluster.objects.get(jobs=job_id)
    binding.scale(job_id, attempt, gateway_to(cluster), clock=lambda: now(cluster))


@shared_task(name="scheduling.limit_job", **_PATIENT)
def limit_job(*, job_id: int, attempt: int) -> None:
    """Tell the cluster when a running job ends; what is left undone the beat finds."""
    cluster = Cluster.objects.get(jobs=job_id)
    binding.limit(job_id, attempt, gateway_to(cluster))


@shared_task(name="scheduling.look_after_job", **_PATIENT)
def look_after_job(*, job_id: int) -> None:
    """Find out what became of a job that lost a member."""
    cluster = Cluster.objects.get(jobs=job_id)
    binding.look_after(job_id, gateway_to(cluster), at=now(cluster))


@shared_task(name="scheduling.reconcile", ignore_result=True)
def reconcile() -> None:
    """The beat: what rows say is under way and nobody works on is queued again."""
    for cluster in Cluster.objects.all():
        with advisory_lock(LockSpace.RECONCILE, cluster.pk) as held:
            if held:
                reconciling.reconcile(cluster, at=now(cluster))


@shared_task(name="scheduling.advance_rollout", ignore_result=True)
def advance_rollout(*, rollout_id: int) -> None:
    """Let the next nodes of a rollout begin, or end it."""
    cluster = Rollout.objects.select_related("cluster").get(pk=rollout_id).cluster
    driving.advance_rollout(rollout_id, at=now(cluster))


@shared_task(name="scheduling.advance_change", **_PATIENT)
def advance_change(*, change_id: int) -> None:
    """Go on with the change of a node; one worker at a time, and whoever comes later asks again."""
    cluster = Cluster.objects.get(rollouts__changes=change_id)
    with advisory_lock(LockSpace.NODE_CHANGE, change_id) as held:
        if held:
            doors = LiveLayoutDoors(gateway_to(cluster).wire)
            changing.advance(change_id, doors, clock=lambda: now(cluster), wall=timezone.now)


@shared_task(name="scheduling.advance_node", ignore_result=True)
def advance_node(*, node_id: int) -> None:
    """A node that is being changed was reported to be other than before."""
    for change in NodeChange.objects.filter(node=node_id, step__in=ACTIVE):
        send_on_commit("scheduling.advance_change", change_id=change.pk)


@shared_task(name="scheduling.find_lost_changes", ignore_result=True)
def find_lost_changes() -> None:
    """The beat: rollouts and changes of nodes that rows say are under way."""
    driving.find_lost()
