"""Who holds the GPUs that a tenant is guaranteed and leaves idle, and how fast they come back."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.contrib.postgres.aggregates import BoolAnd
from django.db.models import F, Max, Sum, Value
from django.db.models.functions import Coalesce

from scheduling.models import PlacementGpu
from scheduling.models.parts import as_whole_gpus
from scheduling.states import HOLDING
from tenants.models import Cohort, Quota, Tenant

USUAL_GRACE = 30  # seconds that a job has to end, when it does not say how long it needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A tenant that uses what another lends.

    back_seconds: until a reclaim has it all back; None when some of it is held by jobs that nobody
    may stop, and comes back as they end.
    """

    tenant: Tenant
    gpus: int
    back_seconds: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """What one tenant lends of one flavor.

    Lenders of a cohort share what is borrowed in it in proportion to what each leaves idle: the
    GPUs themselves belong to nobody.
    """

    flavor: str
    lent: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class _Held:
    gpus: int
    grace: int
    all_may_stop: bool


_NOTHING = _Held(0, 0, all_may_stop=True)


def loans_of(tenant: Tenant) -> dict[str, Loan]:
    """What `tenant` lends, by flavor name; none where it lends nothing. Five queries at most."""
    if tenant.cohort_id is None:
        return {}
    peers = {peer.pk: peer for peer in Tenant.objects.filter(cohort__in=_tree(tenant.cohort_id))}
    quotas: dict[int, dict[int, Quota]] = defaultdict(dict)
    for quota in Quota.objects.filter(tenant__in=peers).select_related("flavor"):
        quotas[quota.flavor_id][quota.tenant_id] = quota
    mine = {flavor: rows for flavor, rows in quotas.items() if tenant.pk in rows}
    held = _held(list(peers), list(mine))
    loans = (_loan(tenant, rows, held[flavor], peers) for flavor, rows in mine.items())
    return {loan.flavor: loan for loan in loans if loan.lent}


def shares(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in whole parts as the weights say; the largest remainders, then the first, get more.

    More than the weights together is cut to them: nobody lends what they do not leave idle.
    """
    whole = sum(weights)
    if not whole:
        return [0] * len(weights)
    total = min(total, whole)
    parts = [total * weight // whole for weight in weights]
    rest = sorted(range(len(weights)), key=lambda at: (-(total * weights[at] % whole), at))
    for at in rest[: total - sum(parts)]:
        parts[at] += 1
    return parts


def _loan(
    tenant: Tenant, quotas: Mapping[int, Quota], held: Mapping[int, _Held], peers: dict[int, Tenant]
) -> Loan:
    idle = {pk: _idle(quota, held.get(pk, _NOTHING).gpus) for pk, quota in quotas.items()}
    beyond = {pk: max(0, has.gpus - _nominal(quotas, pk)) for pk, has in held.items()}
    borrowers = sorted((pk for pk, n in beyond.items() if n), key=lambda pk: peers[pk].slug)
    lenders = sorted(idle)
    lent = shares(sum(beyond.values()), [idle[pk] for pk in lenders])[lenders.index(tenant.pk)]
    parts = shares(lent, [beyond[pk] for pk in borrowers])
    holders = (
        Holder(
            tenant=peers[pk],
            gpus=gpus,
            back_seconds=held[pk].grace if held[pk].all_may_stop else None,
        )
        for pk, gpus in zip(borrowers, parts, strict=True)
        if gpus
    )
    flavor = quotas[tenant.pk].flavor.name
    return Loan(flavor=flavor, lent=lent, holders=tuple(holders))


def _idle(quota: Quota, used: int) -> int:
    """GPUs that others may use now."""
    unused = max(0, quota.nominal - used)
    return unused if quota.lending_limit is None else min(unused, quota.lending_limit)


def _nominal(quotas: Mapping[int, Quota], tenant_id: int) -> int:
    return quotas[tenant_id].nominal if tenant_id in quotas else 0


def _tree(cohort_id: int) -> set[int]:
    """The keys of every cohort in the tree that `cohort_id` hangs in."""
    up = dict(Cohort.objects.values_list("pk", "parent_id"))

    def root(pk: int) -> int:
        while up[pk] is not None:
            pk = up[pk]
        return pk

    mine = root(cohort_id)
    return {pk for pk in up if root(pk) == mine}


def _held(tenant_ids: list[int], flavor_ids: list[int]) -> dict[int, dict[int, _Held]]:
    """By flavor and tenant. Standby jobs are not charged, and neither counted."""
    rows = (
        PlacementGpu.objects.active()
        .filter(
            placement__job__tenant__in=tenant_ids,
            placement__job__is_standby=False,
            placement__job__state__in=HOLDING,
            gpu__node__flavor__in=flavor_ids,
        )
        .values_list("gpu__node__flavor_id", "placement__job__tenant_id")
        .annotate(
            parts=Sum("parts"),
            grace=Max(Coalesce(F("placement__job__grace_seconds"), Value(USUAL_GRACE))),
            may_stop=BoolAnd("placement__job__is_preemptible"),
        )
    )
    held: dict[int, dict[int, _Held]] = defaultdict(dict)
    for flavor, tenant, parts, grace, may_stop in rows:
        held[flavor][tenant] = _Held(as_whole_gpus(parts), grace, all_may_stop=may_stop)
    return held
