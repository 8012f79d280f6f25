"""Layouts and their versions, written down."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils.text import slugify
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Refused
from portal.core.locks import hold_name
from tenants.access import require_operator
from tenants.models import User
from topology.layouts.node import MigStrategy
from topology.layouts.wish import wish_problems
from topology.models import Cluster, Layout, LayoutVersion
from topology.services.layouts import wish_of

_LONGEST_SLUG = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRequest:
    """What a version is to ask for; see LayoutVersion."""

    cuts: tuple[Mapping[str, int] | None, ...]
    strategy: MigStrategy = MigStrategy.MIXED
    sharing: str = ""
    replicas: int = 1
    rename: bool = False
    refuse_many: bool = False
    note: str = ""


@transaction.atomic
def make_layout(
    request: VersionRequest, *, cluster: Cluster, name: str, gpu_model: str, by: User
) -> LayoutVersion:
    """The first version of a new layout. Raises NotAllowed, and Refused as `save_version`."""
    require_operator(by)
    slug = slugify(name)[:_LONGEST_SLUG].strip("-")
    if not slug:
        raise Refused(_("Give it a name with letters or digits."), field="name")
    hold_name(f"layout {cluster.pk}:{slug}")  # who sends the form twice is told so by the second
    if cluster.layouts.filter(slug=slug).exists():
        raise Refused(_("There is a layout of this name already."), field="name")
    layout = Layout.objects.create(
        cluster=cluster,
        slug=slug,
        name=name,
        gpu_model=gpu_model,
        gpu_count=len(request.cuts),
    )
    return save_version(layout, request, by=by)


@transaction.atomic
def save_version(layout: Layout, request: VersionRequest, *, by: User) -> LayoutVersion:
    """The next version of `layout`. Raises NotAllowed for all but operators.

    Refused: the board cannot be cut so, or the device plugin would not hand it out.
    """
    require_operator(by)
    Layout.objects.select_for_update().get(pk=layout.pk)
    latest = layout.versions.aggregate(last=Max("number"))["last"] or 0
    version = version_of(layout, request, number=latest + 1)
    problems = wish_problems(wish_of(version))
    if problems:
        raise Refused(problems[0].text(_))
    version.made_by = by
    version.save()
    audit.record("save_layout", layout, by=by, after=_plain(version), reason=request.note)
    return version


def version_of(layout: Layout, request: VersionRequest, *, number: int) -> LayoutVersion:
    """A version that is not written down: to check and preview it."""
    return LayoutVersion(
        layout=layout,
        number=number,
        cuts=[None if cut is None else dict(cut) for cut in request.cuts],
        strategy=request.strategy,
        sharing=request.sharing,
        replicas=request.replicas,
        rename=request.rename,
        refuse_many=request.refuse_many,
        note=request.note,
    )


def _plain(version: LayoutVersion) -> dict[str, Any]:
    return {
        "version": version.number,
        "cuts": version.cuts,
        "strategy": version.strategy,
        "sharing": version.sharing,
        "replicas": version.replicas,
    }
