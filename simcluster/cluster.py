"""A whole simulated cluster: the world, its controllers, its API, and what it is born with."""

from simcluster.api import Api
from simcluster.claims import DRIVER, ClaimController
from simcluster.clock import Clock
from simcluster.errors import ApiError
from simcluster.faults import Faults
from simcluster.fleet import NodeSpec, node_object, slice_object
from simcluster.gc import GarbageCollector
from simcluster.gpu_operator import (
    MIG_CONFIG_MAP,
    MIG_FILE,
    MIG_KEY,
    NAMESPACE,
    PLUGIN_CONFIG_MAP,
    GpuOperator,
)
from simcluster.jobs import JobController
from simcluster.kubelet import Kubelets
from simcluster.nodes import NodeController
from simcluster.objects import Obj, is_deleting, name_of
from simcluster.requests import Target
from simcluster.resources import (
    CONFIGMAPS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    SERVICE_ACCOUNTS,
    SLICES,
    Resource,
)
from simcluster.scheduler import Scheduler
from simcluster.store import Event
from simcluster.world import Options, World
from simcluster.writes import Write

_BORN_WITH = ("default", "kube-system", "kube-public", "kube-node-lease")


class NamespaceController:
    """Gives every namespace its default service account, as pods need it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._new: dict[str, None] = {}

    def seen(self, event: Event) -> None:
        if event.resource is NAMESPACES and event.kind == "ADDED":
            self._new[name_of(event.obj)] = None

    def act(self) -> bool:
        new, self._new = self._new, {}
        for name in new:
            namespace = self._world.store.get(NAMESPACES, "", name)
            if namespace is not None and not is_deleting(namespace):
                self._make(SERVICE_ACCOUNTS, "default", namespace=name)
                self._make(CONFIGMAPS, "kube-root-ca.crt", namespace=name)
        return bool(new)

    def _make(self, resource: Resource, name: str, *, namespace: str) -> None:
        if self._world.store.get(resource, namespace, name) is None:
            metadata = self._world.new_metadata(name, namespace=namespace)
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            self._world.store.put(resource, {**head, "metadata": metadata})


class Cluster:
    """Everything in one process and one thread; carried over HTTP by `http.py`."""

    def __init__(self, clock: Clock, *, options: Options | None = None) -> None:
        self.world = World(clock, options=options)
        self.api = Api(self.world)
        scheduler = Scheduler(self.world)
        kubelets = Kubelets(self.world, scheduler)
        self.nodes = nodes = NodeController(self.world, kubelets)
        jobs = JobController(self.world, self.api.writer.create_quietly)
        gpus = GpuOperator(self.world, nodes)
        self.faults = Faults(
            self.world, self.api.watches, nodes=nodes, kubelets=kubelets, gpus=gpus
        )
        self.world.controllers += [
            NamespaceController(self.world),
            GarbageCollector(self.world),
            jobs,
            ClaimController(self.world, scheduler.claims),
            scheduler,
            kubelets,
            nodes,
            gpus,
        ]

    def resume(self) -> None:
        """Let the controllers take over what a state file brought back."""
        for event in self.world.store.replay():
            for controller in self.world.controllers:
                controller.seen(event)
        self.world.adopt_events()
        self.nodes.resume()
        self.world.settle()

    def found(self, specs: list[NodeSpec]) -> None:
        """Make the namespaces and nodes that are not there yet."""
        for name in (*_BORN_WITH, NAMESPACE):
            self._make(NAMESPACES, {"metadata": {"name": name}})
        self._make_config(MIG_CONFIG_MAP, {MIG_KEY: MIG_FILE})
        self._make_config(
            PLUGIN_CONFIG_MAP, {"default": "version: v1\nflags: {migStrategy: mixed}\n"}
        )
        tainted = self.world.options.tainted
        for number, spec in enumerate(specs):
            node = node_object(spec, self.world.clock, number=number, tainted=tainted)
            self._make(NODES, node)
        by_claim = [spec for spec in specs if spec.dra and spec.gpus]
        if by_claim:
            self._make(DEVICE_CLASSES, {"metadata": {"name": DRIVER}, "spec": {}})
        for spec in by_claim:
            self._make(SLICES, slice_object(spec))
        self.world.settle()

    def _make_config(self, name: str, data: dict[str, str]) -> None:
        obj = {"metadata": {"name": name, "namespace": NAMESPACE}, "data": data}
        self._make(CONFIGMAPS, obj, namespace=NAMESPACE)

    def _make(self, resource: Resource, obj: Obj, *, namespace: str = "") -> None:
        try:
            target = Target(resource=resource, namespace=namespace)
            self.api.writer.create(target, obj, write=Write())
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
