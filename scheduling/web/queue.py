from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.core.web import Slice, polled, signed_in, tag_of
from scheduling.reports.queue import Queue, jobs_at, queue_of, queue_rows, versions_at
from scheduling.reports.vitals import is_stalled
from topology.web.clusters import chosen_cluster

PAGE_SIZE = 50
LOOK_EVERY = 15.0  # seconds
MINUTE = 60


@require_safe
@signed_in
def queue(request: HttpRequest) -> HttpResponse:
    """Everything that waits in a cluster, in the scheduler's own order."""
    cluster = chosen_cluster(request)
    waiting = queue_of(cluster) if cluster else Queue(())
    only_mine = request.GET.get("owner") == "me"
    mine = waiting.positions(owner=request.user)
    places = mine if only_mine else waiting.positions(owner=None)
    page = Slice.asked_for(request, size=PAGE_SIZE, total=len(places))
    places = places[page.start : page.start + page.size]
    versions, wall = versions_at(places), timezone.now()
    return polled(
        request,
        ("scheduling/queue.html", "scheduling/partials/_queue_table.html"),
        lambda: {
            "rows": queue_rows(
                places, jobs_at(places), reader=request.user, wall=wall, with_starts=True
            ),
            "page": page,
            "only_mine": only_mine,
            "all_count": len(waiting.places),
            "mine_count": len(mine),
            "first_of_mine": mine[0][0] if mine else None,
            "planned_at": cluster.planned_at if cluster else None,
            "is_stalled": cluster is not None and is_stalled(cluster, wall=wall),
        },
        tag=tag_of(
            request,
            *(places, versions),
            *(len(waiting.places), len(mine)),
            int(wall.timestamp()) // MINUTE,
        ),
        every=LOOK_EVERY,
    )
