from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from portal.core import clock
from portal.site.navigation import sections_for
from portal.site.personas import personas_for
from portal.site.preferences import THEMES, theme_of
from tenants.web.announcements import banners
from topology.web.clusters import chosen_cluster, clusters_of


def page(request: HttpRequest) -> dict[str, Any]:
    """What every page's frame needs."""
    frame = {
        "theme": theme_of(request),
        "themes": THEMES,
        "languages": settings.LANGUAGES,
        "here": request.get_full_path(),
        "request_id": request.META.get("muster.request_id", ""),
        "personas": partial(personas_for, request),  # for the pages that show them
    }
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return frame
    cluster = chosen_cluster(request)
    return frame | {
        "sections": sections_for(request),
        "really": getattr(request, "really", None),
        "clusters": clusters_of(request),
        "cluster": cluster,
        "banners": partial(banners, request),  # for whole pages, which alone call it
        "cluster_now": clock.now(cluster) if cluster else None,
    }
