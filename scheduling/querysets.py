from collections import defaultdict
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Self

from django.db.models import Q

from scheduling.states import DISPLACEABLE, FINAL, HOLDING, JobState
from tenants.querysets import TenantScopedQuerySet


class JobQuerySet(TenantScopedQuerySet):
    def waiting(self) -> Self:
        return self.filter(state=JobState.QUEUED)

    def displaceable(self) -> Self:
        """Holding GPUs, and not yet told to give them back."""
        return self.filter(state__in=DISPLACEABLE)

    def holding(self) -> Self:
        """Holding GPUs, or about to."""
        return self.filter(state__in=HOLDING)

    def ended(self) -> Self:
        return self.filter(state__in=FINAL)

    def in_queue_order(self) -> Self:
        """Urgent first, then oldest; the key last, so that a tie has one answer."""
        return self.order_by("-priority", "submitted_at", "pk")

    def newest_first(self) -> Self:
        return self.order_by("-submitted_at", "-pk")


class PlacementQuerySet(TenantScopedQuerySet):
    tenant_path = "job__tenant"

    def active(self) -> Self:
        """Holding their devices."""
        return self.filter(released_at__isnull=True)


class OfJobQuerySet(TenantScopedQuerySet):
    tenant_path = "job__tenant"


class PlacementGpuQuerySet(TenantScopedQuerySet):
    tenant_path = "placement__job__tenant"

    def active(self) -> Self:
        return self.filter(released_at__isnull=True)


def of_attempts(attempts: Mapping[int, int], *, job: str = "job", via: str = "") -> Q:
    """The rows of these attempts, by the keys of their jobs.

    job: the field that names the job; via: leads to what has it, as in "member__".
    """
    jobs = defaultdict(list)
    for key, attempt in attempts.items():
        jobs[attempt].append(key)
    each = (Q((f"{via}{job}__in", own), (f"{via}attempt", number)) for number, own in jobs.items())
    return reduce(or_, each, Q(pk__in=[]))
