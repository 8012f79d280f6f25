from django.db import models


class ClusterCheck(models.Model):
    """What a cluster has and lets us do, as last asked. checked_at: wall clock.

    parts: each of topology.kube.stack as {key, is_there, versions, nodes}.
    lacks_to_look, lacks_to_manage: rights that the cluster says we have not, in words.
    knows_rights: whether it says so at all. closed: what we may not list.
    unguarded: names of admission policies that the cluster lacks.
    namespaces: each of topology.kube.adoption as {name, tenant, kept, work}.
    trouble: why it could not be asked; the rest is then of the time before.
    """

    cluster = models.OneToOneField(
        "topology.Cluster", on_delete=models.CASCADE, related_name="check_seen"
    )
    checked_at = models.DateTimeField()
    kubernetes = models.CharField(max_length=60, blank=True)
    nodes = models.PositiveIntegerField(default=0)
    gpu_nodes = models.PositiveIntegerField(default=0)
    parts = models.JSONField(default=list, blank=True)
    closed = models.JSONField(default=list, blank=True)
    knows_rights = models.BooleanField(default=False)
    lacks_to_look = models.JSONField(default=list, blank=True)
    lacks_to_manage = models.JSONField(default=list, blank=True)
    unguarded = models.JSONField(default=list, blank=True)
    namespaces = models.JSONField(default=list, blank=True)
    trouble = models.CharField(max_length=500, blank=True)

    def __str__(self) -> str:
        return f"check of {self.cluster_id} at {self.checked_at:%Y-%m-%d %H:%M}"
