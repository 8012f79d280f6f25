from topology.models.cluster import Cluster
from topology.models.fabric import Fabric, NvlinkDomain, Rack
from topology.models.flavor import ResourceFlavor
from topology.models.gpu import Gpu
from topology.models.maintenance import MaintenanceWindow
from topology.models.node import Node

__all__ = [
    "Cluster",
    "Fabric",
    "Gpu",
    "MaintenanceWindow",
    "Node",
    "NvlinkDomain",
    "Rack",
    "ResourceFlavor",
]
