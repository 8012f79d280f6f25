"""What the suite asks of a cluster: through our gateway, and raw."""

import itertools
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

import pytest

from portal.core.errors import ClusterAway
from simcluster.testing import running_cluster
from tests.kube.contract.providers import Kube, Simulated, real_cluster
from tests.kube.polling import eventually
from topology.kube import manifest
from topology.kube.values import GangSpec, MemberRelease
from topology.kube.watch import ClusterWatch
from topology.kube.wire import Request

GATE = "muster.dev/gate"

_numbers = itertools.count(1)


class ClusterApi:
    """A namespace of its own in a cluster, the gateway to it, and the other side of both."""

    def __init__(self, provider):
        self.provider = provider
        self.gateway = provider.gateway
        self.soon = partial(eventually, within=provider.patience_seconds)
        self.nodes = provider.nodes
        self.namespace = f"muster-test-{next(_numbers)}"
        provider.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.kube = Kube(provider, self.namespace)
        account = f"{self.kube.home}/serviceaccounts/default"
        self.soon(lambda: self.kube.is_there(account))  # no pod can be made before

    def spec(self, **changes):
        """A gang of two members of 4 GPUs, of a name that no other test has."""
        known = {
            "namespace": self.namespace,
            "job": f"j-{next(_numbers):06}",
            "group": "main",
            "attempt": 1,
            "members": 2,
            "gpus_per_member": 4,
            "cpu_milli": 500,
            "memory_mib": 256,
            "command": ("train", "--fast"),
            "environment": {"SEED": "1"},
            "annotations": self.provider.notes,
            "labels": {"muster.dev/tenant": "nlp"},
            "walltime_seconds": 3600,
        }
        return GangSpec(**(known | changes))

    def held(self, spec):
        """The gang's members, all at the gate."""
        self.gateway.ensure_gang(spec)
        self.gateway.open_gang(spec.key)
        return self.waiting(spec)

    def waiting(self, spec):
        def all_there():
            members = self.gateway.gated_members(spec.key)
            return members if len(members) == spec.members else ()

        return self.soon(all_there)

    def onto(self, members, node):
        """Releases of `members` onto one node, with 4 devices each."""
        return [
            MemberRelease(
                namespace=member.namespace,
                pod_name=member.pod_name,
                pod_uid=member.pod_uid,
                node=node,
                attempt=member.attempt,
                devices=tuple(map(str, range(4 * place, 4 * place + 4))),
            )
            for place, member in enumerate(members)
        ]

    def await_phases(self, spec, *phases):
        """The gang's members by rank, once they are where they are expected."""

        def there():
            members = sorted(self.gateway.members(spec.key), key=lambda member: member.rank)
            return members if [member.phase for member in members] == list(phases) else ()

        return self.soon(there)

    def pod(self, name):
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        return self.gateway.wire.ask(Request(method="GET", path=path))

    def await_none(self, spec):
        """Until the attempt has no pods left."""
        self.soon(lambda: not self.gateway.members(spec.key))

    def await_outcome(self, spec):
        """How the gang ended, and why, once it has."""

        def ended():
            groups = [g for g in self.gateway.gangs() if g.key == spec.key and g.outcome]
            return [(group.outcome, group.reason) for group in groups]

        return self.soon(ended)[0]

    def ensure_soon(self, spec):
        """Ask for the gang as often as the cluster says that it is not done with the last one."""

        def ensured():
            try:
                self.gateway.ensure_gang(spec)
            except ClusterAway:
                return False
            return True

        self.soon(ensured)

    def make_job(self, spec, **metadata):
        """A Job of the gang's name, made behind the gateway's back."""
        body = manifest.gang_job(spec)
        body["metadata"] |= metadata
        self._post_job(body)

    def make_guarded_job(self, spec, *, gate, selector):
        """The gang's Job as somebody's webhook would leave it: with a gate and a selector more."""
        body = manifest.gang_job(spec)
        pod = body["spec"]["template"]["spec"]
        pod["schedulingGates"].insert(0, {"name": gate})
        pod |= {"nodeSelector": selector, "tolerations": []}
        self._post_job(body)

    def _post_job(self, body):
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        self.gateway.wire.ask(Request(method="POST", path=path, body=body))

    @contextmanager
    def watching(self):
        """A list that fills with what the cluster says while the block lasts."""
        heard, stop = [], threading.Event()
        watch = ClusterWatch(
            lambda: self.gateway.wire,
            wall=lambda: datetime.now(UTC),
            stop=stop,
            has_clock=self.provider.has_clock,
        )

        def listen():
            with watch:
                heard.extend(watch)

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            yield heard
        finally:
            stop.set()
            listener.join()


@pytest.fixture(scope="module")
def simcluster(tmp_path_factory):
    with running_cluster("2xH100-SXM:8", frozen=True) as cluster:
        yield Simulated(cluster, tmp_path_factory.mktemp("simcluster") / "kubeconfig")


@pytest.fixture(scope="module")
def kubernetes(control_plane):
    with real_cluster(control_plane) as cluster:
        yield cluster


PROVIDERS = [
    pytest.param("simcluster", id="simcluster"),
    pytest.param("kubernetes", id="kubernetes", marks=pytest.mark.kube),
]


@pytest.fixture(params=PROVIDERS, scope="module")
def provider(request):
    """The cluster that this run of the suite is against."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def cluster_api(provider):
    """Our gateway to it; everything made in it is removed again."""
    api = ClusterApi(provider)
    yield api
    for group in api.gateway.gangs():
        api.gateway.delete_gang(group.key)
    provider.until(lambda: not api.gateway.members())


@pytest.fixture
def kube(cluster_api):
    """The raw API, in the same namespace."""
    yield cluster_api.kube
    cluster_api.kube.empty()


@pytest.fixture
def pod(provider):
    """A maker of pod manifests."""

    def make(name="a", *, gpus=0, gated=False, **spec):
        container = {"name": "main", "image": "busybox:1", "command": ["sleep", "30"]}
        if gpus:
            container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
        if gated:
            spec["schedulingGates"] = [{"name": GATE}]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": dict(provider.notes)},
            "spec": {"restartPolicy": "Never", "containers": [container], **spec},
        }

    return make


@pytest.fixture
def job(pod):
    """A maker of Job manifests; what is not for the pods goes into the Job's spec."""

    def make(name="train", *, members=2, gpus=1, gated=False, **spec):
        template = pod(gpus=gpus, gated=gated)
        del template["metadata"]["name"]
        counts = {"completions": members, "parallelism": members, "completionMode": "Indexed"}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {**counts, "template": template, **spec},
        }

    return make
