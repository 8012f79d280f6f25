from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from django.db import models
from django.db.models import Q

from topology.querysets import NodeQuerySet

_PLUGINS = "nvidia.com/gpu"  # what a device plugin calls GPUs that are given whole
REPELLING = frozenset({"NoSchedule", "NoExecute"})


class Node(models.Model):
    """A machine of a cluster, as last reported. One that went away keeps its row, for history."""

    cluster = models.ForeignKey("topology.Cluster", on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64, blank=True)
    flavor = models.ForeignKey(
        "topology.ResourceFlavor",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="nodes",
    )
    rack = models.ForeignKey(
        "topology.Rack", null=True, blank=True, on_delete=models.SET_NULL, related_name="nodes"
    )
    fabric = models.ForeignKey(
        "topology.Fabric", null=True, blank=True, on_delete=models.SET_NULL, related_name="nodes"
    )
    nvlink_domain = models.ForeignKey(
        "topology.NvlinkDomain",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="nodes",
    )
    cpu_milli = models.BigIntegerField(default=0)  # allocatable
    memory_mib = models.BigIntegerField(default=0)  # allocatable
    gpu_count = models.PositiveSmallIntegerField(default=0)  # allocatable
    is_cordoned = models.BooleanField(default=False)
    is_ready = models.BooleanField(default=True)
    is_changing = models.BooleanField(default=False)  # a rollout has it in hand: nothing starts
    back_ends = models.JSONField(default=list, blank=True)  # of kube.values.NodeSeen
    layout_seen = models.JSONField(default=dict, blank=True)  # of kube.values.LayoutSeen
    # GPUs that can be claimed, [{device, uuid, model, memory_mib}], by the list that names them.
    claimable = models.JSONField(default=dict, blank=True)
    survey = models.JSONField(default=dict, blank=True)  # of our agent: links, driver, gpudirect
    taints = models.JSONField(default=list, blank=True)  # [{key, value, effect}], foreign ones
    # What work that is not ours takes: [{name, gpus, cpu_milli, memory_mib, scheduler}], by its
    # cluster's word; and that which bears our label and is in no ledger, by uid.
    others = models.JSONField(default=list, blank=True)
    strays = models.JSONField(default=dict, blank=True)
    seen_version = models.BigIntegerField(default=0)  # resourceVersion of the last report used
    seen_at = models.DateTimeField(null=True, blank=True)  # wall clock
    gone_at = models.DateTimeField(null=True, blank=True)  # wall clock; no longer in the cluster

    objects = NodeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="node_once"),
            models.CheckConstraint(
                condition=Q(cpu_milli__gte=0, memory_mib__gte=0), name="node_room_not_negative"
            ),
        ]
        indexes = [
            models.Index(
                fields=["cluster", "name"], condition=Q(gone_at__isnull=True), name="node_present"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def gives_by_claim(self) -> bool:
        """Whether its GPUs are had by claims, and not by a device plugin."""
        return bool(self.claimable) and not self.layout_seen.get("offers", {}).get(_PLUGINS)

    @property
    def is_open(self) -> bool:
        """Whether it may take new members now."""
        is_closed = self.is_cordoned or self.is_changing or self.repels or self.foreign_schedulers
        return self.is_ready and not is_closed and not self.is_mixed and self.gone_at is None

    @property
    def is_mixed(self) -> bool:
        """Whether more than one back end hands out its GPUs, none of which knows of the others."""
        return is_mixed(self.back_ends)

    @property
    def repels(self) -> bool:
        """Whether it keeps our members away by a taint of others."""
        return repels(self.taints)

    @property
    def foreign(self) -> list[Mapping[str, Any]]:
        """What takes of it and is not ours; those with GPUs are named."""
        return list(foreign_uses(self.others, self.strays))

    @property
    def foreign_gpus(self) -> int:
        return sum(use["gpus"] for use in self.foreign)

    @property
    def foreign_schedulers(self) -> list[str]:
        """Who else hands out its GPUs: then we do not."""
        return foreign_schedulers(self.foreign)


Uses = Iterable[Mapping[str, Any]]


def repels(taints: Iterable[Mapping[str, str]]) -> bool:
    """Whether one of `taints` keeps new members away."""
    return any(taint["effect"] in REPELLING for taint in taints)


def is_mixed(back_ends: Sequence[str]) -> bool:
    """Whether it is more than one that hands out the GPUs of a node."""
    return len(back_ends) > 1


def foreign_uses(others: Uses, strays: Mapping[str, Mapping[str, Any]]) -> Uses:
    return chain(others, strays.values())


def foreign_schedulers(uses: Uses) -> list[str]:
    """Schedulers that are not the cluster's own and have given GPUs to one of `uses`."""
    return sorted({use["scheduler"] for use in uses if use["scheduler"] and use["gpus"]})
