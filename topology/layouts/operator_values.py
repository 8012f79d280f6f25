"""Helm values of NVIDIA's GPU Operator for what an operator of the cluster has chosen.

Keys are those of the chart's values.yaml (NVIDIA/gpu-operator, deployments/gpu-operator). Note
`toolkit.enabled`, in one word.
"""

from dataclasses import dataclass
from typing import Any

from topology.layouts.documents import write_document
from topology.layouts.node import MigStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorChoice:
    """What the GPU Operator is to install and manage.

    driver, toolkit: False where the machines bring their own. feature_discovery: False where Node
    Feature Discovery runs already. mig_config_map, plugin_config_map: names of the ConfigMaps with
    configurations of our own; empty for the chart's. mig_default, plugin_default: which of them a
    node without a label gets. rdma: GPUDirect RDMA by the peer memory module; host_mofed: whether
    the network driver is installed on the machines.
    """

    driver: bool = True
    toolkit: bool = True
    feature_discovery: bool = True
    dcgm_exporter: bool = True
    mig_strategy: MigStrategy = MigStrategy.MIXED
    mig_config_map: str = ""
    mig_default: str = "all-disabled"
    plugin_config_map: str = ""
    plugin_default: str = ""
    rdma: bool = False
    host_mofed: bool = False


def operator_values(choice: OperatorChoice) -> dict[str, Any]:
    """The values for `helm install --values`."""
    rdma = {"rdma": {"enabled": True, "useHostMofed": choice.host_mofed}} if choice.rdma else {}
    plugin: dict[str, Any] = {"enabled": True}
    if choice.plugin_config_map:
        plugin["config"] = {"name": choice.plugin_config_map, "default": choice.plugin_default}
    manages_mig = choice.mig_strategy != MigStrategy.NONE
    manager: dict[str, Any] = {"enabled": manages_mig}
    if manages_mig and choice.mig_config_map:
        manager["config"] = {"name": choice.mig_config_map, "default": choice.mig_default}
    return {
        "nfd": {"enabled": choice.feature_discovery},
        "driver": {"enabled": choice.driver, **rdma},
        "toolkit": {"enabled": choice.toolkit},
        "mig": {"strategy": choice.mig_strategy.value},
        "migManager": manager,
        "devicePlugin": plugin,
        "gfd": {"enabled": True},
        "dcgmExporter": {"enabled": choice.dcgm_exporter},
    }


def write_operator_values(choice: OperatorChoice) -> str:
    """The values as a file."""
    return write_document(operator_values(choice))
