"""Laws of the ledger: whatever the order and number of reports, they hold after each step."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from portal.core.errors import Conflict
from scheduling.models import Job, Member, Placement, PlacementGpu
from scheduling.services.lifecycle import cancel_job, stop
from scheduling.services.observation import note_gone
from scheduling.services.settling import settle
from scheduling.states import DISPLACEABLE, ENDED_PHASES, FINAL, TRANSITIONS, JobState
from tests.scheduling.world import World, after, held_gpus
from topology.kube.values import Listed

LIVES = (
    ("gated", "running", "succeeded"),
    ("gated", "binding", "bound", "running", "succeeded"),
    ("gated", "binding", "bound", "running", "failed"),
    ("gated", "bound", "running", "gone"),
    ("gated", "gone"),
    ("bound", "failed"),
)
STEPS = 150


class Walk:
    """A cluster whose pods live at random, and whose reports arrive as they please."""

    def __init__(self, seed):
        self.random = random.Random(seed)  # noqa: S311 - a walk that can be walked again
        self.world = World.of(nodes=2, gpus=2)
        self.reports = []  # all, and those that were not told yet
        self.pending = []
        self.known = set()
        self.ended = {}
        self.clock = 100

    @property
    def now(self):
        return after(self.clock)

    def step(self):
        self.clock += self.random.randrange(20)
        chances = {
            self.submit: 2,
            self.plan: 3,
            self.report: 12,
            self.report_anything: 4,
            self.cancel: 0.3,
            self.move_away: 0.3,
            self.list_pods: 0.5,
            self.remove: 1,
        }
        self.random.choices(list(chances), list(chances.values()))[0]()

    def submit(self):
        self.world.submit(
            members=self.random.choice((1, 2, 3)), gpus=self.random.choice((0, 1, 2)), at=self.now
        )

    def plan(self):
        self.world.plan(at=self.now)
        for member in Member.objects.exclude(pk__in=self.known).select_related("job", "group"):
            self.known.add(member.pk)
            self._live(member)

    def _live(self, member):
        """All reports there will ever be about one member, and about the end of its gang."""
        job, start = member.job, self.clock
        life, reports = self.random.choice(LIVES), []
        for phase in life:
            start += self.random.randrange(30)
            times = {"started_at": None, "ended_at": None}
            if phase in {"running", "succeeded", "failed"}:
                times["started_at"] = after(start)
            if phase in {"succeeded", "failed"}:
                times["ended_at"] = after(start + 5)
            reports.append(
                self.world.member(job, phase, rank=member.rank, attempt=member.attempt, **times)
            )
        outcome = "complete" if life[-1] == "succeeded" else "failed"
        reason = self.random.choice(("BackoffLimitExceeded", "DeadlineExceeded"))
        if member.rank == 0:
            reports.append(self.world.group(job, outcome, attempt=member.attempt, reason=reason))
        self.reports += reports
        self.pending += reports

    def report(self):
        """One of the reports that come next."""
        if self.pending:
            early = min(len(self.pending), 4)
            self.world.tell(self.pending.pop(self.random.randrange(early)), at=self.now)

    def report_anything(self):
        """Any report of all that there ever were or will be: early, late, again."""
        if self.reports:
            self.world.tell(self.random.choice(self.reports), at=self.now)

    def cancel(self):
        job = self._any(Job.objects.exclude(state__in=FINAL))
        if job is not None:
            cancel_job(job, by=self.world.researcher, at=self.now)

    def move_away(self):
        job = self._any(Job.objects.filter(state__in=DISPLACEABLE))
        if job is not None:
            stop(job, towards=JobState.QUEUED, at=self.now, reason="moved")

    def list_pods(self):
        there = [
            m.pod_uid for m in Member.objects.exclude(pod_uid="") if self.random.random() < 0.9
        ]
        version = self.world.next_version()
        self.world.tell(Listed(kind="members", keys=frozenset(there), version=version), at=self.now)

    def remove(self):
        """What the worker does for a job that is stopping: nothing of it is left."""
        job = self._any(Job.objects.filter(state__in={*FINAL, JobState.STOPPING}))
        if job is not None:
            self.take_down(job)

    def take_down(self, job):
        for member in job.members.exclude(phase__in=ENDED_PHASES):
            note_gone(member)
        settle(job.pk, at=self.now)

    def _any(self, jobs):
        found = list(jobs.order_by("pk"))
        return self.random.choice(found) if found else None

    def check(self):
        held = Counter(held_gpus())
        assert set(held.values()) <= {1}, "a device is in two active placements"
        ends = dict(Job.objects.filter(state__in=FINAL).values_list("pk", "state"))
        assert self.ended.items() <= ends.items(), "a job that had ended did not stay so"
        self.ended = ends
        assert not Placement.objects.active().filter(job__state="queued").exists()
        for placement in Placement.objects.active().prefetch_related("members"):
            phases = {member.phase for member in placement.members.all()}
            assert phases - ENDED_PHASES, "a placement outlives its members"
        alive = Member.objects.exclude(phase__in=ENDED_PHASES)
        assert not alive.exclude(placement__in=Placement.objects.active()), (
            "a member outlives its placement"
        )
        assert not PlacementGpu.objects.active().exclude(
            placement__in=Placement.objects.active()
        ), "a device outlives its placement"

    def finish(self):
        """Everything is cancelled, and nothing is left in the cluster."""
        for job in Job.objects.exclude(state__in=FINAL):
            try:
                cancel_job(job, by=self.world.researcher, at=self.now)
            except Conflict:
                pytest.fail("nobody else moves jobs here")
        for job in Job.objects.all():
            self.take_down(job)


@pytest.mark.parametrize("seed", range(3))
def test_the_ledger_keeps_its_laws_on_any_walk(db, seed):
    walk = Walk(seed)

    for _ in range(STEPS):
        walk.step()
        walk.check()
    walk.finish()

    walk.check()
    assert held_gpus() == []
    assert not Placement.objects.active().exists()
    assert set(Job.objects.values_list("state", flat=True)) <= FINAL
    assert len(walk.ended) == Job.objects.count() > 0
    for job in Job.objects.all():
        steps = [JobState(event.to_state) for event in job.events.order_by("pk")]
        assert steps[0] == JobState.QUEUED
        assert all(b in TRANSITIONS[a] for a, b in pairwise(steps))
        assert steps[-1] == job.state
