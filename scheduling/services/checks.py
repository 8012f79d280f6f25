"""What submission refuses, each with the field to mend and what would be accepted."""

import re
from collections import Counter

from django.utils.translation import gettext as _

from portal.core.errors import GangTooLarge, Refused
from scheduling.services.requests import GroupRequest, JobRequest
from tenants.models import Tenant

LONGEST_NAME = 80
MOST_MEMBERS = 10_000
LONGEST_WALLTIME = 366 * 86_400
MOST_TEXT = 64 * 1024  # of command, environment and annotations: a pod is no place for data
OUR_PREFIX = "muster.dev/"
_GROUP_NAME = re.compile(r"[a-z]([-a-z0-9]{0,18}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ANNOTATION = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
LONGEST_ANNOTATION_NAME = 63


def check_request(request: JobRequest, tenant: Tenant) -> None:
    """Refuse with Refused or GangTooLarge what no cycle could ever carry out."""
    _check_name(request.name)
    _check_groups(request)
    _check_walltime(request.walltime_seconds)
    _check_priority(request, tenant)
    _check_flavors(request)
    _check_texts(request)
    if tenant.archived_at is not None:
        raise Refused(
            _("Tenant %s is archived and takes no new jobs.") % tenant.slug, field="tenant"
        )


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise Refused(
            _("Give the job a name of 1 to %d printable characters.") % LONGEST_NAME, field="name"
        )


def _check_groups(request: JobRequest) -> None:
    if not request.groups:
        raise Refused(_("A job needs at least one group of members."), field="groups")
    for name, count in Counter(group.name for group in request.groups).items():
        if count > 1 or not _GROUP_NAME.fullmatch(name):
            raise Refused(
                _("Name each group differently, in lower-case letters, digits and hyphens."),
                field="groups",
            )
    largest = request.cluster.nodes.largest_gpu_count()
    for group in request.groups:
        _check_group(group, largest)


def _check_group(group: GroupRequest, largest: int) -> None:
    if not 1 <= group.least <= group.members <= group.most <= MOST_MEMBERS:
        raise Refused(
            _("Members must satisfy 1 ≤ minimum ≤ members ≤ maximum ≤ %d.") % MOST_MEMBERS,
            field="members",
        )
    if min(group.gpus_per_member, group.cpu_milli, group.memory_mib) < 0:
        raise Refused(_("Amounts cannot be negative."), field="gpus_per_member")
    if group.gpus_per_member > largest:
        raise GangTooLarge(
            _("A member may ask for %(limit)d GPUs at most, the most that one node here has.")
            % {"limit": largest},
            field="gpus_per_member",
            numbers={"limit": largest, "asked": group.gpus_per_member},
        )


def _check_walltime(seconds: int | None) -> None:
    if seconds is not None and not 0 < seconds <= LONGEST_WALLTIME:
        raise Refused(
            _("The longest run must be between 1 second and 366 days, or left out."),
            field="walltime_seconds",
        )


def _check_priority(request: JobRequest, tenant: Tenant) -> None:
    asked, highest = request.priority_class, tenant.highest_priority
    if asked is not None and highest is not None and asked.value > highest.value:
        raise Refused(
            _("Tenant %(tenant)s may use priorities up to %(highest)s.")
            % {"tenant": tenant.slug, "highest": highest.name},
            field="priority",
        )


def _check_flavors(request: JobRequest) -> None:
    if any(flavor.cluster_id != request.cluster.pk for flavor in request.flavors):
        raise Refused(_("That kind of GPU belongs to another cluster."), field="gpu")


def _check_texts(request: JobRequest) -> None:
    if not all(_VARIABLE.fullmatch(name) for name in request.environment):
        raise Refused(
            _("Environment names are letters, digits and underscores."), field="environment"
        )
    for name in request.annotations:
        last = name.rpartition("/")[2]
        if not _ANNOTATION.fullmatch(name) or len(last) > LONGEST_ANNOTATION_NAME:
            raise Refused(_("%s is no annotation name.") % name[:80], field="annotations")
        if name.startswith(OUR_PREFIX):
            raise Refused(
                _("Annotations under %s are Muster's own.") % OUR_PREFIX, field="annotations"
            )
    texts = [*request.command, request.image, *_pairs(request)]
    if any("\0" in text for text in texts) or sum(map(len, texts)) > MOST_TEXT:
        raise Refused(
            _("Command, environment and annotations may have %d characters together.") % MOST_TEXT,
            field="command",
        )


def _pairs(request: JobRequest) -> list[str]:
    pairs = [*request.environment.items(), *request.annotations.items()]
    return [text for pair in pairs for text in pair]
