from datetime import UTC, datetime, timedelta

import factory
from factory.django import DjangoModelFactory

from topology.models import (
    Cluster,
    ClusterCheck,
    Fabric,
    Gpu,
    Layout,
    LayoutVersion,
    MaintenanceWindow,
    MigInstance,
    Node,
    NodeChange,
    NvlinkDomain,
    Rack,
    ResourceFlavor,
    Rollout,
    RolloutEvent,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)


class ClusterFactory(DjangoModelFactory):
    class Meta:
        model = Cluster

    slug = factory.Sequence(lambda n: f"cluster-{n}")
    name = factory.LazyAttribute(lambda cluster: cluster.slug)


class ClusterCheckFactory(DjangoModelFactory):
    """A check at T0 that found nothing amiss, and no part of the stack."""

    class Meta:
        model = ClusterCheck

    cluster = factory.SubFactory(ClusterFactory)
    checked_at = T0
    kubernetes = "v1.37.2"
    knows_rights = True


class MaintenanceWindowFactory(DjangoModelFactory):
    """A day from T0 on, of no node."""

    class Meta:
        model = MaintenanceWindow

    cluster = factory.SubFactory(ClusterFactory)
    from_at = T0
    until_at = T0 + timedelta(days=1)


class FabricFactory(DjangoModelFactory):
    class Meta:
        model = Fabric

    cluster = factory.SubFactory(ClusterFactory)
    name = factory.Sequence(lambda n: f"fabric-{n}")


class RackFactory(DjangoModelFactory):
    class Meta:
        model = Rack

    cluster = factory.SubFactory(ClusterFactory)
    name = factory.Sequence(lambda n: f"rack-{n}")


class NvlinkDomainFactory(DjangoModelFactory):
    class Meta:
        model = NvlinkDomain

    cluster = factory.SubFactory(ClusterFactory)
    name = factory.Sequence(lambda n: f"nvl-{n}")


class FlavorFactory(DjangoModelFactory):
    class Meta:
        model = ResourceFlavor

    cluster = factory.SubFactory(ClusterFactory)
    name = factory.Sequence(lambda n: f"flavor-{n}")
    gpu_model = factory.LazyAttribute(lambda flavor: flavor.name)


class NodeFactory(DjangoModelFactory):
    """A node of `gpus` GPUs in one island, open, with room for any job's CPU and memory."""

    class Meta:
        model = Node
        skip_postgeneration_save = True

    cluster = factory.SubFactory(ClusterFactory)
    flavor = factory.SubFactory(FlavorFactory, cluster=factory.SelfAttribute("..cluster"))
    name = factory.Sequence(lambda n: f"node-{n:03}")
    cpu_milli = 96_000
    memory_mib = 1_048_576
    gpu_count = 8

    @factory.post_generation
    def gpus(self, create, count, **kwargs):
        """One Gpu row per device unless gpus=0 is asked for; a number also sets gpu_count."""
        if count is not None:
            self.gpu_count = count
            self.save(update_fields=["gpu_count"])
        GpuFactory.create_batch(self.gpu_count, node=self)


class GpuFactory(DjangoModelFactory):
    class Meta:
        model = Gpu

    node = factory.SubFactory(NodeFactory, gpus=0)
    index = factory.LazyAttribute(lambda gpu: gpu.node.gpus.count())
    uuid = factory.Sequence(lambda n: f"GPU-{n:08}")
    model = factory.LazyAttribute(lambda gpu: gpu.node.flavor.gpu_model)


class MigInstanceFactory(DjangoModelFactory):
    class Meta:
        model = MigInstance

    gpu = factory.SubFactory(GpuFactory, mode="mig")
    profile = "1g.10gb"
    start = factory.LazyAttribute(lambda own: own.gpu.instances.count())


class LayoutFactory(DjangoModelFactory):
    """Of nodes with eight A100 of 40 GB."""

    class Meta:
        model = Layout

    cluster = factory.SubFactory(ClusterFactory)
    slug = factory.Sequence(lambda n: f"layout-{n}")
    name = factory.LazyAttribute(lambda layout: layout.slug)
    gpu_model = "A100-40GB"
    gpu_count = 8


class LayoutVersionFactory(DjangoModelFactory):
    """Every GPU in two halves."""

    class Meta:
        model = LayoutVersion

    layout = factory.SubFactory(LayoutFactory)
    number = factory.LazyAttribute(lambda version: version.layout.versions.count() + 1)
    cuts = factory.LazyAttribute(lambda own: [{"3g.20gb": 2}] * own.layout.gpu_count)
    strategy = "mixed"


class RolloutFactory(DjangoModelFactory):
    class Meta:
        model = Rollout

    version = factory.SubFactory(LayoutVersionFactory)
    cluster = factory.SelfAttribute("version.layout.cluster")
    begun_at = T0


class NodeChangeFactory(DjangoModelFactory):
    class Meta:
        model = NodeChange

    rollout = factory.SubFactory(RolloutFactory)
    node = factory.SubFactory(NodeFactory, cluster=factory.SelfAttribute("..rollout.cluster"))
    wave = 1
    since = T0


class RolloutEventFactory(DjangoModelFactory):
    class Meta:
        model = RolloutEvent

    rollout = factory.SubFactory(RolloutFactory)
    became = "running"
    at = T0
