"""What tenants were granted and people were promised: budgets, past use, maintenance, blocks."""

import math
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import DurationField, ExpressionWrapper, F, FloatField, Func, Q, Sum, Value
from django.db.models.functions import Coalesce, Exp, Greatest, Least

from scheduling.engine.arrays import NEVER, UNLIMITED
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Block
from scheduling.models import BlockPart, Placement, devices_per_member
from scheduling.snapshots.rows import Rows
from scheduling.snapshots.times import seconds
from tenants.models import Budget
from topology.models import MaintenanceWindow

HOUR = 3600
_FORGOTTEN = 20  # half-lives after which a GPU-day of use counts less than a second


class Epoch(Func):
    """A duration in seconds."""

    template = "EXTRACT(EPOCH FROM (%(expressions)s))"
    output_field = FloatField()


def closing_times(rows: Rows, at: datetime) -> dict[str, Any]:
    """When each node closes for maintenance: the earliest window that is not over. One query."""
    closes = [NEVER] * len(rows.positions.nodes)
    windows = MaintenanceWindow.objects.filter(cluster=rows.cluster, until_at__gt=at)
    for node_id, from_at in windows.values_list("nodes", "from_at"):
        node = rows.positions.nodes.get(node_id)
        if node is not None:
            closes[node] = min(closes[node], seconds(from_at))
    return {"node_closes_at": closes}


def blocks(rows: Rows, at: datetime) -> tuple[Block, ...]:
    """Capacity that is promised, as long as it is. One query."""
    parts = BlockPart.objects.filter(block__cluster=rows.cluster, block__until_at__gt=at)
    found, amounts = {}, defaultdict(list)
    for part in parts.select_related("block").order_by("block_id", "node_id"):
        node = rows.positions.nodes.get(part.node_id)
        if node is not None:
            found[part.block_id] = part.block
            amounts[part.block_id].append((node, part.gpus))
    return tuple(
        Block(
            name=block.name,
            amounts=tuple(sorted(amounts[pk])),
            from_at=seconds(block.from_at),
            to_at=seconds(block.until_at),
            tenant=None if block.tenant_id is None else rows.positions.tenants[block.tenant_id],
        )
        for pk, block in found.items()
    )


def budgets(rows: Rows, policy: Policy, at: datetime) -> dict[str, Any]:
    """GPU-seconds that each tenant has left of the tightest of its budgets in force. One query.

    What its jobs have used in the time of the budget is off, and the most that those that run may
    still use. Without a budget a tenant is not limited.
    """
    left = [UNLIMITED] * len(rows.tenants)
    of_job, of_place = "tenant__jobs__", "tenant__jobs__placements__"
    used = ExpressionWrapper(
        (
            Least(Coalesce(F(f"{of_place}released_at"), Value(at)), Value(at))
            - Greatest(F(f"{of_place}bound_at"), F("from_at"))
        )
        * F(f"{of_place}member_count")
        * devices_per_member(f"{of_place}group__"),
        output_field=DurationField(),
    )
    counts = Q(**{f"{of_job}cluster": rows.cluster, f"{of_job}is_standby": False})
    inside = Q(**{f"{of_place}released_at": None}) | Q(
        **{f"{of_place}released_at__gt": F("from_at")}
    )
    in_force = Budget.objects.filter(cluster=rows.cluster, from_at__lte=at, until_at__gt=at)
    found = list(in_force.annotate(used=Sum(used, filter=counts & inside)).order_by("pk"))
    promised = _still_to_use(rows, policy, at) if found else {}
    for budget in found:
        tenant = rows.positions.tenants[budget.tenant_id]
        gone = int((budget.used or timedelta(0)).total_seconds())
        rest = budget.gpu_hours * HOUR - gone - promised[tenant]
        left[tenant] = min(left[tenant], max(0, rest))
    return {"tenant_budget": left}


def _still_to_use(rows: Rows, policy: Policy, at: datetime) -> Mapping[int, int]:
    """GPU-seconds that jobs which hold GPUs may use until their walltime is over, by tenant."""
    coming: dict[int, int] = defaultdict(int)
    for job in (holder.job for holder in rows.holders):
        walltime = job.walltime_seconds or policy.default_walltime
        if walltime is not None and not job.standby:
            devices = sum(
                len((*member.gpus, *member.instances, *member.slots)) for member in job.members
            )
            coming[job.tenant] += devices * max(0, walltime - (seconds(at) - job.started_at))
    return coming


def history(rows: Rows, policy: Policy, at: datetime) -> dict[str, Any]:
    """Past use of each tenant in GPU-seconds, halved once per half-life. One query at most.

    An hour of use decays on while it lasts: the integral of 2^-((at - t) / half_life) over it.
    Standby jobs are not counted. 0 for all where the policy does not look at it.
    """
    past = [0] * len(rows.tenants)
    if not policy.history_weight:
        return {"tenant_history": past}
    rate = math.log(2) / max(1, policy.half_life)
    ends = Least(Coalesce("released_at", Value(at)), Value(at))
    decayed = Exp(-rate * _before(at, ends)) - Exp(-rate * _before(at, F("bound_at")))
    gpus = F("member_count") * devices_per_member("group__")
    oldest = at - timedelta(seconds=policy.half_life) * _FORGOTTEN
    uses = Placement.objects.filter(
        Q(released_at=None) | Q(released_at__gt=oldest),
        job__cluster=rows.cluster,
        job__is_standby=False,
        bound_at__lt=at,
    )
    sums = uses.values("job__tenant").annotate(
        total=Sum(ExpressionWrapper(gpus * decayed / rate, output_field=FloatField()))
    )
    for row in sums:
        past[rows.positions.tenants[row["job__tenant"]]] = round(row["total"])
    return {"tenant_history": past}


def _before(at: datetime, instant: Any) -> Epoch:
    """Seconds from `instant` to `at`."""
    return Epoch(ExpressionWrapper(Value(at) - instant, output_field=DurationField()))
