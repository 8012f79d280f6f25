"""What submission refuses, each with the field to mend and what would be accepted."""

import re
from collections import Counter
from datetime import datetime

from django.utils.translation import gettext as _

from portal.core.errors import GangTooLarge, Refused
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.wish_checks import check_wishes
from tenants.models import Tenant
from topology.kube import names
from topology.models import Cluster

LONGEST_NAME = 80
MOST_GROUPS = 20
MOST_MEMBERS = 10_000  # of all groups together
MOST_OF_ONE = 10**9  # thousandths of a CPU, or MiB: beyond any node, and sums of it stay exact
LONGEST_WALLTIME = 366 * 86_400
MOST_TEXT = 64 * 1024  # of command, environment and annotations: a pod is no place for data
OUR_PREFIX = "muster.dev/"
_GROUP_NAME = re.compile(r"[a-z]([-a-z0-9]{0,18}[a-z0-9])?")
_DEVICES = ("gpus_per_member", "slices_per_member", "shares_per_member", "gpu_milli")
# Of a GPU that is given out by amounts: so no more than ten members come to be on one, the most
# that such GPUs are usually set up for, and the back ends count in hundredths.
LEAST_MILLI, MOST_MILLI, STEP_MILLI = 100, 1_000, 10
_PROFILE = re.compile(r"\d{1,2}g\.\d{1,4}gb([+-][a-z.]{1,8})?")
MOST_PARTS = 512  # slices or shares of one member: no node has more
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ANNOTATION = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
LONGEST_ANNOTATION_NAME = 63
LONGEST_IMAGE = 300
LONGEST_EXTERNAL_ID = 80


def check_request(request: JobRequest, tenant: Tenant, *, at: datetime) -> None:
    """Refuse with Refused or GangTooLarge what no cycle could ever carry out.

    at: cluster clock.
    """
    _check_name(request.name)
    check_external_id(request.external_id)
    _check_cluster(request.cluster)
    _check_groups(request)
    _check_walltime(request.walltime_seconds)
    _check_priority(request, tenant)
    _check_flavors(request)
    _check_texts(request)
    check_wishes(request, tenant, at=at)
    if tenant.archived_at is not None:
        raise Refused(
            _("Tenant %s is archived and takes no new jobs.") % tenant.slug, field="tenant"
        )


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise Refused(
            _("Give the job a name of 1 to %d printable characters.") % LONGEST_NAME, field="name"
        )


def check_external_id(external_id: str) -> None:
    """Refuse with Refused what no job can be known by."""
    if len(external_id) > LONGEST_EXTERNAL_ID or not external_id.isprintable():
        raise Refused(
            _("An external id has at most %d printable characters.") % LONGEST_EXTERNAL_ID,
            field="external_id",
        )


def _check_cluster(cluster: Cluster) -> None:
    if not cluster.is_writable:
        raise Refused(
            _("Cluster %s is connected to look only and takes no jobs.") % cluster.slug,
            field="cluster",
        )


def _check_groups(request: JobRequest) -> None:
    if not 1 <= len(request.groups) <= MOST_GROUPS:
        raise Refused(_("A job needs 1 to %d groups of members.") % MOST_GROUPS, field="groups")
    for name, count in Counter(group.name for group in request.groups).items():
        if count > 1 or not _GROUP_NAME.fullmatch(name):
            raise Refused(
                _("Name each group differently, in lower-case letters, digits and hyphens."),
                field="groups",
            )
    largest = request.cluster.nodes.largest_gpu_count()
    for group in request.groups:
        _check_group(group, largest)
    if sum(group.most for group in request.groups) > MOST_MEMBERS:
        raise Refused(_("A job may have %d members at most.") % MOST_MEMBERS, field="members")


def _check_group(group: GroupRequest, largest: int) -> None:
    if not 1 <= group.least <= group.members <= group.most <= MOST_MEMBERS:
        raise Refused(
            _("Members must satisfy 1 ≤ minimum ≤ members ≤ maximum ≤ %d.") % MOST_MEMBERS,
            field="members",
        )
    for field in (*_DEVICES, "gpu_mib", "cpu_milli", "memory_mib"):
        if not 0 <= getattr(group, field) <= MOST_OF_ONE:
            raise Refused(_("An amount must be between 0 and %d.") % MOST_OF_ONE, field=field)
    if sum(getattr(group, field) > 0 for field in _DEVICES) > 1:
        raise Refused(
            _(
                "A member has whole GPUs, slices, shares or a part of one GPU: ask for one kind,"
                " set the others to 0."
            ),
            field="gpus_per_member",
        )
    for field in ("slices_per_member", "shares_per_member"):
        if getattr(group, field) > MOST_PARTS:
            raise Refused(_("A member may have %d of them at most.") % MOST_PARTS, field=field)
    if bool(group.slice_profile) != bool(group.slices_per_member):
        raise Refused(
            _("Say both how many slices a member has and their profile, as in 1g.10gb."),
            field="slice_profile",
        )
    if group.slice_profile and not _PROFILE.fullmatch(group.slice_profile):
        raise Refused(
            _("%s is no MIG profile: write it as in 1g.10gb.") % group.slice_profile[:20],
            field="slice_profile",
        )
    _check_part(group)
    if group.gpus_per_member > largest:
        raise GangTooLarge(
            _("A member may ask for %(limit)d GPUs at most, the most that one node here has.")
            % {"limit": largest},
            field="gpus_per_member",
            numbers={"limit": largest, "asked": group.gpus_per_member},
        )


def _check_part(group: GroupRequest) -> None:
    """A part of one GPU: of its processors and of its memory, since both are walls."""
    milli = group.gpu_milli
    if milli and (not LEAST_MILLI <= milli <= MOST_MILLI or milli % STEP_MILLI):
        raise Refused(
            _("A part of a GPU is %(least)d to %(most)d thousandths of it, in steps of %(step)d.")
            % {"least": LEAST_MILLI, "most": MOST_MILLI, "step": STEP_MILLI},
            field="gpu_milli",
        )
    if bool(milli) != bool(group.gpu_mib):
        raise Refused(
            _("Say both how much of a GPU a member has and how many MiB of its memory."),
            field="gpu_mib" if milli else "gpu_milli",
        )


def _check_walltime(seconds: int | None) -> None:
    if seconds is not None and not 0 < seconds <= LONGEST_WALLTIME:
        raise Refused(
            _("The longest run must be between 1 second and 366 days, or left out."),
            field="walltime_seconds",
        )


def _check_priority(request: JobRequest, tenant: Tenant) -> None:
    asked, highest = request.priority_class, tenant.highest_priority
    if asked is not None and asked.retired_at is not None:
        message = _("Priority %s is no longer given to new jobs; choose another.")
        raise Refused(message % asked.name, field="priority")
    if asked is not None and highest is not None and asked.value > highest.value:
        raise Refused(
            _("Tenant %(tenant)s may use priorities up to %(highest)s.")
            % {"tenant": tenant.slug, "highest": highest.name},
            field="priority",
        )


def _check_flavors(request: JobRequest) -> None:
    if any(flavor.cluster_id != request.cluster.pk for flavor in request.flavors):
        raise Refused(_("That kind of GPU belongs to another cluster."), field="gpu")
    if len(set(request.flavors)) < len(request.flavors):
        raise Refused(_("Name each kind of GPU once, the best first."), field="gpu")


def _check_texts(request: JobRequest) -> None:
    if not all(_VARIABLE.fullmatch(name) for name in request.environment):
        raise Refused(
            _("Environment names are letters, digits and underscores."), field="environment"
        )
    for name in request.environment:
        if name in names.DEVICE_VARIABLES or name.startswith(names.LIMIT_VARIABLES):
            raise _device_chosen(name, field="environment")
    for name in request.annotations:
        last = name.rpartition("/")[2]
        if not _ANNOTATION.fullmatch(name) or len(last) > LONGEST_ANNOTATION_NAME:
            raise Refused(_("%s is no annotation name.") % name[:80], field="annotations")
        if name.startswith(OUR_PREFIX):
            raise Refused(
                _("Annotations under %s are Muster's own.") % OUR_PREFIX, field="annotations"
            )
        if name.startswith((names.CDI, *names.BACK_END_NOTES)):
            raise _device_chosen(name, field="annotations")
    if len(request.image) > LONGEST_IMAGE:
        raise Refused(_("An image has at most %d characters.") % LONGEST_IMAGE, field="image")
    texts = [*request.command, request.image, *_pairs(request)]
    if not all(map(_is_storable, texts)) or sum(map(len, texts)) > MOST_TEXT:
        raise Refused(
            _("Command, environment and annotations may have %d characters together, no NUL.")
            % MOST_TEXT,
            field="command",
        )


def _device_chosen(name: str, *, field: str) -> Refused:
    """What would show a job the devices of others on its nodes."""
    message = _("Devices are given by the scheduler: leave out %(name)s.")
    return Refused(message % {"name": name[:80]}, field=field)


def _is_storable(text: str) -> bool:
    """Without the characters that the database has no room for: NUL, and halves of others."""
    return not re.search("[\0\ud800-\udfff]", text)


def _pairs(request: JobRequest) -> list[str]:
    pairs = [*request.environment.items(), *request.annotations.items()]
    return [text for pair in pairs for text in pair]
