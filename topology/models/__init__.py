from topology.models.check import ClusterCheck
from topology.models.cluster import Cluster
from topology.models.fabric import Fabric, NvlinkDomain, Rack
from topology.models.flavor import ResourceFlavor
from topology.models.gpu import SHARED, Gpu, GpuMode, MigInstance
from topology.models.layout import Layout, LayoutVersion, NodeChange, Rollout, RolloutEvent
from topology.models.maintenance import MaintenanceWindow
from topology.models.node import Node

__all__ = [
    "SHARED",
    "Cluster",
    "ClusterCheck",
    "Fabric",
    "Gpu",
    "GpuMode",
    "Layout",
    "LayoutVersion",
    "MaintenanceWindow",
    "MigInstance",
    "Node",
    "NodeChange",
    "NvlinkDomain",
    "Rack",
    "ResourceFlavor",
    "Rollout",
    "RolloutEvent",
]
