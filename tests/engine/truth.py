"""Whether the reasons of a plan are true, asked of the planner's own answers to changed questions.

Each reason says that one thing stands in the way, often with numbers. So: take that thing away and
the reason must be gone; ask for exactly what the numbers leave and it must be there, for one more
and it must not. Nothing here reads what the planner worked out on its way to the reason.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cached_property

import numpy as np

from scheduling.engine.arrays import NEVER, UNLIMITED
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.jobs import Access, ParentState
from scheduling.engine.plan import Preempt, Reason, Reserve, Shrink, Start
from scheduling.engine.policy import Order
from scheduling.engine.snapshot import Quotas

BEFORE_ROOM = frozenset(
    {
        Reason.ON_HOLD,
        Reason.NOT_BEFORE,
        Reason.DEPENDENCY_FAILED,
        Reason.WAITING_FOR_DEPENDENCY,
        Reason.FOREIGN_GATE,
        Reason.NO_FLAVOR,
        Reason.MEMORY_TOO_SMALL,
        Reason.NEVER_FITS,
    }
)
"""Reasons that are looked for before anything is said of the cluster as it is now."""
NO_PLACE = frozenset({Reason.FRAGMENTED, Reason.NO_ROOM})
CUT_ANEW = NO_PLACE | {Reason.LAYOUT_NEEDED, Reason.MAKING_ROOM}
"""What keeps slices from a job on an empty cluster, too, while its boards are cut otherwise."""


def falsehoods(snapshot, policy, plan, answers=None):
    """What `plan` says of waiting jobs and is not true, in sentences.

    answers: of earlier questions about jobs alone on their cluster; they need not be asked again.
    """
    asked = _Question(snapshot, policy, plan, {} if answers is None else answers)
    return [
        f"{asked.job(hold).name}: {hold.reason} {dict(hold.numbers)}: {what}"
        for hold in plan.holds
        for what in asked.of(hold)
    ]


class _Question:
    """One plan and the snapshot it came from; what would be said if something were otherwise."""

    def __init__(self, snapshot, policy, plan, answers):
        self.snapshot, self.policy, self.plan = snapshot, policy, plan
        self.answers = answers
        self.pending = {job.id: job for job in snapshot.pending}
        self.running = {job.id: job for job in snapshot.running}
        self.place = {hold.job: place for place, hold in enumerate(plan.holds)}

    def job(self, hold):
        return self.pending[hold.job]

    def of(self, hold) -> Iterator[str]:
        numbers = dict(hold.numbers)
        yield from _ASKED[hold.reason](self, hold, numbers)
        if hold.reason not in BEFORE_ROOM:
            yield from self._could_start(hold)
        if "waits_for" in numbers and not self._never_ends(numbers["waits_for"]):
            yield "the job waited for does end"

    def reason(self, hold, *, job=None, policy=None, **parts):
        """Why the job would wait if it, or its surroundings, were otherwise; None if it starts."""
        changed = replace(self.snapshot, **parts)
        if job is not None:
            others = (job if own.id == job.id else own for own in changed.pending)
            changed = replace(changed, pending=tuple(others))
        return _said_of(hold.job, plan_cycle(changed, policy or self.policy))

    def alone(self, hold):
        """The job by itself, free of all it waits for, on the whole cluster, repaired and empty."""
        own, quotas, job = self.snapshot, self.snapshot.quotas, self.job(hold)
        changed = replace(
            own,
            taken_at=job.submitted_at if job.patience_seconds is None else own.taken_at,
            pending=(replace(job, held=False, not_before=None, after=(), gates=()),),
            running=(),
            holds=(),
            blocks=(),
            free=own.capacity,
            node_open=np.ones_like(own.node_open),
            node_closes_at=np.full_like(own.node_closes_at, NEVER),
            gpu_open=np.ones_like(own.gpu_open),
            gpu_free_milli=np.full_like(own.gpu_free_milli, 1000),
            gpu_free_memory_mib=own.gpu_memory_mib,
            mig_open=np.ones_like(own.mig_open),
            mig_free=np.ones_like(own.mig_free),
            slot_free=np.ones_like(own.slot_free),
            tenant_budget=np.full_like(own.tenant_budget, UNLIMITED),
            quotas=replace(
                quotas,
                limited=np.zeros_like(quotas.limited),
                usage=np.zeros_like(quotas.usage),
            ),
        )
        question = self.policy, _contents(changed)
        if question not in self.answers:
            self.answers[question] = _said_of(hold.job, plan_cycle(changed, self.policy))
        return self.answers[question]

    def _could_start(self, hold):
        left = self.alone(hold)
        sliced = any(own.request.kind == Access.SLICE for own in self.job(hold).groups)
        if left is not None and not (sliced and left in CUT_ANEW):
            yield f"it does not start on the empty cluster either, but {left}"

    def _never_ends(self, job_id):
        if job_id in self.pending:
            return True
        job = self.running[job_id]
        return job.limit_end_at is None or job.limit_end_at <= self.snapshot.taken_at

    def on_hold(self, hold, numbers):
        if not self.job(hold).held:
            yield "nobody holds it"

    def not_before(self, hold, numbers):
        if not self.snapshot.taken_at < numbers["at"] == self.job(hold).not_before:
            yield "its time has come"

    def dependency(self, hold, numbers):
        states = {own.job: own for own in self.job(hold).after}
        parent = states.get(numbers["job"])
        if parent is None:
            yield "it does not wait for that job"
        elif parent.state == ParentState.SUCCEEDED:
            yield "that job has succeeded"

    def foreign_gate(self, hold, numbers):
        if numbers["gate"] not in self.job(hold).gates:
            yield "there is no such gate"

    def no_flavor(self, hold, numbers):
        if np.isin(self.snapshot.node_flavor, self.job(hold).flavors).any():
            yield "a node has such a flavor"

    def memory(self, hold, numbers):
        if not numbers["largest"] < numbers["need"] == self.job(hold).gpu_memory_mib:
            yield "a GPU is large enough"

    def never_fits(self, hold, numbers):
        if self.alone(hold) != Reason.NEVER_FITS:
            yield "it fits on the empty cluster"
        if numbers["now"] > numbers["largest"]:
            yield "more fits now than ever"

    def over_ceiling(self, hold, numbers):
        yield from self._more(numbers, "limit", "asked")
        if self._without_quotas(hold) == Reason.OVER_CEILING:
            yield "it stays over its ceiling without one"

    def budget(self, hold, numbers):
        if numbers["asked"] != "unlimited":
            yield from self._more(numbers, "left", "asked")
        endless = np.full_like(self.snapshot.tenant_budget, UNLIMITED)
        if self.reason(hold, tenant_budget=endless) == Reason.BUDGET_EXHAUSTED:
            yield "it stays without budget when there is no limit"

    def making_room(self, hold, numbers):
        going = {own.job for own in self.plan.decisions if isinstance(own, Preempt | Shrink)}
        going |= {own.id for own in self.snapshot.running if own.stopping or own.stopping_members}
        if not set(numbers.get("victims", ())) <= going:
            yield "a victim is not told to stop"
        if hold.keeps and len(hold.keeps) < self.job(hold).min_members:
            yield "what is kept is less than its minimum"

    def quota(self, hold, numbers):
        yield from self._more(numbers, "free", "asked")
        names = (*self.snapshot.tenant_names, *self.snapshot.cohort_names)
        if numbers["at"] not in names:
            yield "there is no such tenant or cohort"
        if self._without_quotas(hold) == Reason.QUOTA_EXHAUSTED:
            yield "it stays out of quota when there is no limit"

    def maintenance(self, hold, numbers):
        closes = self.snapshot.node_closes_at
        if numbers["from"] not in closes.tolist():
            yield "no node closes then"
        if self.reason(hold, node_closes_at=np.full_like(closes, NEVER)) == Reason.MAINTENANCE:
            yield "no node closes, and it is still kept from one"

    def unhealthy(self, hold, numbers):
        own = self.snapshot
        repaired = {
            "gpu_open": np.ones_like(own.gpu_open),
            "mig_open": np.ones_like(own.mig_open),
        }
        if self.reason(hold, **repaired) == Reason.UNHEALTHY:
            yield "nothing is faulty, and it still waits for a repair"
        if not 1 <= numbers["missing"] <= self.job(hold).min_members:
            yield "so many members cannot be missing"

    def layout(self, hold, numbers):
        if numbers["profile"] not in {own.request.profile for own in self.job(hold).groups}:
            yield "it does not ask for that profile"

    def no_walltime(self, hold, numbers):
        shorter = replace(self.job(hold), walltime_seconds=numbers["at_most"])
        if self.reason(hold, job=shorter) is not None:
            yield "it does not start with that walltime"

    def strict_order(self, hold, numbers):
        earlier = self.place.get(numbers["job"])
        if earlier is None or earlier >= self.place[hold.job]:
            yield "that job does not wait before it"

    def would_delay(self, hold, numbers):
        promised = {(own.job, own.start_at) for own in self.plan.of(Reserve)}
        promised |= {(own.name, own.from_at) for own in self.snapshot.blocks}
        if (numbers["job"], numbers["at"]) not in promised:
            yield "nothing is promised to it then"
        free = replace(self.policy, reservations=0)
        if self.reason(hold, policy=free, blocks=()) == Reason.WOULD_DELAY:
            yield "nothing is promised, and it still would delay"

    def fragmented(self, hold, numbers):
        job = self.job(hold)
        if not numbers["largest"] < job.min_members <= numbers["free"]:
            yield "the numbers do not say that it is enough, and scattered"
        yield from self._exactly(hold, numbers["largest"], NO_PLACE)

    def no_room(self, hold, numbers):
        least = self.job(hold).min_members
        if not 1 <= numbers["missing"] <= least:
            yield "so many members cannot be missing"
        yield from self._exactly(hold, least - numbers["missing"], {Reason.NO_ROOM})

    def _exactly(self, hold, members, reasons):
        """With `members` members the job has none of `reasons`; with one more it does not start.

        Not asked of several groups, since the reason does not say whose members are too many, and
        only where the size of a job does not bear on its turn.
        """
        job = self.job(hold)
        if len(job.groups) > 1 or job.min_total or self.policy.order != Order.FIFO:
            return
        if members and self.reason(hold, job=_of_members(job, members)) in reasons:
            yield f"{members} members are too many as well"
        more = members + 1
        if more < job.min_members and self.reason(hold, job=_of_members(job, more)) is None:
            yield f"{more} members start"

    def _without_quotas(self, hold):
        return _said_of(hold.job, self._plan_without_quotas)

    @cached_property
    def _plan_without_quotas(self):
        quotas = self.snapshot.quotas
        unlimited = replace(quotas, limited=np.zeros_like(quotas.limited))
        return plan_cycle(replace(self.snapshot, quotas=unlimited), self.policy)

    def _more(self, numbers, less, more):
        if numbers[less] >= numbers[more]:
            yield f"{less} is not less than {more}"


def _said_of(job_id, plan):
    """Why the job waits; None if it starts."""
    verdict = next(own for own in (*plan.starts, *plan.holds) if own.job == job_id)
    return None if isinstance(verdict, Start) else verdict.reason


def _contents(row):
    """Every field of a snapshot or its quotas, arrays as bytes: equal for equal ones."""
    return tuple(_content(getattr(row, field.name)) for field in fields(row))


def _content(value):
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return _contents(value) if isinstance(value, Quotas) else value


def _of_members(job, members):
    (group,) = job.groups
    fewer = replace(group, min_member=members, max_member=max(members, group.max_member))
    return replace(job, groups=(fewer,))


_ASKED = {
    Reason.ON_HOLD: _Question.on_hold,
    Reason.NOT_BEFORE: _Question.not_before,
    Reason.DEPENDENCY_FAILED: _Question.dependency,
    Reason.WAITING_FOR_DEPENDENCY: _Question.dependency,
    Reason.FOREIGN_GATE: _Question.foreign_gate,
    Reason.NO_FLAVOR: _Question.no_flavor,
    Reason.MEMORY_TOO_SMALL: _Question.memory,
    Reason.NEVER_FITS: _Question.never_fits,
    Reason.OVER_CEILING: _Question.over_ceiling,
    Reason.BUDGET_EXHAUSTED: _Question.budget,
    Reason.MAKING_ROOM: _Question.making_room,
    Reason.QUOTA_EXHAUSTED: _Question.quota,
    Reason.MAINTENANCE: _Question.maintenance,
    Reason.UNHEALTHY: _Question.unhealthy,
    Reason.LAYOUT_NEEDED: _Question.layout,
    Reason.NO_WALLTIME: _Question.no_walltime,
    Reason.STRICT_ORDER: _Question.strict_order,
    Reason.WOULD_DELAY: _Question.would_delay,
    Reason.FRAGMENTED: _Question.fragmented,
    Reason.NO_ROOM: _Question.no_room,
}
