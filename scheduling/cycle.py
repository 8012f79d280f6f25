import logging
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime

from portal.core.db import consistent_read
from portal.core.locks import LockSpace, advisory_lock
from scheduling import snapshots
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.invariants import violations
from scheduling.engine.memory import Memory
from scheduling.services.layout_requests import note_layout_requests
from scheduling.services.outlook import note_order
from scheduling.services.plans import apply_plan
from scheduling.services.policies import policy_in_force
from scheduling.services.recording import Decided, record_cycle
from topology.models import Cluster

logger = logging.getLogger(__name__)

_memories: defaultdict[int, Memory] = defaultdict(Memory)
"""By cluster, what this process's last cycle knew; no plan depends on it, so workers may differ."""


def run(cluster_id: int, *, at: datetime) -> None:
    """One scheduling cycle of one cluster, top to bottom. at: cluster clock."""
    began = time.perf_counter()

    # 1. See: one instant of the database, as arrays.
    with consistent_read():
        cluster = Cluster.objects.get(pk=cluster_id)
        policy = policy_in_force(cluster)
        snapshot = snapshots.take(cluster, at=at, policy=policy)

    # 2. Think: no database, no clock, no network.
    plan = plan_cycle(snapshot, policy, _memories[cluster_id])

    # 3. Doubt: a plan that breaks a rule is a bug of ours, and is not carried out.
    if wrong := violations(snapshot, plan, policy):
        raise AssertionError(f"unsound plan for cluster {cluster.slug}: {wrong}")

    # 4. Act: rows first; what Kubernetes must do is queued with them, in the same transaction.
    applied = apply_plan(plan, snapshot, at=at)
    note_layout_requests(plan, snapshot, cluster=cluster, at=at)
    note_order(plan, cluster=cluster, at=at)
    decided = Decided(snapshot=snapshot, policy=policy, plan=plan, applied=applied)
    record_cycle(decided, cluster=cluster, at=at, seconds=time.perf_counter() - began)
    Cluster.objects.filter(pk=cluster_id, cycle_answered__lt=cluster.cycle_asked).update(
        cycle_answered=cluster.cycle_asked
    )
    logger.info(
        "cluster %s: %d started, %d waiting, %d skipped",
        *(cluster.slug, applied.started, len(plan.holds), applied.skipped),
    )


def run_while_asked(cluster_id: int, *, clock: Callable[[Cluster], datetime]) -> int:
    """Plan until nobody asks any more; 0 at once when another worker plans, or nobody asked.

    Whoever asked while a cycle ran is served by one more cycle, at once. The number is looked at
    once more after the lock is let go, so that nobody's asking falls between the two.
    """
    cycles = 0
    while _is_asked(cluster_id):
        with advisory_lock(LockSpace.CYCLE, cluster_id) as held:
            if not held:
                break
            while (cluster := _is_asked(cluster_id)) is not None:
                run(cluster_id, at=clock(cluster))
                cycles += 1
    return cycles


def _is_asked(cluster_id: int) -> Cluster | None:
    cluster = Cluster.objects.get(pk=cluster_id)
    return cluster if cluster.cycle_asked > cluster.cycle_answered else None
