"""Doors for the broker. Each may run twice, at once or never."""

import logging

from celery import shared_task
from django.utils import timezone

from portal.core.errors import ClusterAway
from portal.core.locks import LockSpace, advisory_lock
from tenants.models import AdoptedNamespace, Tenant
from tenants.services import adoption, tenancy
from tenants.services.grant_clock import advance_grants
from tenants.services.invitation_mail import mail_invitations
from tenants.services.mail import send_due_mail
from tenants.services.notifications import forget_old
from tenants.services.telling import tell_of_requests
from tenants.services.webhooks import forget_old_notices, queue_due_webhooks
from tenants.services.webhooks import tell_webhook as tell_one
from topology.models import Cluster
from topology.services.reach import gateway_to

logger = logging.getLogger(__name__)


@shared_task(name="tenants.advance_grants", ignore_result=True)
def advance_grants_now() -> None:
    """The beat: time starts grants, reminds of their end, and ends them."""
    advance_grants(at=timezone.now())


@shared_task(name="tenants.tell_people", ignore_result=True)
def tell_people() -> None:
    """The beat: people are told of what became of requests for quota."""
    with advisory_lock(LockSpace.TELLING, 1) as held:
        if held:
            tell_of_requests(at=timezone.now())


@shared_task(name="tenants.send_mail", ignore_result=True)
def send_mail() -> None:
    """Mail what is due; asked for when something is, and by the beat."""
    send_due_mail(at=timezone.now())
    forget_old(at=timezone.now())


@shared_task(name="tenants.send_webhooks", ignore_result=True)
def send_webhooks() -> None:
    """Have webhooks told what they are to be told; asked for when something is, and by the beat."""
    queue_due_webhooks(at=timezone.now())
    forget_old_notices(at=timezone.now())


@shared_task(name="tenants.tell_webhook", ignore_result=True)
def tell_webhook(*, webhook_id: int) -> None:
    """Tell one webhook; of two at once one does."""
    tell_one(webhook_id, at=timezone.now())


@shared_task(name="tenants.mail_invitations", ignore_result=True)
def mail_invitations_now() -> None:
    """Mail what was invited; asked for when somebody is, and by the beat."""
    mail_invitations(at=timezone.now())


@shared_task(name="tenants.keep_tenancy", ignore_result=True)
def keep_tenancy(*, tenant_id: int, cluster_id: int) -> None:
    """Bring what one tenant has in a cluster to what it should be; the beat does what is left."""
    tenant, cluster = Tenant.objects.get(pk=tenant_id), Cluster.objects.get(pk=cluster_id)
    try:
        tenancy.keep_tenancy(tenant, cluster, gateway_to(cluster))
    except ClusterAway as away:
        logger.warning("%s in %s is kept later: %s", tenant.slug, cluster.slug, away)


@shared_task(name="tenants.keep_adoption", ignore_result=True)
def keep_adoption(*, adoption_id: int) -> None:
    """Tell a cluster what is wished of one namespace; the beat does what is left."""
    row = AdoptedNamespace.objects.select_related("cluster", "tenant").get(pk=adoption_id)
    try:
        adoption.keep_adoption(row, gateway_to(row.cluster).wire, at=timezone.now())
    except ClusterAway as away:
        logger.warning("%s is told of %s later: %s", row.cluster.slug, row.name, away)


@shared_task(name="tenants.keep_tenancies", ignore_result=True)
def keep_tenancies() -> None:
    """The beat: somebody may have changed what tenants have in a cluster."""
    for cluster in Cluster.objects.all():
        with advisory_lock(LockSpace.TENANCY, cluster.pk) as held:
            if held:
                _keep_tenancies(cluster)


def _keep_tenancies(cluster: Cluster) -> None:
    try:
        gateway = gateway_to(cluster)
        tenancy.keep_tenancies(cluster, gateway)
        adoption.keep_adoptions(cluster, gateway.wire, at=timezone.now())
    except ClusterAway as away:
        logger.warning("tenancies in %s are kept later: %s", cluster.slug, away)
