from datetime import datetime

from django.db import transaction

from scheduling.engine.plan import Plan, Repartition
from scheduling.engine.snapshot import Snapshot
from scheduling.models import LayoutRequest
from topology.models import Cluster


@transaction.atomic
def note_layout_requests(plan: Plan, snapshot: Snapshot, *, cluster: Cluster, at: datetime) -> None:
    """The open requests of `cluster` are this plan's; one that is still wanted stays as asked.

    at: cluster clock.
    """
    wanted = {
        (snapshot.gpu_ids[change.gpu], change.on_behalf_of): [list(own) for own in change.layout]
        for change in plan.of(Repartition)
    }
    still = set()
    for request in LayoutRequest.objects.filter(cluster=cluster, closed_at=None):
        key = request.gpu_id, request.job_id
        if wanted.get(key) == request.layout:
            still.add(key)
        else:
            LayoutRequest.objects.filter(pk=request.pk).update(closed_at=at)
    LayoutRequest.objects.bulk_create(
        LayoutRequest(cluster=cluster, gpu_id=gpu, job_id=job, layout=layout, asked_at=at)
        for (gpu, job), layout in wanted.items()
        if (gpu, job) not in still
    )
