"""The whole scheduler with a simulated cluster, in one thread and on a clock that a test steps."""

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from django.core.cache import cache

from scheduling import cycle
from scheduling.management.commands.watch_cluster import take_in
from scheduling.services import binding
from scheduling.services.binding_together import bind_together
from scheduling.services.layouts import changing, driving
from simcluster.testing import RunningCluster, running_cluster
from tests.factories import ClusterFactory
from tests.kube.polling import eventually
from topology.kube.gateway import Gateway
from topology.kube.layout_doors import LiveLayoutDoors
from topology.kube.live import connect
from topology.kube.watch import ClusterWatch
from topology.models import Cluster, NodeChange
from topology.states import ACTIVE

QUIET_SECONDS = 0.03  # without news: the watch has told all, or will a little later


@dataclass
class Stage:
    """sent: the tasks that would have gone to the broker. cycles: how many were planned so far."""

    sim: RunningCluster
    cluster: Cluster
    gateway: Gateway
    watch: ClusterWatch
    sent: list
    cycles: int = 0

    @property
    def now(self):
        return self.sim.now()

    def work(self):
        """Take in what was told and do what is to do, until there is no more of either."""
        while self.sent or self._listened():
            while self.sent:
                name, arguments = self.sent.pop(0)
                getattr(self, name.removeprefix("scheduling."))(**arguments)

    def run(self, seconds, *, step=10):
        """Let time pass, and everybody do their work every `step` seconds of it."""
        for _ in range(0, seconds, step):
            self.sim.step(step)
            self.work()

    def until(self, question, *, step=1):
        """Let time pass second by second until `question` is true."""

        def look():
            self.sim.step(step)
            self.work()
            return question()

        return eventually(look)

    def _listened(self):
        seen = self.watch._mailbox.take(seconds=QUIET_SECONDS)  # noqa: SLF001 - one that waits no longer
        if seen is not None:
            take_in(self.cluster, seen)
        return seen is not None

    def run_cycle(self, cluster_id):
        self.cycles += cycle.run_while_asked(cluster_id, clock=lambda _cluster: self.now)

    def bind_job(self, job_id, attempt):
        binding.bind(job_id, attempt, self.gateway, at=self.now)

    def bind_jobs(self, cluster_id, starts):
        bind_together(dict(starts), self.gateway, at=self.now)

    def stop_job(self, job_id):
        binding.remove(job_id, self.gateway, clock=lambda: self.now)

    def scale_job(self, job_id, attempt):
        binding.scale(job_id, attempt, self.gateway, clock=lambda: self.now)

    def limit_job(self, job_id, attempt):
        binding.limit(job_id, attempt, self.gateway)

    def look_after_job(self, job_id):
        binding.look_after(job_id, self.gateway, at=self.now)

    def advance_rollout(self, rollout_id):
        driving.advance_rollout(rollout_id, at=self.now)

    def advance_change(self, change_id):
        doors = LiveLayoutDoors(self.gateway.wire)
        changing.advance(change_id, doors, clock=lambda: self.now, wall=lambda: datetime.now(UTC))

    def advance_node(self, node_id):
        for change in NodeChange.objects.filter(node=node_id, step__in=ACTIVE):
            self.advance_change(change.pk)

    def beat(self):
        """What the beat finds of rollouts, whatever messages were sent before."""
        cache.clear()
        driving.find_lost()
        self.work()


@contextmanager
def a_stage(nodes, *, folder, sent, options=None):
    """A stage whose nodes are known; time stands still on it."""
    cache.clear()
    with running_cluster(nodes, frozen=True, options=options) as sim:
        path = str(sim.write_kubeconfig(folder / "kubeconfig"))
        cluster = ClusterFactory(kubeconfig_path=path, is_simulated=True)
        gateway = connect(path)
        watch = ClusterWatch(
            lambda: gateway.wire,
            wall=lambda: datetime.now(UTC),
            stop=threading.Event(),
            has_clock=True,
        )
        with watch:
            stage = Stage(sim, cluster, gateway, watch, sent)
            eventually(lambda: stage.work() or cluster.nodes.exists())
            yield stage
