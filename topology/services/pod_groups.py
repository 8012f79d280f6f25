"""Whether a cluster's own scheduler binds gangs as one (PodGroups), noted on its row."""

import logging
from collections.abc import Mapping
from typing import Any

from topology.kube.rights import TO_MAKE_POD_GROUPS
from topology.models import Cluster

logger = logging.getLogger(__name__)


def note_offer(cluster: Cluster, found: Mapping[str, Any]) -> None:
    """Note whether it has such groups and lets us make them. found: fields of a ClusterCheck."""
    is_there = any(part["key"] == "pod_groups" and part["is_there"] for part in found["parts"])
    lacks = set(found["lacks_to_manage"]).intersection(map(str, TO_MAKE_POD_GROUPS))
    Cluster.objects.filter(pk=cluster.pk).update(has_pod_groups=is_there and not lacks)


def note_refusal(cluster: Cluster, why: str) -> None:
    """It makes no such groups after all: jobs do without until the next check. Said once."""
    known = Cluster.objects.filter(pk=cluster.pk, has_pod_groups=True)
    if known.update(has_pod_groups=False):
        logger.warning("gangs start without PodGroups in %s: %s", cluster.slug, why)
