"""One round: a script is played on a real control plane by processes that die, and judged."""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from random import Random

from django.db.models import F

from portal.core.errors import Conflict
from scheduling.models import Job, JobEvent, Member, Placement, PlacementGpu
from scheduling.services.lifecycle import cancel_job
from scheduling.services.requests import JobRequest
from scheduling.services.submission import submit_job
from scheduling.states import ENDED_PHASES, FINAL, JobState
from tests.kube.chaos.script import BLIND_AT_SHRINK, BLIND_AT_THE_END, NODES
from tests.kube.controlplane import kubelets
from topology.models import Node

GRACE_SECONDS = 30  # from the time to bind until what is bound in part is gone; machines are busy
# How often the beat asks, if nothing else waits for a worker.
BEAT = {"scheduling.reconcile": 0.5, "scheduling.run_cycles": 2.0}
TURN_SECONDS = 0.05
PATIENCE_SECONDS = 240


class NobodyDied(AssertionError):
    """The round kept every rule, but nobody came to a step that somebody was to die of."""


@dataclass
class Round:
    """sent: what is sent in this process, to be posted to the broker, or lost."""

    script: object
    cluster: object
    tenant: object
    person: object
    crew: object
    weather: object
    witness: object
    place: object
    broker: object
    sent: list
    jobs: dict = field(default_factory=dict)  # gang: job
    _random: Random = None
    _cues: list = field(default_factory=list)
    _gates: int = 0
    _next_beat: dict = field(default_factory=dict)

    def play(self):
        """The whole script, to the end of its last gang.

        AssertionError where a rule is broken, NobodyDied where a death of the script did not come.
        """
        self._random = Random(self.script.seed)  # noqa: S311 - hides nothing
        self.until(lambda: Node.objects.count() == NODES, "the nodes are known")
        self._set_cues()
        for gang in self.script.gangs:
            self.wait(gang.after)
            self._submit(gang)
        self.until(self._comers_have_ended, "all but those that stay have ended")
        self.until(self._is_as_written, "the ledger equals the cluster")
        self._dismiss()
        self.until(self._all_have_ended, "all have ended")
        self.until(self._is_empty, "nothing is left behind")
        self._judge()

    def wait(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._turn()

    def until(self, question, what):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not question():
            assert time.monotonic() < deadline, f"not in time: {what}\n{self.account()}"
            self._turn()

    def account(self):
        """What a person would want to see first when it went wrong."""
        fields = ("public_id", "name", "state", "attempt", "is_held", "held_because", "reason")
        jobs = "\n".join(map(str, Job.objects.order_by("pk").values_list(*fields)))
        members = "\n".join(map(str, ledger()))
        return (
            f"{self.script}\ndied of: {self.crew.happened}\n{jobs}\nin the ledger:\n{members}\n"
            f"in the cluster: {sorted(self.place.left())}\nlive: {self.witness.live()}"
        )

    def _turn(self):
        """Look after everybody, once."""
        self.crew.look_after()
        now = time.monotonic()
        while self.sent:
            name, arguments = self.sent.pop(0)
            if self._random.random() >= self.script.lost_messages:
                self.broker.post(name, arguments)
        for task, seconds in BEAT.items():
            if now >= self._next_beat.get(task, 0.0) and self.broker.is_idle():
                self._next_beat[task] = now + seconds
                self.broker.post(task, {})
        for cue in [cue for cue in self._cues if cue[0]()]:
            self._cues.remove(cue)
            cue[1]()
        self._check()
        time.sleep(TURN_SECONDS)

    def _check(self):
        """What must hold at any time."""
        assert not self.witness.wrong, f"{self.witness.wrong}\n{self.account()}"
        late = self.witness.late(self.script.bind_seconds + GRACE_SECONDS)
        assert late == [], f"started in part for too long: {late}\n{self.account()}"
        assert self.witness.is_alive()

    def _after(self, seconds, action):
        at = time.monotonic() + seconds
        self._cues.append((lambda: time.monotonic() >= at, action))

    def _set_cues(self):
        """What happens at its time, or when it has come to that."""
        script = self.script
        for seconds, role in script.kills:
            self._after(seconds, lambda role=role: self.crew.kill(role))
        for seconds, lasts in script.outages:
            self._after(seconds, lambda lasts=lasts: self._go_away(lasts))
        if script.claimant is not None:
            self._cues.append((self._has_grown, self._claim))
        if script.closes is not None:
            self.weather.at_gate = self._at_gate

    def _go_away(self, seconds):
        self.weather.away_until = time.monotonic() + seconds

    def _at_gate(self, path, node):
        """Close a node between the plan and the binding, once. In a thread of the line."""
        if self.place.is_gated(path):
            self._gates += 1
            if self._gates == self.script.closes:
                self.place.close(node)
                self._cues.append((self._is_taken_back, self.place.open_all))

    def _is_taken_back(self):
        """Whether somebody has noticed that a gang is not bound in time."""
        return JobEvent.objects.filter(reason__contains="not bound in time").exists()

    def _has_grown(self):
        """Whether one gang has all the nodes, so that whoever comes needs some of it."""
        staying = next(job for gang, job in self.jobs.items() if gang.stays)
        here = staying.members.filter(is_leaving=False, phase="running")
        return here.filter(attempt=F("job__attempt")).count() == NODES

    def _claim(self):
        if self.script.blind_at_shrink:
            self._blind(until=lambda: not self.crew.missed() & BLIND_AT_SHRINK)
        self._submit(self.script.claimant)

    def _blind(self, *, until):
        """No watcher for a while."""
        self.crew.asleep.add("watcher")
        self.crew.kill("watcher")
        self._cues.append((until, lambda: self.crew.asleep.discard("watcher")))

    def _submit(self, gang):
        notes = {} if gang.runs is None else {kubelets.RUNS_FOR: f"{int(gang.runs * 1000)}ms"}
        request = JobRequest(
            name=gang.name, cluster=self.cluster, groups=gang.groups, annotations=notes
        )
        job = submit_job(request, tenant=self.tenant, by=self.person, at=datetime.now(UTC))
        self.jobs[gang] = job
        if gang.cancelled_when is not None:
            self._cues.append((lambda: self._is_cancellable(job, gang), lambda: self._cancel(job)))

    def _is_cancellable(self, job, gang):
        state = Job.objects.values_list("state", flat=True).get(pk=job.pk)
        return state == gang.cancelled_when or state in FINAL

    def _cancel(self, job):
        """Somebody asks for the end of a job, and once more if it has just changed."""
        job.refresh_from_db()
        while job.state not in FINAL:
            with suppress(Conflict):
                cancel_job(job, by=self.person, at=datetime.now(UTC))
                return
            job.refresh_from_db()

    def _comers_have_ended(self):
        claimants = [] if self.script.claimant is None else [self.script.claimant]
        comers = [gang for gang in (*self.script.gangs, *claimants) if not gang.stays]
        return all(gang in self.jobs for gang in comers) and not self._open(comers)

    def _is_as_written(self):
        """Whether pods are where the ledger has them, and find each other."""
        meeting = {job.public_id for gang, job in self.jobs.items() if gang.stays}
        return ledger() == self.witness.live() and meeting <= self.place.left()

    def _open(self, gangs):
        ids = [self.jobs[gang].pk for gang in gangs]
        return Job.objects.filter(pk__in=ids).exclude(state__in=FINAL).exists()

    def _dismiss(self):
        """Those that stayed are sent away, and the steps that have not come yet come now."""
        if self.script.blind_at_the_end:
            self._blind(until=lambda: not self.crew.missed() & BLIND_AT_THE_END)
        for gang, job in self.jobs.items():
            if gang.stays:
                self._cancel(job)

    def _all_have_ended(self):
        return not self._open(self.jobs)

    def _is_empty(self):
        """Only Jobs that succeeded may be kept, with their pods and the Service for them."""
        kept = Job.objects.filter(state=JobState.SUCCEEDED)
        names = {f"{job.public_id}-{group.name}" for job in kept for group in job.groups.all()}
        names |= {job.public_id for job in kept}
        is_released = not Placement.objects.active().exists()
        is_quiet = not self.weather.astray
        return is_quiet and is_released and self.place.left() <= names and not self.witness.live()

    def _judge(self):
        assert held_twice() == []
        unhappy = self._unhappy()
        assert unhappy == [], f"{unhappy}\n{self.account()}"
        if missed := self.crew.missed():
            raise NobodyDied(f"nobody died of {missed}\n{self.account()}")

    def _unhappy(self):
        """Gangs that did not end as they were to: those that nobody cancelled have succeeded."""
        for job in self.jobs.values():
            job.refresh_from_db()
        fine = {True: {"cancelled", "succeeded"}, False: {"succeeded"}}
        return [
            f"{job} {job.state}"
            for gang, job in self.jobs.items()
            if job.state not in fine[gang.stays or gang.cancelled_when is not None]
        ]


def ledger():
    """Where each member that holds something is, and with which devices, as the rows say."""
    live = Member.objects.exclude(phase__in=ENDED_PHASES).select_related(
        "job", "group", "placement__node"
    )
    return {
        (
            own.job.public_id,
            own.group.name,
            own.attempt,
            own.rank,
            own.placement.node.name,
            tuple(sorted(device.gpu.index for device in own.devices.select_related("gpu"))),
        )
        for own in live
    }


def held_twice():
    """Devices that a placement took before the one before it gave them back."""
    rows = PlacementGpu.objects.order_by("gpu_id", "placement__bound_at", "pk").values_list(
        "gpu_id", "placement__bound_at", "released_at"
    )
    return [
        (before, after)
        for before, after in pairwise(rows)
        if before[0] == after[0] and (before[2] is None or after[1] < before[2])
    ]
