"""The rules that every plan keeps, as code: tests, simulator and apply step ask the same."""

from collections import Counter
from collections.abc import Iterator

from scheduling.engine.charge import charges
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import Access, JobSpec, PendingJob, PlacedMember
from scheduling.engine.ledger import WHOLE_MILLI, Ledger
from scheduling.engine.plan import Hold, Plan, Start
from scheduling.engine.quota import Books
from scheduling.engine.snapshot import Snapshot


def violations(snapshot: Snapshot, plan: Plan) -> list[str]:
    """What is wrong with `plan`, in sentences; empty for a sound one."""
    return [*_verdicts(snapshot, plan), *_starts(snapshot, plan)]


def _verdicts(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    if plan.taken_at != snapshot.taken_at:
        yield "the plan is of another instant than the snapshot"
    verdicts = Counter(
        decision.job for decision in plan.decisions if isinstance(decision, Start | Hold)
    )
    pending = {job.id for job in snapshot.pending}
    for job in snapshot.pending:
        if verdicts[job.id] != 1:
            yield f"job {job.id} has {verdicts[job.id]} verdicts"
    for job_id in verdicts:
        if job_id not in pending:
            yield f"job {job_id} has a verdict and is not waiting"


def _starts(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    fleet = Fleet(snapshot)
    ledger, books = Ledger(fleet), Books(snapshot.quotas)
    pending = {job.id: job for job in snapshot.pending}
    for start in plan.starts:
        job = pending.get(start.job)
        if job is None:
            continue
        yield from _gang(job, start.members)
        yield from _hardware(fleet, job, start.members)
        yield from _wishes(fleet, job, start.members)
        if not _fits(ledger, job, start.members):
            yield f"job {job.id} is given what is not free"
            continue
        ledger.take(job, start.members)
        for flavor, parts in charges(fleet, job, start.members).items():
            if parts > books.available(job.tenant, flavor):
                yield f"job {job.id} exceeds the quota of its tenant"
            books.charge(job.tenant, flavor, parts)


def _gang(job: PendingJob, members: tuple[PlacedMember, ...]) -> Iterator[str]:
    if job.held or job.gates:
        yield f"job {job.id} is on hold"
    counts = Counter(member.group for member in members)
    for index, group in enumerate(job.groups):
        if not group.min_member <= counts[index] <= group.max_member:
            yield f"job {job.id} got {counts[index]} members of group {index}"
    if len(members) < job.min_members:
        yield f"job {job.id} got {len(members)} members in all"
    ranks = [(member.group, member.rank) for member in members]
    if ranks != [(group, rank) for group in sorted(counts) for rank in range(counts[group])]:
        yield f"the ranks of job {job.id} are not in order"


def _hardware(fleet: Fleet, job: JobSpec, members: tuple[PlacedMember, ...]) -> Iterator[str]:
    suitable = fleet.suitable(job.flavors, job.service_class) & fleet.snapshot.node_open
    for member in members:
        request = job.groups[member.group].request
        if not suitable[member.node]:
            yield f"job {job.id} is on node {member.node}, which is not open to it"
        if len(set(member.gpus)) != (request.count if request.kind == Access.WHOLE else 0):
            yield f"a member of job {job.id} got {len(member.gpus)} GPUs"
        for gpu in member.gpus:
            if gpu not in fleet.gpus_of(member.node) or not fleet.exclusive[gpu]:
                yield f"job {job.id} got GPU {gpu}, which it cannot use"
            elif fleet.snapshot.gpu_memory_mib[gpu] < job.gpu_memory_mib:
                yield f"job {job.id} got GPU {gpu}, which is too small"


def _wishes(fleet: Fleet, job: JobSpec, members: tuple[PlacedMember, ...]) -> Iterator[str]:
    if job.required is None:
        return
    domain = fleet.domains(job.required)
    if len({int(domain[member.node]) for member in members}) > 1:
        yield f"job {job.id} is in more than one {job.required.name.lower()}"


def _fits(ledger: Ledger, job: JobSpec, members: tuple[PlacedMember, ...]) -> bool:
    gpus = [gpu for member in members for gpu in member.gpus]
    if len(gpus) != len(set(gpus)) or any(ledger.gpu_milli[gpu] != WHOLE_MILLI for gpu in gpus):
        return False
    free = ledger.free.copy()
    for member in members:
        vector = ledger.fleet.vector(job.groups[member.group].request)
        if vector is None:
            return False
        free[:, member.node] -= vector
    return bool((free >= 0).all())
