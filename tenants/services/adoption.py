"""Namespaces that others made, taken over one at a time and given back.

The rows say what is wished; a task tells the cluster, and the beat tells it again, so that a label
that somebody took away comes back, and nothing is lost with a message.
"""

from datetime import datetime

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, Refused
from portal.core.locks import LockSpace, advisory_lock
from portal.core.queueing import send_on_commit
from tenants.access import require_operator
from tenants.models import AdoptedNamespace, Tenant, User
from topology.kube.adoption import return_namespace, take_namespace
from topology.kube.gateway import NotThere, RefusedByCluster
from topology.kube.wire import Wire
from topology.models import Cluster, ClusterCheck

_LONGEST_REFUSAL = 500


@transaction.atomic
def adopt_namespace(
    cluster: Cluster, name: str, tenant: Tenant, *, by: User, at: datetime
) -> AdoptedNamespace:
    """The namespace as one of `tenant`: what runs in it goes on, what comes new waits at the gate.

    at: wall clock. Raises NotAllowed; Refused for a cluster that is only looked at or would hold
    nothing, a namespace that is not there or made by Muster; Conflict for one that has a tenant.
    """
    require_operator(by)
    cluster = Cluster.objects.select_for_update().get(pk=cluster.pk)
    _check_cluster(cluster)
    _check_namespace(cluster, name)
    if tenant.archived_at is not None:
        raise Refused(_("Tenant %s is archived.") % tenant.slug, field="tenant")
    if AdoptedNamespace.objects.filter(cluster=cluster, name=name, returned_at=None).exists():
        raise Conflict(_("It has a tenant already, or is just being given back."))
    row = AdoptedNamespace.objects.create(cluster=cluster, name=name, tenant=tenant, asked_at=at)
    said = {"cluster": cluster.slug, "namespace": name, "tenant": tenant.slug}
    audit.record("adopt_namespace", row, by=by, after=said)
    _ask(row)
    return row


@transaction.atomic
def give_back_namespace(row: AdoptedNamespace, *, by: User, at: datetime) -> None:
    """Have the namespace be nobody's again, and what waits at the gate let go. at: wall clock.

    Raises NotAllowed. Given back already is fine.
    """
    require_operator(by)
    row = AdoptedNamespace.objects.select_for_update().get(pk=row.pk)
    if row.given_back_at is not None:
        return
    row.given_back_at = at
    row.save(update_fields=["given_back_at"])
    said = {"cluster": row.cluster.slug, "namespace": row.name, "tenant": row.tenant.slug}
    audit.record("give_back_namespace", row, by=by, before=said)
    _ask(row)


def keep_adoptions(cluster: Cluster, wire: Wire, *, at: datetime) -> None:
    """Tell the cluster of every wish again. Raises ClusterAway. at: wall clock."""
    if cluster.is_writable:
        for row in AdoptedNamespace.objects.filter(cluster=cluster, returned_at=None):
            keep_adoption(row, wire, at=at)


def keep_adoption(row: AdoptedNamespace, wire: Wire, *, at: datetime) -> None:
    """Tell the cluster what is wished of one namespace, and note what it says. at: wall clock.

    One worker at a time, who tells it once more if the wish has changed meanwhile: a label that
    came late would keep a namespace that is nobody's at the gate. Raises ClusterAway.
    """
    with advisory_lock(LockSpace.ADOPTION, row.pk) as held:
        told = None
        while held:
            wish = AdoptedNamespace.objects.select_related("tenant").get(pk=row.pk)
            if wish.returned_at is not None or told == (wish.given_back_at,):
                return
            _tell(wish, wire, at=at)
            told = (wish.given_back_at,)


def _tell(row: AdoptedNamespace, wire: Wire, *, at: datetime) -> None:
    try:
        if row.given_back_at is None:
            take_namespace(wire, row.name, tenant=row.tenant.slug)
            _note(row, taken_at=row.taken_at or at)
        # What came through while the label went is found by looking once more.
        elif not return_namespace(wire, row.name, tenant=row.tenant.slug):
            _note(row, returned_at=at)
    except (NotThere, RefusedByCluster) as refused:
        _note(row, refusal=str(refused)[:_LONGEST_REFUSAL])


def _note(row: AdoptedNamespace, *, refusal: str = "", **instants: datetime) -> None:
    """Write what was done, if it is still what is wished."""
    wished = AdoptedNamespace.objects.filter(pk=row.pk, given_back_at=row.given_back_at)
    wished.filter(Q(returned_at=None)).update(refusal=refusal, **instants)


def _check_cluster(cluster: Cluster) -> None:
    if not cluster.is_writable:
        raise Refused(_("The cluster is connected to look only; let it be managed first."))
    check = ClusterCheck.objects.filter(cluster=cluster).first()
    if check is None or check.trouble:
        raise Refused(_("The cluster has not answered; look again first."))
    if check.unguarded:
        raise Refused(
            _("Nothing would be held: the cluster lacks admission policies (%s); install them.")
            % ", ".join(check.unguarded)
        )


def _check_namespace(cluster: Cluster, name: str) -> None:
    seen = {each["name"]: each for each in cluster.check_seen.namespaces}
    if name not in seen:
        raise Refused(_("There is no namespace of that name, as last looked at."))
    if seen[name]["kept"]:
        raise Refused(_("Muster made this namespace itself."))


def _ask(row: AdoptedNamespace) -> None:
    send_on_commit("tenants.keep_adoption", adoption_id=row.pk)
