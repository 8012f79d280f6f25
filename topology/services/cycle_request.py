from django.db.models import F

from portal.core.queueing import send_on_commit
from topology.models import Cluster


def ask_for_cycle(cluster_id: int) -> None:
    """Have `cluster_id` planned once the surrounding transaction is in the database.

    The number is raised in that same transaction, so a snapshot that reads it has also read the
    change that it stands for: `scheduling.cycle` needs no other memory of who asked. Call this
    last: it locks the cluster's row until the commit.
    """
    Cluster.objects.filter(pk=cluster_id).update(cycle_asked=F("cycle_asked") + 1)
    send_on_commit("scheduling.run_cycle", cluster_id=cluster_id)
