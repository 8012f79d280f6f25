"""Laws of plans over time, read from decisions alone: whose jobs are stopped, what is promised.

Quota is counted here anew, from the members of jobs, not from the books that the planner keeps.
"""

from collections import Counter, defaultdict

from scheduling.engine.charge import charges, least_parts
from scheduling.engine.fleet import Fleet
from scheduling.engine.plan import Grow, Hold, Preempt, Reserve, Shrink, Start


def unlawful_stops(snapshot, policy, plan):
    """Stops of jobs that nothing allows, in sentences.

    A job is stopped for another if it is standby, or of lower priority in the same tenant (in any,
    from the priority on that the policy names), or if its tenant uses more than its nominal quota
    at that moment and the claimant's tenant ends within its own.
    """
    return list(_Stops(snapshot, policy).of(plan))


class _Stops:
    def __init__(self, snapshot, policy):
        self.snapshot, self.policy = snapshot, policy
        self.fleet = Fleet(snapshot)
        self.running = {job.id: job for job in snapshot.running}
        self.pending = {job.id: job for job in snapshot.pending}
        self.used = Counter()
        for job in snapshot.running:
            leaving = job.members if job.stopping else job.stopping_members
            self.charge(job, [own for own in job.members if own not in leaving])

    def charge(self, job, members, sign=1):
        for flavor, parts in charges(self.fleet, job, members).items():
            self.used[job.tenant, flavor] += sign * parts

    def of(self, plan):
        for decision in plan.decisions:
            if isinstance(decision, Start):
                self.charge(self.pending[decision.job], decision.members)
            elif isinstance(decision, Grow):
                self.charge(self.running[decision.job], decision.members)
            elif isinstance(decision, Shrink):
                self.charge(self.running[decision.job], decision.members, -1)
            elif isinstance(decision, Preempt):
                victim = self.running[decision.job]
                if decision.on_behalf_of is not None:
                    yield from self.stop(victim, self.pending[decision.on_behalf_of])
                staying = [own for own in victim.members if own not in victim.stopping_members]
                self.charge(victim, staying, -1)
            elif isinstance(decision, Hold) and decision.keeps:
                self.charge(self.pending[decision.job], decision.keeps)

    def stop(self, victim, claimant):
        across = self.policy.across
        outranks = claimant.priority > victim.priority and (
            claimant.tenant == victim.tenant or (across is not None and claimant.priority >= across)
        )
        if not (victim.standby or outranks or self.is_reclaim(victim, claimant)):
            yield f"{victim.name} is stopped for {claimant.name}, which has no right to its devices"

    def is_reclaim(self, victim, claimant):
        quotas = self.snapshot.quotas
        lent = any(
            self.used[victim.tenant, flavor] > quotas.nominal[victim.tenant, flavor]
            for flavor in charges(self.fleet, victim, victim.members)
        )
        asked = least_parts(self.fleet, claimant)
        owned = quotas.limited[claimant.tenant] and any(
            self.used[claimant.tenant, flavor] + asked <= quotas.nominal[claimant.tenant, flavor]
            for flavor in claimant.flavors or range(len(self.snapshot.flavors))
        )
        return lent and owned and claimant.tenant != victim.tenant


class Promises:
    """What whoever was first in turn was promised, plan by plan, and what became of it.

    Of later promises no more is said: an earlier one that comes to lie earlier may push them back.
    """

    def __init__(self):
        self.promised = defaultdict(list)
        self.broken = []

    def watch(self, snapshot, _policy, plan):
        at, now = snapshot.taken_at, {own.job: own.start_at for own in plan.of(Reserve)}
        started = {own.job for own in plan.starts}
        for job in snapshot.pending:
            told = self.promised[job.id]
            if told and job.id in started and at > told[-1]:
                self.broken.append(f"{job.name}: {told}, started at {at}")
            elif told and job.id not in started and now.get(job.id, at) > told[-1]:
                self.broken.append(f"{job.name}: {told}, then {now.get(job.id)} at {at}")
        for job in list(now)[:1]:
            self.promised[job].append(now[job])
