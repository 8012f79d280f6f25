"""What would become of a job if it were submitted now: it is submitted, judged, and forgotten."""

import time
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import connection, transaction

from scheduling import snapshots
from scheduling.engine.advice import RULED_OUT
from scheduling.engine.cycle import verdict_on
from scheduling.engine.plan import Start
from scheduling.engine.snapshot import Snapshot
from scheduling.models import Advice, Job
from scheduling.services.advice import search
from scheduling.services.caps import check_caps
from scheduling.services.checks import check_request
from scheduling.services.policies import policy_in_force
from scheduling.services.requests import JobRequest
from scheduling.services.submission import create_rows
from scheduling.services.verdicts import readable
from scheduling.snapshots.caps import OWN_CAP, cap_numbers
from tenants.access import require_role
from tenants.models import Role, Tenant, User

BUDGET_SECONDS = 1.0  # somebody waits for the page


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How the job would fare. job: it, with its reason where it would wait; it is not stored.

    starts_on: (node, members there), empty where it would wait. borrows: whether it starts on what
    others are guaranteed. advice: what would help it, where it would wait; not stored either.
    is_ruled_out: no waiting mends what keeps it back.
    """

    job: Job
    starts_on: tuple[tuple[str, int], ...] = ()
    borrows: bool = False
    advice: Advice | None = None
    is_ruled_out: bool = False


@transaction.atomic
def try_job(request: JobRequest, *, tenant: Tenant, by: User, at: datetime) -> Trial:
    """The verdict of a cycle at this moment on a job that nobody has submitted.

    It is judged by the very rows that a submission makes, which are rolled back. The cluster's row,
    on which cycles are asked for, is left alone: nobody waits for this. at: cluster clock. Raises
    NotAllowed, Refused.
    """
    if len(connection.atomic_blocks) == 1:  # inside a test's transaction the level is its own
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    require_role(by, tenant, Role.RESEARCHER)
    with transaction.atomic():
        check_request(request, tenant, at=at)
        check_caps(request, tenant, by)
        job = create_rows(replace(request, external_id=""), tenant=tenant, by=by, at=at)
        trial = _judge(job, at=at)
        transaction.set_rollback(True)
    return trial


def _judge(job: Job, *, at: datetime) -> Trial:
    began = time.perf_counter()
    policy = policy_in_force(job.cluster)
    snapshot = snapshots.take(job.cluster, at=at, policy=policy)
    verdict = verdict_on(snapshot, policy, job.pk)
    if isinstance(verdict, Start):
        return Trial(job=job, starts_on=_places(verdict, snapshot), borrows=verdict.borrowed)
    names = {each.id: each.name for each in (*snapshot.pending, *snapshot.running)}
    job.reason, job.reason_numbers = verdict.reason, readable(verdict, names)
    caps = cap_numbers(snapshot)
    if job.pk in caps:
        job.reason, job.reason_numbers = OWN_CAP, caps[job.pk]
    found, is_complete = search(snapshot, policy, job.pk, until=began + BUDGET_SECONDS)
    advice = Advice(job=job, found=found, is_complete=is_complete)
    return Trial(job=job, advice=advice, is_ruled_out=verdict.reason in RULED_OUT)


def _places(start: Start, snapshot: Snapshot) -> tuple[tuple[str, int], ...]:
    """Node names with the number of members on each, in the order of the plan."""
    counts: dict[str, int] = {}
    for member in start.members:
        name = snapshot.node_names[member.node]
        counts[name] = counts.get(name, 0) + 1
    return tuple(counts.items())
