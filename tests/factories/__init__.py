"""One factory per model: each builds what the model demands, and nothing that surprises."""

from tests.factories.scheduling import (
    CycleFactory,
    JobEventFactory,
    JobFactory,
    JobFlavorFactory,
    JobGroupFactory,
    MemberFactory,
    PlacementFactory,
    PlacementGpuFactory,
    PolicyFactory,
)
from tests.factories.tenants import (
    ApiTokenFactory,
    CohortFactory,
    MembershipFactory,
    PriorityClassFactory,
    QuotaFactory,
    SignInLinkFactory,
    TenantFactory,
    UserFactory,
)
from tests.factories.topology import (
    ClusterFactory,
    FabricFactory,
    FlavorFactory,
    GpuFactory,
    NodeFactory,
    NvlinkDomainFactory,
    RackFactory,
)

__all__ = [
    "ApiTokenFactory",
    "ClusterFactory",
    "CohortFactory",
    "CycleFactory",
    "FabricFactory",
    "FlavorFactory",
    "GpuFactory",
    "JobEventFactory",
    "JobFactory",
    "JobFlavorFactory",
    "JobGroupFactory",
    "MemberFactory",
    "MembershipFactory",
    "NodeFactory",
    "NvlinkDomainFactory",
    "PlacementFactory",
    "PlacementGpuFactory",
    "PolicyFactory",
    "PriorityClassFactory",
    "QuotaFactory",
    "RackFactory",
    "SignInLinkFactory",
    "TenantFactory",
    "UserFactory",
]
