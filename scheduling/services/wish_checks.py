"""What submission refuses of a job's wishes."""

from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from portal.core.errors import Refused
from scheduling.models import ServiceClass
from scheduling.services.requests import JobRequest
from tenants.models import Tenant

LONGEST_SECONDS = 366 * 86_400
LONGEST_AHEAD = timedelta(seconds=LONGEST_SECONDS)
LONGEST_GRACE = 86_400
MOST_MIB = 10**9
MOST_DEPENDENCIES = 100


def check_wishes(request: JobRequest, tenant: Tenant, *, at: datetime) -> None:
    """Refuse with Refused, naming the wish, what contradicts itself or names what is not there.

    at: cluster clock.
    """
    wishes = request.wishes
    if not 0 <= wishes.gpu_memory_mib <= MOST_MIB:
        raise Refused(_("That is no amount of memory."), field="gpu_memory_mib")
    if wishes.grace_seconds is not None and not 0 <= wishes.grace_seconds <= LONGEST_GRACE:
        raise Refused(_("Saving may take a day at most."), field="grace_seconds")
    if wishes.is_standby and not request.is_preemptible:
        raise Refused(
            _("A standby job is stopped for anybody; make it preemptible."), field="is_standby"
        )
    if wishes.not_before is not None and wishes.not_before - at > LONGEST_AHEAD:
        raise Refused(_("The earliest start is within 366 days."), field="not_before")
    _check_service(request)
    _check_patience(request)
    _check_min_total(request)
    _check_after(request, tenant)


def _check_service(request: JobRequest) -> None:
    """A service class is a promise: what is asked for must let it be kept."""
    wished = request.wishes.service_class
    if wished == ServiceClass.OFFLINE and not request.is_preemptible:
        raise Refused(
            _("An offline job is stopped first; make it preemptible, or a training job."),
            field="service_class",
        )
    if wished not in {ServiceClass.LATENCY_CRITICAL, ServiceClass.LATENCY_SENSITIVE}:
        return
    if request.wishes.is_standby:
        raise Refused(
            _("A standby job may be stopped at any time, which a service cannot be."),
            field="service_class",
        )
    if any(group.gpus_per_member == 0 for group in request.groups):
        raise Refused(
            _("Each member of a latency-bound service needs a GPU that it shares with nobody."),
            field="service_class",
        )


def _check_patience(request: JobRequest) -> None:
    patience = request.wishes.patience_seconds
    if patience is None:
        return
    if request.wishes.required is None:
        raise Refused(
            _("Patience is for a required level: name one, or leave it out."),
            field="patience_seconds",
        )
    if not 0 <= patience <= LONGEST_SECONDS:
        raise Refused(_("Patience is 0 seconds to 366 days."), field="patience_seconds")


def _check_min_total(request: JobRequest) -> None:
    total = request.wishes.min_total
    least = sum(group.least for group in request.groups)
    most = sum(group.most for group in request.groups)
    if total is not None and not least <= total <= most:
        raise Refused(
            _("The groups have %(least)d to %(most)d members together.")
            % {"least": least, "most": most},
            field="min_total",
            numbers={"least": least, "most": most, "asked": total},
        )


def _check_after(request: JobRequest, tenant: Tenant) -> None:
    after = request.wishes.after
    if len(after) > MOST_DEPENDENCIES or len({one.job.pk for one in after}) < len(after):
        raise Refused(_("Name each of at most 100 jobs once."), field="after")
    for one in after:
        if one.job.tenant_id != tenant.pk or one.job.cluster_id != request.cluster.pk:
            raise Refused(
                _("There is no job %s in this tenant and cluster.") % one.job.public_id,
                field="after",
            )
