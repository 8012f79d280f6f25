from datetime import datetime

from scheduling.snapshots.hardware import read_hardware
from scheduling.snapshots.holding import read_holding
from scheduling.snapshots.jobs import Positions
from scheduling.snapshots.known import Known
from scheduling.snapshots.waiting import read_waiting
from tenants.models import Cohort, Quota, Tenant
from topology.models import Cluster, ResourceFlavor

NO_FLAVOR = "none"  # the last flavor: of nodes that have none, in which nobody has quota


class Rows:
    """What a snapshot is made of, and where each row stands in its arrays.

    Most rows are few, and are models. Nodes, devices and jobs are made of theirs, or are known.
    """

    def __init__(self, cluster: Cluster, known: Known, at: datetime) -> None:
        self.cluster = cluster
        self.flavors = list(ResourceFlavor.objects.filter(cluster=cluster).order_by("name"))
        self.tenants = list(Tenant.objects.order_by("pk"))
        self.cohorts = list(Cohort.objects.order_by("pk"))
        self.quotas = list(Quota.objects.filter(flavor__cluster=cluster))
        self.hardware = read_hardware(cluster, self.flavors, known)
        self.positions = Positions(
            nodes=self.hardware.node_at,
            gpus=self.hardware.gpu_at,
            instances=self.hardware.instance_at,
            shares=self.hardware.share_at,
            tenants={tenant.pk: index for index, tenant in enumerate(self.tenants)},
            flavors={flavor.pk: index for index, flavor in enumerate(self.flavors)},
        )
        known.turn_to(self.positions)
        known.waiting = read_waiting(cluster, self.positions, known.waiting, at)
        known.holding = read_holding(cluster, self.positions, known.holding, at)
        self.waiting = [kept.value for kept in known.waiting.values()]
        self.holders = [kept.value for kept in known.holding.values()]
