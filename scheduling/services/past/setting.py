"""What people decided in the demo's past: requests that have ended, and budgets half used.

It is made up like the tenants': no trace tells of it. Nothing of the requests is in force.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from portal.core.clock import day_in
from tenants.models import QuotaGrant, QuotaRequest, QuotaRequestEvent, Tenant, User
from tenants.services.budgets import set_budget
from tenants.services.quota_moves import numbers_of
from tenants.states import RequestState
from topology.models import Cluster

Action = QuotaRequestEvent.Action
Purpose = QuotaRequest.Purpose

BUDGETS = {"vision": 6_000, "robotics": 12_000}
"""GPU-hours by tenant, from the beginning of the past on: more than the demo ever uses of them."""

BUDGET_DAYS = 90


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a request. hours_ago: before now; by_lead: by who asked, or by an operator."""

    action: str
    became: str
    hours_ago: int
    note: str = ""
    by_lead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A request that has ended. Days are counted back from today."""

    tenant: str
    lead: str
    purpose: str
    flavor: str
    gpus: int
    first_day: int
    last_day: int
    why: str
    steps: Sequence[Step]
    granted: int = 0


REQUESTS = (
    Decided(
        tenant="vision",
        lead="elena-rossi",
        purpose=Purpose.TRAINING,
        flavor="H100-SXM",
        gpus=16,
        first_day=24,
        last_day=3,
        why="Pre-training of the video encoder on the new footage: three weeks on two nodes.",
        steps=(
            Step(Action.CREATE, RequestState.DRAFT, 604, by_lead=True),
            Step(Action.SUBMIT, RequestState.SUBMITTED, 603, by_lead=True),
            Step(
                Action.REJECT,
                RequestState.REJECTED,
                570,
                "All H100 are guaranteed to others in these weeks. Idle ones can be borrowed.",
            ),
        ),
    ),
    Decided(
        tenant="robotics",
        lead="carla-mendes",
        purpose=Purpose.COURSE,
        flavor="L40S",
        gpus=4,
        granted=4,
        first_day=21,
        last_day=8,
        why="Two weeks of exercises for the autumn course: twelve students, four at a time.",
        steps=(
            Step(Action.CREATE, RequestState.DRAFT, 552, by_lead=True),
            Step(Action.SUBMIT, RequestState.SUBMITTED, 551, by_lead=True),
            Step(Action.APPROVE, RequestState.APPROVED, 528),
            Step(Action.START, RequestState.ACTIVE, 528),
            Step(Action.END, RequestState.GRACE, 184),
            Step(Action.CLOSE, RequestState.CLOSED, 160),
        ),
    ),
    Decided(
        tenant="nlp",
        lead="mei-lin",
        purpose=Purpose.INFERENCE,
        flavor="A100-80GB",
        gpus=8,
        granted=4,
        first_day=14,
        last_day=1,
        why="Serving the evaluation model to the annotators while they label the second half.",
        steps=(
            Step(Action.CREATE, RequestState.DRAFT, 380, by_lead=True),
            Step(Action.SUBMIT, RequestState.SUBMITTED, 380, by_lead=True),
            Step(Action.ASK, RequestState.NEEDS_INFO, 361, "How many requests a second is that?"),
            Step(Action.ANSWER, RequestState.IN_REVIEW, 355, "About three.", by_lead=True),
            Step(Action.COUNTER, RequestState.COUNTERED, 340, "Four will do for that."),
            Step(
                Action.DECLINE,
                RequestState.DECLINED,
                338,
                "Then we stay within what we have.",
                by_lead=True,
            ),
        ),
    ),
)


def set_the_scene(cluster: Cluster, *, began: datetime, wall: datetime) -> None:
    """Write the requests and the budgets down. began: cluster clock; wall: wall clock."""
    operator = User.objects.filter(is_operator=True).order_by("pk").first()
    if operator is None:
        return
    for decided in REQUESTS:
        _remember(decided, cluster, operator, wall=wall)
    for slug, hours in BUDGETS.items():
        set_budget(
            Tenant.objects.get(slug=slug),
            cluster,
            gpu_hours=hours,
            from_at=began,
            until_at=began + timedelta(days=BUDGET_DAYS),
            by=operator,
        )


def _remember(decided: Decided, cluster: Cluster, operator: User, *, wall: datetime) -> None:
    today = day_in(cluster, wall=wall)
    lead = User.objects.get(username=decided.lead)
    flavor = cluster.flavors.get(name=decided.flavor)
    submitted = next(step for step in decided.steps if step.action == Action.SUBMIT)
    request = QuotaRequest.objects.create(
        tenant=Tenant.objects.get(slug=decided.tenant),
        cluster=cluster,
        requested_by=lead,
        purpose=decided.purpose,
        flavor=flavor,
        gpus=decided.gpus,
        starts_on=today - timedelta(days=decided.first_day),
        ends_on=today - timedelta(days=decided.last_day),
        justification=decided.why,
        state=decided.steps[-1].became,
        version=len(decided.steps),
        created_at=_ago(wall, decided.steps[0]),
        submitted_at=_ago(wall, submitted),
    )
    if decided.granted:
        QuotaGrant.objects.create(
            request=request,
            flavor=flavor,
            gpus=decided.granted,
            starts_on=request.starts_on,
            ends_on=request.ends_on,
        )
    was = ""
    for step in decided.steps:
        QuotaRequestEvent.objects.create(
            request=request,
            action=step.action,
            from_state=was,
            to_state=step.became,
            actor=_actor(step, lead, operator),
            at=_ago(wall, step),
            note=step.note,
            numbers=numbers_of(request) if step.action == Action.SUBMIT else {},
            is_told=True,
        )
        was = step.became


def _actor(step: Step, lead: User, operator: User) -> User | None:
    """The system lets grants begin and end."""
    if step.action in {Action.START, Action.END, Action.CLOSE}:
        return None
    return lead if step.by_lead else operator


def _ago(wall: datetime, step: Step) -> datetime:
    return wall - timedelta(hours=step.hours_ago)
