"""Makes the demo's past: the trace's days through the simulator, on nodes like the demo's.

Tenants, quotas and sweeps are those of the demo. Jobs may borrow, save their work when they are
told to end, and then go on where they were: who makes room for whom is the engine's to say.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scheduling.engine.jobs import PlacedMember
from scheduling.engine.plan import Plan, Preempt
from scheduling.engine.policy import Policy
from scheduling.engine.scenario import read_scenario
from scheduling.engine.scenario.values import seconds
from scheduling.engine.snapshot import Snapshot
from scheduling.services.demo import SWEEP_EVERY, SWEEP_GPUS, SWEEP_SECONDS, SWEEPER, TENANTS
from scheduling.services.feeding import walltime_for
from scheduling.services.past.course import SWEEP, PastJob, Run, Seat, Told
from scheduling.simulation.forecast import WHOLE, Effort, Past, forecast
from scheduling.simulation.run import simulate
from scheduling.simulation.streams import ROUND_LIMITS
from scheduling.simulation.trace import (
    Keep,
    TraceFormat,
    TraceJob,
    members_of,
    philly_seconds,
    read_trace,
)

DAY = 86_400
DAYS = 30
NODES = {"h100-sxm": ("H100-SXM", 6), "a100-80gb": ("A100-80GB", 4), "l40s": ("L40S", 2)}
"""By the beginning of their names: the GPUs of the demo's nodes, eight each, and how many nodes."""

FABRICS = {"L40S": "ethernet-1"}
QUOTAS = {
    "ee9e8c": "H100-SXM:32,A100-80GB:16",
    "11cb48": "A100-80GB:4,L40S:8",
    "6214e9": "A100-80GB:4,L40S:4",
    "103959": "H100-SXM:16",
}
"""What the demo guarantees the tenants that stand for these; see `portal.site.seed`."""

FIRST_DAY = "2017-11-12 00:00:00"  # of the trace; the demo's own day follows the last one
MOST_GPUS = 32
LEAST_SECONDS, MOST_SECONDS = 1800, DAY
ONE_OF = 3  # jobs of a single GPU, of which the trace has thousands on some days
SAVE_SECONDS = 60
_SWEEPER = next(name for name, slug in TENANTS.items() if slug == SWEEPER)
LOOK_EVERY = 8 * 3600
FEWEST = 20  # ended jobs that say how long the next one runs, as for real estimates
PAST_JOBS = 1000
LOOK = Effort(cycles=16, depth=40)
MINUTE = 60


def jobs_of_the_past(trace: Path, *, days: int = DAYS) -> list[TraceJob]:
    """The jobs of the whole reduced Philly trace that the past is made of, and the sweeps.

    Raises TraceError as `read_trace`.
    """
    first = philly_seconds(FIRST_DAY)
    keep = Keep(
        tenants=frozenset(QUOTAS),
        max_gpus=MOST_GPUS,
        max_duration=MOST_SECONDS,
        window=(first, first + days * DAY),
    )
    kept = read_trace(trace, TraceFormat.PHILLY, keep=keep).jobs
    jobs = [job for job in kept if job.duration_seconds >= LEAST_SECONDS and _is_taken(job)]
    sweeps = [sweep_job(number, tenant=_SWEEPER) for number in range(days * DAY // SWEEP_EVERY)]
    jobs = sorted([*jobs, *sweeps], key=lambda job: job.submit_seconds)
    return [replace(job, row=row) for row, job in enumerate(jobs)]


def _is_taken(job: TraceJob) -> bool:
    return job.gpus > 1 or job.row % ONE_OF == 0


def sweep_job(number: int, *, tenant: str) -> TraceJob:
    """A sweep like those that the demo feeds beside its trace."""
    return TraceJob(
        key=f"{SWEEP}{number}",
        row=number,
        submit_seconds=number * SWEEP_EVERY,
        duration_seconds=SWEEP_SECONDS,
        gpus=SWEEP_GPUS,
        tenant=tenant,
    )


def make_past(jobs: Sequence[TraceJob], *, until: int = DAYS * DAY) -> list[PastJob]:
    """What became of the jobs that ended by then, in order of submission.

    jobs: in that order, and their times the seconds from the beginning.
    """
    witness = _Witness({f"j{job.row}": job for job in jobs})
    scenario = read_scenario(_scenario(jobs))
    for line in simulate(scenario, until=until, watch=witness.watch):
        over = witness.hear(line)
        if over:
            del scenario.world.jobs[over]  # or each cycle would look at all that ever were
    return witness.ended()


def _scenario(jobs: Sequence[TraceJob]) -> str:
    return "\n".join([*_site(), *map(_submission, jobs)])


def _site() -> Iterator[str]:
    for base, (model, count) in NODES.items():
        fabric = FABRICS.get(model, "infiniband-1")
        for number in range(1, count + 1):
            yield f"node {base}-{number:02d} 8x{model} fabric={fabric}"
    yield "cohort research"
    for tenant, quota in QUOTAS.items():
        yield f"tenant {tenant} cohort=research quota={quota}"


def _submission(job: TraceJob) -> str:
    members, gpus = members_of(job.gpus)
    limit = walltime_for(job.duration_seconds, ROUND_LIMITS)
    return (
        f"@{job.submit_seconds}s job j{job.row} {members}x{gpus} tenant={job.tenant}"
        f" walltime={limit}s takes={job.duration_seconds}s save={SAVE_SECONDS}s"
    )


@dataclass(slots=True)
class _Life:
    """What is known of one job so far. started: of the run under way."""

    job: TraceJob
    started: int | None = None
    seats: tuple[Seat, ...] = ()
    stopped_for: str = ""
    runs: list[Run] = field(default_factory=list)
    told: Told | None = None
    has_ended: bool = False

    @property
    def ran(self) -> int:
        return self.runs[-1].end - self.runs[-1].start


class _Witness:
    """Writes down who ran where and from when to when, and what was foretold."""

    def __init__(self, jobs: dict[str, TraceJob]) -> None:
        self._lives = {name: _Life(job) for name, job in jobs.items()}
        self._looked_at = -LOOK_EVERY
        self._ended: list[_Life] = []

    def watch(self, snapshot: Snapshot, policy: Policy, plan: Plan) -> None:
        now = snapshot.taken_at
        names = {job.id: job.name for job in (*snapshot.pending, *snapshot.running)}
        if now - self._looked_at >= LOOK_EVERY and self._is_asked_for(plan, names):
            self._looked_at = now
            self._look_ahead(snapshot, policy, plan, names)
        for start in plan.starts:
            life = self._lives[names[start.job]]
            life.started, life.seats = now, _seats(start.members, snapshot)
        for stop in plan.of(Preempt):
            claimant = names[stop.on_behalf_of] if stop.on_behalf_of is not None else ""
            own = self._lives.get(claimant)
            self._lives[names[stop.job]].stopped_for = own.job.key if own else ""

    def hear(self, line: str) -> str:
        """Take a line of the simulator; the name of the job that it says has ended, or nothing."""
        at, word, name, *_ = line.split()
        if word not in {"end", "gone"}:
            return ""
        life = self._lives[name]
        if life.started is None:
            raise AssertionError(f"it ended before it began: {line}")
        run = Run(life.started, seconds(at), life.seats, life.stopped_for if word == "gone" else "")
        life.runs.append(run)
        life.started, life.stopped_for = None, ""
        life.has_ended = word == "end"
        if life.has_ended:
            self._ended.append(life)
        return name if life.has_ended else ""

    def ended(self) -> list[PastJob]:
        return [
            PastJob(life.job, tuple(life.runs), life.told)
            for life in self._lives.values()
            if life.has_ended
        ]

    def _is_asked_for(self, plan: Plan, names: dict[int, str]) -> bool:
        return any(self._is_new(self._lives[names[hold.job]]) for hold in plan.holds)

    def _is_new(self, life: _Life) -> bool:
        return life.told is None and not life.runs

    def _look_ahead(
        self, snapshot: Snapshot, policy: Policy, plan: Plan, names: dict[int, str]
    ) -> None:
        """Foretell the starts of the jobs that wait for the first time, as the portal does."""
        place = {hold.job: index for index, hold in enumerate(plan.holds)}
        last = len(place)
        pending = sorted(snapshot.pending, key=lambda job: place.get(job.id, last))
        past = self._past(snapshot)
        if not past.anybody:
            return
        found = forecast(replace(snapshot, pending=tuple(pending)), policy, past, LOOK)
        for job, span in found.spans.items():
            life = self._lives[names[job]]
            if job in place and self._is_new(life):
                life.told = Told(
                    snapshot.taken_at, _minute(span.earliest), _minute(span.latest + MINUTE - 1)
                )

    def _past(self, snapshot: Snapshot) -> Past:
        number = {name: index for index, name in enumerate(snapshot.tenant_names)}
        used: dict[int, list[int]] = defaultdict(list)
        anybody: list[int] = []
        for life in self._ended[-PAST_JOBS:]:
            limit = walltime_for(life.job.duration_seconds, ROUND_LIMITS)
            part = min(WHOLE, life.ran * WHOLE // limit) if limit else WHOLE
            insort(used[number[life.job.tenant]], part)
            insort(anybody, part)
        return Past(
            used={tenant: parts for tenant, parts in used.items() if len(parts) >= FEWEST},
            anybody=anybody if len(anybody) >= FEWEST else (),
        )


def _seats(members: Sequence[PlacedMember], snapshot: Snapshot) -> tuple[Seat, ...]:
    by_rank = sorted(members, key=lambda member: member.rank)
    return tuple(
        Seat(
            snapshot.node_names[member.node],
            tuple(sorted(int(snapshot.gpu_index[gpu]) for gpu in member.gpus)),
        )
        for member in by_rank
    )


def _minute(instant: int) -> int:
    return instant - instant % MINUTE
