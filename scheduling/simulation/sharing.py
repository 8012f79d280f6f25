"""What a tenant has of its own, and whether sharing the cluster serves it better than that."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.engine.policy import Order, Policy
from scheduling.simulation.outcome import Outcome, StreamJob
from scheduling.simulation.pool import run_pool

ALONE = Policy(order=Order.FIFO, strict=True)


@dataclass(frozen=True, slots=True)
class Sharing:
    """Mean waits of a tenant's jobs that its quota holds: as they were, and alone on the quota."""

    quota: int
    jobs: int
    shared_wait: float
    alone_wait: float

    @property
    def is_worse_off(self) -> bool:
        return self.shared_wait > self.alone_wait


def fair_quotas(jobs: Sequence[StreamJob], gpus: int) -> dict[str, int]:
    """Whole GPUs of each tenant in proportion to its GPU-seconds, by largest remainder."""
    weights: dict[str, int] = defaultdict(int)
    for job in jobs:
        weights[job.tenant] += job.gpus * job.runtime
    total = sum(weights.values())
    quotas = {tenant: weight * gpus // total for tenant, weight in weights.items()}
    left = gpus - sum(quotas.values())
    by_remainder = sorted(weights, key=lambda own: (-(weights[own] * gpus % total), own))
    for tenant in by_remainder[:left]:
        quotas[tenant] += 1
    return quotas


def sharing(outcomes: Sequence[Outcome], gpus: int) -> Mapping[str, Sharing]:
    """How each tenant fares against first come, first served alone on its fair quota.

    Jobs wider than the quota are left out, and tenants without a quota or such a job.
    """
    quotas = fair_quotas([own.job for own in outcomes], gpus)
    return {
        tenant: _against_alone(own, quota)
        for tenant, quota in sorted(quotas.items())
        if (own := [it for it in outcomes if it.job.tenant == tenant and it.job.gpus <= quota])
    }


def _against_alone(shared: Sequence[Outcome], quota: int) -> Sharing:
    alone = run_pool([own.job for own in shared], quota, ALONE)
    return Sharing(
        quota=quota,
        jobs=len(shared),
        shared_wait=sum(own.wait for own in shared) / len(shared),
        alone_wait=sum(own.wait for own in alone if own) / len(shared),
    )
