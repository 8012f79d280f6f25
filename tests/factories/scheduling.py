from datetime import UTC, datetime, timedelta

import factory
from factory.django import DjangoModelFactory

from scheduling.models import (
    Advice,
    BlockPart,
    CapacityBlock,
    Cycle,
    DeviceHold,
    Job,
    JobArray,
    JobDependency,
    JobEvent,
    JobFlavor,
    JobGroup,
    LayoutRequest,
    Member,
    Placement,
    PlacementGpu,
    Policy,
    Preemption,
    QueueOrder,
    Reservation,
    SavedView,
    StartEstimate,
)
from tests.factories.tenants import TenantFactory, UserFactory
from tests.factories.topology import ClusterFactory, FlavorFactory, GpuFactory, NodeFactory

T0 = datetime(2026, 1, 1, tzinfo=UTC)


class JobArrayFactory(DjangoModelFactory):
    """An array that says it has four tasks; its jobs are made by whoever needs them."""

    class Meta:
        model = JobArray

    public_id = factory.Sequence(lambda n: f"a-{n:06}")
    tenant = factory.SubFactory(TenantFactory)
    cluster = factory.SubFactory(ClusterFactory)
    owner = factory.SubFactory(UserFactory)
    name = factory.Sequence(lambda n: f"array-{n}")
    size = 4
    submitted_at = T0


class JobFactory(DjangoModelFactory):
    """A queued job of one group: members=1 and gpus_per_member=1 unless said otherwise."""

    class Meta:
        model = Job
        skip_postgeneration_save = True

    public_id = factory.Sequence(lambda n: f"j-{n:06}")
    tenant = factory.SubFactory(TenantFactory)
    cluster = factory.SubFactory(ClusterFactory)
    owner = factory.SubFactory(UserFactory)
    name = factory.Sequence(lambda n: f"job-{n}")
    submitted_at = T0

    @factory.post_generation
    def members(self, create, count, **kwargs):
        """The one group of the job; members=0 makes none. members__gpus=8 sets GPUs a member."""
        if count == 0:
            return
        JobGroupFactory(
            job=self,
            min_member=count or 1,
            max_member=count or 1,
            gpus_per_member=kwargs.get("gpus", 1),
        )


class JobGroupFactory(DjangoModelFactory):
    class Meta:
        model = JobGroup

    job = factory.SubFactory(JobFactory, members=0)
    gpus_per_member = 1


class JobFlavorFactory(DjangoModelFactory):
    class Meta:
        model = JobFlavor

    job = factory.SubFactory(JobFactory)
    flavor = factory.SubFactory(FlavorFactory, cluster=factory.SelfAttribute("..job.cluster"))


class JobEventFactory(DjangoModelFactory):
    class Meta:
        model = JobEvent

    job = factory.SubFactory(JobFactory)
    to_state = "queued"
    at = T0


class PlacementFactory(DjangoModelFactory):
    """One member of its job's first group on a node of the job's cluster; no devices."""

    class Meta:
        model = Placement

    job = factory.SubFactory(JobFactory)
    group = factory.LazyAttribute(lambda placement: placement.job.groups.first())
    node = factory.SubFactory(NodeFactory, cluster=factory.SelfAttribute("..job.cluster"))
    attempt = 1
    member_count = 1
    bound_at = T0


class MemberFactory(DjangoModelFactory):
    class Meta:
        model = Member

    placement = factory.SubFactory(PlacementFactory)
    job = factory.SelfAttribute("placement.job")
    group = factory.SelfAttribute("placement.group")
    attempt = factory.SelfAttribute("placement.attempt")
    rank = 0


class PlacementGpuFactory(DjangoModelFactory):
    class Meta:
        model = PlacementGpu

    member = factory.SubFactory(MemberFactory)
    placement = factory.SelfAttribute("member.placement")
    gpu = factory.LazyAttribute(lambda device: device.placement.node.gpus.first())


class CycleFactory(DjangoModelFactory):
    class Meta:
        model = Cycle

    cluster = factory.SubFactory(ClusterFactory)
    at = T0
    starts = 0
    holds = 0
    seconds = 0.0
    digest = ""
    plan = b""


class CapacityBlockFactory(DjangoModelFactory):
    """A day from T0 on."""

    class Meta:
        model = CapacityBlock

    cluster = factory.SubFactory(ClusterFactory)
    name = factory.Sequence(lambda n: f"block-{n}")
    from_at = T0
    until_at = T0 + timedelta(days=1)


class BlockPartFactory(DjangoModelFactory):
    class Meta:
        model = BlockPart

    block = factory.SubFactory(CapacityBlockFactory)
    node = factory.SubFactory(NodeFactory, cluster=factory.SelfAttribute("..block.cluster"))
    gpus = 1


class LayoutRequestFactory(DjangoModelFactory):
    class Meta:
        model = LayoutRequest

    job = factory.SubFactory(JobFactory)
    cluster = factory.SelfAttribute("job.cluster")
    gpu = factory.SubFactory(GpuFactory, node__cluster=factory.SelfAttribute("...cluster"))
    layout = [["1g.10gb", 0]]
    asked_at = T0


class PolicyFactory(DjangoModelFactory):
    class Meta:
        model = Policy

    cluster = factory.SubFactory(ClusterFactory)
    number = factory.Sequence(lambda n: n + 1)
    values = factory.LazyFunction(dict)


class PreemptionFactory(DjangoModelFactory):
    class Meta:
        model = Preemption

    job = factory.SubFactory(JobFactory)
    claimant = factory.SubFactory(JobFactory, cluster=factory.SelfAttribute("..job.cluster"))
    attempt = 1
    why = "reclaim"
    decided_at = T0


class JobDependencyFactory(DjangoModelFactory):
    class Meta:
        model = JobDependency

    job = factory.SubFactory(JobFactory)
    on = factory.SubFactory(JobFactory, cluster=factory.SelfAttribute("..job.cluster"))


class ReservationFactory(DjangoModelFactory):
    class Meta:
        model = Reservation

    job = factory.SubFactory(JobFactory)
    start_at = T0
    decided_at = T0


class DeviceHoldFactory(DjangoModelFactory):
    class Meta:
        model = DeviceHold

    job = factory.SubFactory(JobFactory)
    group_index = 0
    rank = 0
    node = factory.SubFactory(NodeFactory, cluster=factory.SelfAttribute("..job.cluster"))
    gpu = factory.LazyAttribute(lambda hold: hold.node.gpus.first())
    until = T0


class QueueOrderFactory(DjangoModelFactory):
    class Meta:
        model = QueueOrder

    cluster = factory.SubFactory(ClusterFactory)
    at = T0


class SavedViewFactory(DjangoModelFactory):
    class Meta:
        model = SavedView

    user = factory.SubFactory("tests.factories.tenants.UserFactory")
    name = "mine that wait"
    query = "state=queued&owner=me"


class StartEstimateFactory(DjangoModelFactory):
    class Meta:
        model = StartEstimate

    job = factory.SubFactory(JobFactory)
    attempt = 0
    made_at = T0


class AdviceFactory(DjangoModelFactory):
    class Meta:
        model = Advice

    job = factory.SubFactory(JobFactory)
    cycle = 0
    version = 0
    checked_at = T0
    checked_wall_at = T0
