"""Writes the demo's past down: jobs that have ended, where they ran, and what they were told."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import models, transaction

from portal.core import audit
from scheduling.models import (
    Job,
    JobEvent,
    JobGroup,
    Member,
    Placement,
    PlacementGpu,
    Preemption,
    StartEstimate,
)
from scheduling.services.demo import TENANTS
from scheduling.services.feeding import Feed, people_of, request_for
from scheduling.services.past.course import NAME, TRACED, PastJob, Run, Seat
from scheduling.services.past.making import DAYS, LOOK, SAVE_SECONDS
from scheduling.services.past.setting import set_the_scene
from scheduling.services.submission import next_public_ids
from scheduling.simulation.forecast import odds
from scheduling.simulation.streams import ROUND_LIMITS
from scheduling.simulation.trace import members_of
from scheduling.states import JobState, MemberPhase
from tenants.models import PriorityClass, Tenant
from topology.models import Cluster, Gpu

BATCH = 2000


def is_told(cluster: Cluster) -> bool:
    return cluster.jobs.filter(external_id__startswith=f"{NAME}/").exists()


def lacking(cluster: Cluster, past: Iterable[PastJob]) -> set[str]:
    """Names of nodes of the past whose GPUs the cluster has not shown yet."""
    wanted = {seat.node for own in past for run in own.runs for seat in run.seats}
    known = Gpu.objects.filter(node__cluster=cluster, node__gone_at=None)
    return wanted - set(known.values_list("node__name", flat=True))


@transaction.atomic
def tell_of_the_past(
    cluster: Cluster, past: Sequence[PastJob], *, at: datetime, wall: datetime
) -> int:
    """Write `past` down as if it had ended now; how many jobs that is. Nothing if it is told.

    It ends before anything was placed here, so that no GPU was ever in two places. Nobody gets a
    message about it, and the cluster hears nothing of it. at: cluster clock; wall: wall clock.
    """
    if is_told(cluster):
        return 0
    first = Placement.objects.filter(job__cluster=cluster).order_by("bound_at").first()
    end = at if first is None else min(at, first.bound_at)
    origin = end.replace(second=0, microsecond=0) - timedelta(days=DAYS)
    _Rows(cluster, origin).write(past)
    set_the_scene(cluster, began=origin, wall=wall)
    audit.record("tell_demo_past", cluster, by=None, after={"jobs": len(past)}, reason=TRACED)
    return len(past)


@dataclass
class _Rows:
    """The rows of the past, gathered to be written a table at a time."""

    cluster: Cluster
    origin: datetime
    rows: list[models.Model] = field(default_factory=list)

    def write(self, past: Sequence[PastJob]) -> None:
        jobs = self._jobs(past)
        Job.objects.bulk_create(jobs.values(), batch_size=BATCH)
        groups = {own.job.key: _group(own, jobs[own.job.key]) for own in past}
        JobGroup.objects.bulk_create(groups.values(), batch_size=BATCH)
        gpus = self._gpus()
        for own in past:
            self._events(own, jobs[own.job.key])
            self._told(own, jobs[own.job.key])
            self._stops(own, jobs)
            for attempt, run in enumerate(own.runs, 1):
                self._run(groups[own.job.key], attempt, run, gpus)
        for kind in (JobEvent, StartEstimate, Preemption, Placement, Member, PlacementGpu):
            own_kind = [row for row in self.rows if type(row) is kind]
            kind._default_manager.bulk_create(own_kind, batch_size=BATCH)  # noqa: SLF001 - Django's public name for it

    def _jobs(self, past: Sequence[PastJob]) -> dict[str, Job]:
        """By key of the trace, in order of submission."""
        tenants = {slug: Tenant.objects.get(slug=slug) for slug in TENANTS.values()}
        people = people_of(tenants.values())
        feed = Feed(
            name=NAME,
            cluster=self.cluster,
            origin=self.origin,
            tenants={name: tenants[slug] for name, slug in TENANTS.items()},
            people=people,
            saves_every=SAVE_SECONDS,
            limits=ROUND_LIMITS,
        )
        priority = PriorityClass.objects.filter(is_default=True).first()
        ids = next_public_ids(len(past))
        return {
            own.job.key: self._job(own, feed, public_id, priority.value if priority else 0)
            for own, public_id in zip(past, ids, strict=True)
        }

    def _job(self, own: PastJob, feed: Feed, public_id: str, priority: int) -> Job:
        tenant = feed.tenant_of(own.job)
        people = feed.people[tenant.pk]
        request = request_for(feed, own.job)
        stops = own.runs[:-1]
        return Job(
            public_id=public_id,
            tenant=tenant,
            cluster=self.cluster,
            owner=people[own.job.row % len(people)],
            name=request.name,
            state=JobState.SUCCEEDED,
            attempt=len(own.runs),
            priority=priority,
            walltime_seconds=request.walltime_seconds,
            image=request.image,
            command=list(request.command),
            annotations=dict(request.annotations),
            external_id=request.external_id,
            submitted_at=feed.due_at(own.job),
            started_at=self._at(own.runs[-1].start),
            ended_at=self._at(own.end),
            preempted_count=len(stops),
            checkpoint_at=self._at(stops[-1].end) if stops else None,
            saved_seconds=sum(run.end - run.start for run in stops),
        )

    def _gpus(self) -> dict[tuple[str, int], Gpu]:
        """By the name of their node, and their index there."""
        known = Gpu.objects.filter(node__cluster=self.cluster, node__gone_at=None)
        return {(gpu.node.name, gpu.index): gpu for gpu in known.select_related("node")}

    def _at(self, seconds: int) -> datetime:
        return self.origin + timedelta(seconds=seconds)

    def _events(self, own: PastJob, job: Job) -> None:
        """The steps that a job takes in the portal, each with the words that it has there."""
        self._event(job, "", JobState.QUEUED, job.submitted_at, own.source, actor=job.owner)
        for run in own.runs:
            start, end = self._at(run.start), self._at(run.end)
            self._event(job, JobState.QUEUED, JobState.STARTING, start, "placed")
            self._event(job, JobState.STARTING, JobState.RUNNING, start)
            if run is own.runs[-1]:
                self._event(job, JobState.RUNNING, JobState.SUCCEEDED, end)
                continue
            told, why = end - timedelta(seconds=SAVE_SECONDS), "preempted for another tenant's job"
            self._event(job, JobState.RUNNING, JobState.STOPPING, told, why)
            self._event(job, JobState.STOPPING, JobState.QUEUED, end, "stopped")

    def _event(
        self, job: Job, was: str, became: JobState, at: datetime, reason: str = "", **more: Any
    ) -> None:
        event = JobEvent(
            job=job, from_state=was, to_state=became, at=at, reason=reason, is_told=True, **more
        )
        self.rows.append(event)

    def _told(self, own: PastJob, job: Job) -> None:
        """Its first estimate, and whether that held: a range that is over has missed at once."""
        if own.told is None:
            return
        first, start = own.told, own.runs[0].start
        made, earliest, latest = map(self._at, (first.made, first.earliest, first.latest))
        estimate = StartEstimate(
            job=job,
            attempt=0,
            made_at=made,
            earliest=earliest,
            latest=latest,
            percent=odds(LOOK.runs),
            first_at=made,
            first_earliest=earliest,
            first_latest=latest,
            held=first.earliest <= start <= first.latest,
            settled_at=self._at(min(start, first.latest)),
        )
        self.rows.append(estimate)

    def _stops(self, own: PastJob, jobs: Mapping[str, Job]) -> None:
        for attempt, run in enumerate(own.runs[:-1], 1):
            gone = self._at(run.end)
            stop = Preemption(
                job=jobs[own.job.key],
                attempt=attempt,
                claimant=jobs.get(run.stopped_for),
                why=Preemption.Why.RECLAIM,
                decided_at=gone - timedelta(seconds=SAVE_SECONDS),
                gone_at=gone,
                checkpoint_at=gone,
                lost_gpu_seconds=0,
            )
            self.rows.append(stop)

    def _run(
        self, group: JobGroup, attempt: int, run: Run, gpus: Mapping[tuple[str, int], Gpu]
    ) -> None:
        """The places, the members and the GPUs of one run."""
        start, end = self._at(run.start), self._at(run.end)
        by_node: dict[str, list[tuple[int, Seat]]] = {}
        for rank, seat in enumerate(run.seats):
            by_node.setdefault(seat.node, []).append((rank, seat))
        has_ended = attempt == group.outcome_attempt
        for node, seats in by_node.items():
            placement = Placement(
                job=group.job,
                group=group,
                node=gpus[node, seats[0][1].gpus[0]].node,
                attempt=attempt,
                member_count=len(seats),
                bound_at=start,
                released_at=end,
            )
            self.rows.append(placement)
            for rank, seat in seats:
                member = Member(
                    job=group.job,
                    group=group,
                    placement=placement,
                    attempt=attempt,
                    rank=rank,
                    phase=MemberPhase.SUCCEEDED if has_ended else MemberPhase.GONE,
                    node_seen=node,
                    bound_at=start,
                    started_at=start,
                    ended_at=end,
                    exit_code=0 if has_ended else None,
                )
                self.rows.append(member)
                self.rows += [
                    PlacementGpu(
                        placement=placement, member=member, gpu=gpus[node, index], released_at=end
                    )
                    for index in seat.gpus
                ]


def _group(own: PastJob, job: Job) -> JobGroup:
    members, gpus = members_of(own.job.gpus)
    return JobGroup(
        job=job,
        min_member=members,
        max_member=members,
        gpus_per_member=gpus,
        outcome="complete",
        outcome_attempt=job.attempt,
    )
