"""Clusters connected and given access: to look only at first, then to be managed, and back.

Nothing is written to a cluster that is connected to look only; topology.kube sees to that.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.core import audit
from portal.core.errors import ClusterAway, Refused
from portal.core.locks import hold_name
from scheduling.models import Job
from scheduling.states import FINAL
from tenants.access import require_operator
from tenants.models import AdoptedNamespace, User
from topology.kube.live import knock
from topology.models import Cluster, ClusterCheck, NodeChange
from topology.services import kubeconfigs
from topology.services.check import ask_for_check, findings, note_check
from topology.services.cycle_request import ask_for_cycle

PASTED, INSIDE, FILE = "pasted", "inside", "file"  # the ways into a cluster
_NODES = "/api/v1/nodes"
_SLUG = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")  # it names a file, too


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWish:
    """way: PASTED with the text of a kubeconfig, FILE with a path, INSIDE with neither."""

    slug: str
    name: str
    way: str
    kubeconfig: str = ""
    path: str = ""


def connect_cluster(wish: ClusterWish, *, by: User, at: datetime) -> Cluster:
    """The cluster, connected to look only, with what was found in it. at: wall clock.

    Around Muster's own pods only workers may have an account: one of them then asks it later.

    Raises NotAllowed for all but operators; Refused for a name that is taken, a kubeconfig that
    will not do, a cluster that does not answer or does not let us look.
    """
    require_operator(by)
    _check_names(wish)
    with _way_in(wish) as path:
        found = _found_at(path, field=_FIELDS[wish.way]) if _can_knock(wish) else None
        with transaction.atomic():
            # Another may have taken the name while the cluster answered.
            hold_name(f"cluster {wish.slug}")
            _check_names(wish)
            cluster = Cluster.objects.create(
                slug=wish.slug,
                name=wish.name,
                kubeconfig_path=_lasting(wish, path),
                is_writable=False,
            )
            if found is None:
                ask_for_check(cluster)
            else:
                note_check(cluster, found, at=at)
            after = {"slug": wish.slug, "name": wish.name, "way": wish.way, "access": "look"}
            audit.record("connect_cluster", cluster, by=by, after=after)
            if wish.way == PASTED:
                kubeconfigs.keep_draft(Path(path), wish.slug)
    return cluster


def renew_kubeconfig(cluster: Cluster, text: str, *, by: User, at: datetime) -> None:
    """Have the cluster entered by another kubeconfig, which was tried. at: wall clock.

    Raises as connect_cluster does, and Refused for a cluster that was not connected by pasting.
    """
    require_operator(by)
    if not is_pasted(cluster):
        raise Refused(
            _("This cluster's kubeconfig was not pasted: replace the file where it lies."),
            field=kubeconfigs.FIELD,
        )
    wish = ClusterWish(slug=cluster.slug, name=cluster.name, way=PASTED, kubeconfig=text)
    with _way_in(wish) as path:
        found = _found_at(path, field=kubeconfigs.FIELD)
        with transaction.atomic():
            note_check(cluster, found, at=at)
            audit.record("renew_kubeconfig", cluster, by=by)
            kubeconfigs.keep_draft(Path(path), cluster.slug)


@transaction.atomic
def manage_cluster(cluster: Cluster, *, by: User) -> None:
    """Let jobs be placed on the cluster, and what tenants have in it be kept.

    Raises NotAllowed, Refused while the cluster does not answer or rights are missing.
    """
    require_operator(by)
    row = Cluster.objects.select_for_update().get(pk=cluster.pk)
    if row.is_writable:
        return
    _check_rights(row)
    row.is_writable = True
    row.save(update_fields=["is_writable"])
    audit.record(
        "manage_cluster", row, by=by, before={"access": "look"}, after={"access": "manage"}
    )
    ask_for_cycle(row.pk)


@transaction.atomic
def only_look_at(cluster: Cluster, *, by: User) -> None:
    """Write nothing to the cluster any more. Raises NotAllowed, Refused while it has jobs,
    namespaces that were taken over, or nodes that a rollout has in hand.
    """
    require_operator(by)
    row = Cluster.objects.select_for_update().get(pk=cluster.pk)
    if not row.is_writable:
        return
    jobs = Job.objects.filter(cluster=row).exclude(state__in=sorted(FINAL)).count()
    if jobs:
        message = ngettext(
            "%(jobs)d job waits or runs there and could not be stopped; let it end or cancel it.",
            "%(jobs)d jobs wait or run there and could not be stopped; let them end or cancel "
            "them.",
            jobs,
        )
        raise Refused(message % {"jobs": jobs})
    taken = AdoptedNamespace.objects.filter(cluster=row, returned_at=None).values_list("name")
    if taken:
        listed = ", ".join(sorted(name for (name,) in taken))
        raise Refused(_("Give these namespaces back first: %s") % listed)
    if NodeChange.objects.filter(rollout__cluster=row, is_claimed=True).exists():
        raise Refused(_("A rollout has nodes in hand: let it end or revert it first."))
    row.is_writable = False
    row.save(update_fields=["is_writable"])
    audit.record("only_look_at", row, by=by, before={"access": "manage"}, after={"access": "look"})


@transaction.atomic
def check_again(cluster: Cluster, *, by: User) -> None:
    """Have what the cluster has and lets us do asked once more. Raises NotAllowed."""
    require_operator(by)
    ask_for_check(cluster)


def is_pasted(cluster: Cluster) -> bool:
    """Whether its kubeconfig is one that we keep."""
    return cluster.kubeconfig_path == str(kubeconfigs.kept_path(cluster.slug))


_FIELDS = {PASTED: kubeconfigs.FIELD, INSIDE: "way", FILE: "path"}


def _check_names(wish: ClusterWish) -> None:
    if not _SLUG.fullmatch(wish.slug):
        raise Refused(
            _("Use 1 to 40 lower-case letters, digits and hyphens, a letter first."), field="slug"
        )
    if Cluster.objects.filter(slug=wish.slug).exists():
        raise Refused(_("Another cluster has that name."), field="slug")
    if wish.way == FILE and not Path(wish.path).is_absolute():
        raise Refused(_("Give the whole path, from / on."), field="path")


@contextmanager
def _way_in(wish: ClusterWish) -> Iterator[str]:
    """The path of the kubeconfig to try; a pasted one is gone afterwards unless it was kept."""
    if wish.way != PASTED:
        yield wish.path if wish.way == FILE else ""
        return
    draft = kubeconfigs.write_draft(wish.slug, wish.kubeconfig)
    try:
        yield str(draft)
    finally:
        draft.unlink(missing_ok=True)


def _can_knock(wish: ClusterWish) -> bool:
    return wish.way != INSIDE or not settings.IS_IN_A_CLUSTER


def _lasting(wish: ClusterWish, path: str) -> str:
    return str(kubeconfigs.kept_path(wish.slug)) if wish.way == PASTED else path


def _found_at(path: str, *, field: str) -> dict[str, Any]:
    """What the cluster has and lets us do, asked once, with little patience."""
    try:
        found = findings(knock(path))
    except (ClusterAway, Refused) as error:
        raise Refused(str(error), field=field) from error
    if _NODES in found["closed"]:
        message = _("It does not let us see its nodes: give the account the role to look first.")
        raise Refused(message, field=field)
    return found


def _check_rights(cluster: Cluster) -> None:
    check = ClusterCheck.objects.filter(cluster=cluster).first()
    if check is None or check.trouble:
        raise Refused(_("The cluster has not answered; look again first."))
    lacking = [*check.lacks_to_look, *check.lacks_to_manage]
    if lacking:
        message = ngettext(
            "%(count)d right is missing: %(rights)s",
            "%(count)d rights are missing: %(rights)s",
            len(lacking),
        )
        raise Refused(message % {"count": len(lacking), "rights": ", ".join(lacking)})
