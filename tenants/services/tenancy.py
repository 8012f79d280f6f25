"""What a tenant has in a cluster beside its jobs: looked at, put right, and noted.

A namespace with its walls and rights. The rows here only say what was seen; what should be there
follows from quotas, the tenant and nothing else, so that doing it twice changes nothing.
"""

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from portal.core import audit
from portal.core.queueing import send_on_commit
from tenants.models import Quota, Tenancy, Tenant
from tenants.querysets import TenantQuerySet
from topology.kube.gateway import Gateway, RefusedByCluster
from topology.kube.values import Drift, TenancySpec
from topology.models import Cluster

_LONGEST_REFUSAL = 500


def namespace_of(tenant: Tenant) -> str:
    """Where a tenant's pods live, in every cluster."""
    return f"muster-{tenant.slug}"


def ask_for_tenancy(tenant_id: int, cluster_id: int) -> None:
    """Have it kept once the surrounding transaction is in the database; else the beat does."""
    send_on_commit("tenants.keep_tenancy", tenant_id=tenant_id, cluster_id=cluster_id)


def with_access(cluster: Cluster) -> TenantQuerySet:
    """Tenants with quota in the cluster, and those that have something there already."""
    has_quota, has_tenancy = Q(quotas__flavor__cluster=cluster), Q(tenancies__cluster=cluster)
    return Tenant.objects.active().filter(has_quota | has_tenancy).distinct().order_by("pk")


def tenancy_spec(tenant: Tenant, cluster: Cluster) -> TenancySpec:
    """What the cluster is to have for `tenant`."""
    return TenancySpec(
        tenant=tenant.slug,
        namespace=namespace_of(tenant),
        gpus=_most_gpus(tenant, cluster),
        may_reach_host=tenant.may_reach_host,
    )


def _most_gpus(tenant: Tenant, cluster: Cluster) -> int | None:
    """What the tenant's jobs may hold together; None where it may borrow without a limit.

    Of a model that it has no quota of it may borrow, too.
    """
    quotas = Quota.objects.filter(tenant=tenant, flavor__cluster=cluster)
    ceilings = {
        quota.flavor_id: None
        if quota.borrowing_limit is None
        else quota.nominal + quota.borrowing_limit
        for quota in quotas
    }
    flavor_ids = cluster.flavors.values_list("pk", flat=True)
    most = [ceilings.get(flavor_id) for flavor_id in flavor_ids]
    return None if None in most else sum(ceiling or 0 for ceiling in most)


def prepare_tenancy(tenant: Tenant, cluster: Cluster, gateway: Gateway) -> None:
    """Have the cluster ready for jobs of `tenant`; one question where it is.

    Raises RefusedByCluster with its words, ClusterAway.
    """
    if gateway.has_tenancy(namespace_of(tenant)):
        return
    refusal = keep_tenancy(tenant, cluster, gateway).refusal
    if refusal:
        raise RefusedByCluster(refusal)


def keep_tenancies(cluster: Cluster, gateway: Gateway) -> None:
    """Look at what every tenant with access has in the cluster. Raises ClusterAway."""
    for tenant in with_access(cluster):
        keep_tenancy(tenant, cluster, gateway)


def keep_tenancy(tenant: Tenant, cluster: Cluster, gateway: Gateway) -> Tenancy:
    """Look at what the tenant has in the cluster, put right what is not as it should be, note it.

    In a cluster that is connected to look only nothing is kept, and nothing has drifted: it is
    only asked for its policies. Raises ClusterAway.
    """
    spec = tenancy_spec(tenant, cluster)
    drift: tuple[Drift, ...] = ()
    unguarded: tuple[str, ...] = ()
    refusal, is_mended = "", False
    try:
        unguarded = gateway.missing_policies()
        drift = gateway.tenancy_drift(spec) if cluster.is_writable else ()
        if drift:
            gateway.keep_tenancy(spec)
            is_mended = True
    except RefusedByCluster as refused:
        refusal = str(refused)[:_LONGEST_REFUSAL]
    found = {"refusal": refusal, "unguarded": list(unguarded)}
    return _note(tenant, cluster, drift=drift, is_mended=is_mended, found=found)


@transaction.atomic
def _note(
    tenant: Tenant,
    cluster: Cluster,
    *,
    drift: tuple[Drift, ...],
    is_mended: bool,
    found: dict[str, object],
) -> Tenancy:
    """The row of what was seen and done. What is made for the first time had not drifted."""
    said = [_say(each) for each in drift]
    is_new = any(each.kind == "Namespace" and not each.fields for each in drift)
    changes = {**found, "checked_at": Now(), "drift": [] if is_mended else said}
    if is_mended and not is_new:
        changes |= {"mended": said, "mended_at": Now()}
    tenancy, _ = Tenancy.objects.update_or_create(tenant=tenant, cluster=cluster, defaults=changes)
    if is_mended:
        audit.record("keep_tenancy", tenancy, by=None, before={"drift": said})
    tenancy.refresh_from_db()
    return tenancy


def _say(drift: Drift) -> str:
    fields = ", ".join(drift.fields) or "missing"
    return f"{drift.kind} {drift.name}: {fields}"
