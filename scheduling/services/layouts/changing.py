"""The change of one node, step by step: look, do, and move on when it is seen to be done.

Each step may be done twice: what it does is done by name, and what it waits for is asked of the
cluster, never remembered. So whoever takes over from a worker that died goes on, or goes back.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from scheduling.services.layouts.draining import drain, is_empty
from scheduling.services.layouts.moves import move_node
from topology.kube import names
from topology.kube.gateway import NotThere, RefusedByCluster
from topology.kube.layout_doors import LayoutDoors
from topology.kube.values import NodeSeen
from topology.layouts.documents import read_document
from topology.layouts.faults import RefusedError
from topology.layouts.mig_parted import CONFIG_KEY, MigEntry
from topology.layouts.preview import NodeSetup
from topology.layouts.wanted import entries_for, put_mig_config
from topology.layouts.wish import plugin_file, setup_of
from topology.models import GpuMode, LayoutVersion, NodeChange
from topology.services.inventory import observe_node
from topology.services.layouts import confirmed, offers_of, setup_before, wish_of
from topology.states import ACTIVE, TIMED, Mishap, Step

SETTLE = timedelta(seconds=120)  # for counts to become what was planned, once all is back
_UNDER_WAY = frozenset({"pending", "rebooting"})
Clock = Callable[[], datetime]


class Changing:
    """One node on its way, seen through the doors of its cluster.

    clock: the cluster's. wall: the wall's.
    """

    def __init__(
        self, change: NodeChange, doors: LayoutDoors, *, clock: Clock, wall: Clock
    ) -> None:
        self._change = change
        self._doors = doors
        self._clock = clock
        self._wall = wall
        wish = wish_of(change.rollout.version)
        self._wish, self._name = wish, change.node.name

    def go_on(self) -> None:
        """As far as it comes now. ClusterAway: somebody tries again later."""
        steps = {
            Step.CORDON: self._cordon,
            Step.DRAIN: self._drain,
            Step.WRITE: self._write,
            Step.LABEL: self._label,
            Step.MIG: self._await_mig,
            Step.PLUGIN: self._await_plugin,
            Step.VERIFY: self._verify,
            Step.UNCORDON: self._uncordon,
        }
        while self._change.step in ACTIVE:
            try:
                if self._is_late() or not steps[Step(self._change.step)]():
                    return
            except NotThere:
                self._lose()
            except (RefusedByCluster, RefusedError) as error:
                self._fail(Mishap.REFUSED, said=str(error)[:300])

    def _cordon(self) -> bool:
        seen = self._doors.node(self._name)
        if not self._change.before:
            if seen.layout.mig_state in _UNDER_WAY or seen.layout.paused:
                return self._fail(Mishap.BUSY, state=seen.layout.mig_state)
            self._change.before = confirmed(seen)
            NodeChange.objects.filter(pk=self._change.pk, before={}).update(
                before=self._change.before
            )
        self._doors.cordon(self._name, on=True)
        return self._move(Step.DRAIN)

    def _drain(self) -> bool:
        drain(self._change, self._doors, at=self._clock())
        if not is_empty(self._change, self._doors):
            return False
        return self._move(Step.WRITE, working_since=self._clock())

    def _write(self) -> bool:
        if not is_empty(self._change, self._doors):
            return self._move(Step.DRAIN, working_since=None)
        if self._cuts_gpus:
            name = self._mig_target
            put = _put_if_missing if name == self._named_before else put_mig_config
            edit = partial(put, name=name, entries=entries_for(self._target.layouts))
            self._doors.put_config(names.MIG_CONFIG_MAP, CONFIG_KEY, edit)
        if not self._change.is_backward:
            text = plugin_file(self._target, "")
            name = self._plugin_target
            self._doors.put_config(names.PLUGIN_CONFIG_MAP, name, lambda _: text)
        return self._move(Step.LABEL)

    def _label(self) -> bool:
        """All labels at once. The old name's state goes with it, or it would be believed."""
        seen = self._doors.node(self._name).layout
        labels: dict[str, str | None] = {}
        if self._cuts_gpus and seen.mig_config != self._mig_target:
            labels = {names.MIG_CONFIG: self._mig_target, names.MIG_STATE: None}
            labels |= dict.fromkeys(seen.paused, "true")
        if seen.plugin_config != self._plugin_target:
            labels[names.PLUGIN_CONFIG] = self._plugin_target or None
        if labels:
            self._doors.label(self._name, labels)
        return self._move(Step.MIG)

    def _await_mig(self) -> bool:
        seen = self._doors.node(self._name).layout
        if not self._cuts_gpus:
            return self._move(Step.PLUGIN)
        if seen.mig_config != self._mig_target:
            return self._fail(Mishap.BUSY, state=seen.mig_config)
        if seen.mig_state == "failed":
            return self._fail(Mishap.MIG_FAILED, state=seen.mig_state)
        return seen.mig_state == "success" and self._move(Step.PLUGIN)

    def _await_plugin(self) -> bool:
        seen = self._doors.node(self._name).layout
        is_back = not seen.paused and bool(seen.offers or not self._offers)
        return is_back and self._move(Step.VERIFY)

    def _verify(self) -> bool:
        seen = self._doors.node(self._name)
        if self._is_as_wanted(seen):
            observe_node(self._change.rollout.cluster, seen, at=self._wall())
            return self._move(Step.UNCORDON)
        if self._clock() - self._change.since > SETTLE:
            planned, found = dict(self._offers), dict(seen.layout.offers)
            return self._fail(Mishap.WRONG_COUNTS, planned=planned, found=found)
        return False

    def _uncordon(self) -> bool:
        if not self._change.before["was_cordoned"]:
            self._doors.cordon(self._name, on=False)
        return self._move(Step.REVERTED if self._change.is_backward else Step.VERIFIED)

    @property
    def _target(self) -> NodeSetup:
        return setup_before(self._change) if self._change.is_backward else setup_of(self._wish)

    @property
    def _cuts_gpus(self) -> bool:
        """Whether the MIG manager has to do with it at all."""
        return setup_before(self._change).layouts != setup_of(self._wish).layouts

    @property
    def _mig_target(self) -> str:
        """The configuration that the node is to have. One without a name before gets ours."""
        if not self._change.is_backward:
            return self._new_name
        return self._named_before or f"muster-before-{self._change.pk}"

    @property
    def _named_before(self) -> str:
        """The configuration that its label named before; empty for none.

        Empty, too, where the node was otherwise than a version of ours says: others follow that.
        """
        named: str = self._change.before["layout"]["mig_config"]
        versions = LayoutVersion.objects.filter(layout__cluster=self._change.rollout.cluster)
        for version in versions.select_related("layout"):
            if version.config_name == named:
                said, was = setup_of(wish_of(version)), setup_before(self._change)
                return named if entries_for(said.layouts) == entries_for(was.layouts) else ""
        return named

    @property
    def _plugin_target(self) -> str:
        if not self._change.is_backward:
            return self._new_name
        named: str = self._change.before["layout"]["plugin_config"]
        return named

    @property
    def _new_name(self) -> str:
        """Of what is written for the version.

        A node that drifted bears the version's name already, and nobody acts on a label that stays.
        """
        name, before = self._change.rollout.version.config_name, self._change.before["layout"]
        is_named = name in {before["mig_config"], before["plugin_config"]}
        has_drifted = self._cuts_gpus or before["offers"] != offers_of(self._wish)
        return f"muster-again-{self._change.pk}" if is_named and has_drifted else name

    @property
    def _offers(self) -> dict[str, int]:
        """What the node is to offer: as it did, on the way back."""
        if self._change.is_backward:
            return dict(self._change.before["layout"]["offers"])
        return offers_of(self._wish)

    def _is_as_wanted(self, seen: NodeSeen) -> bool:
        there = [
            Counter(profile for profile, _ in gpu.slices) if gpu.mode == GpuMode.MIG else None
            for gpu in seen.gpus
        ]
        wanted = [
            None if layout is None else Counter(own.profile for own in layout)
            for layout in self._target.layouts
        ]
        return seen.is_ready and seen.layout.offers == self._offers and wanted == there

    def _is_late(self) -> bool:
        """Whether the node has had its time; its change has failed then."""
        since = self._change.working_since
        if self._change.step not in TIMED or since is None:
            return False
        limit = timedelta(seconds=self._change.rollout.node_limit_seconds)
        if self._clock() - since <= limit:
            return False
        state = self._doors.node(self._name).layout.mig_state
        return self._fail(Mishap.TOO_LATE, step=self._change.step, state=state)

    def _lose(self) -> None:
        """The node has left: nothing remains to be taken back."""
        if self._change.is_backward:
            self._move(Step.REVERTED, why=Mishap.GONE)
        else:
            self._fail(Mishap.GONE)

    def _fail(self, mishap: Mishap, **numbers: Any) -> bool:
        return self._move(Step.FAILED, why=mishap, mishap=mishap, numbers=numbers)

    def _move(self, to: Step, **changes: Any) -> bool:
        return move_node(self._change, to, at=self._clock(), **changes)


def _put_if_missing(text: str, name: str, entries: Sequence[MigEntry]) -> str:
    """The file with a configuration that nodes follow: where there is one, it stays as it is."""
    try:
        there = (read_document(text) or {}).get("mig-configs") or {} if text.strip() else {}
    except RefusedError:
        return text
    return text if name in there else put_mig_config(text, name, entries)


def advance(change_id: int, doors: LayoutDoors, *, clock: Clock, wall: Clock) -> None:
    """Go on with the change of a node, as far as it comes now."""
    rows = NodeChange.objects.select_related("rollout__version__layout", "rollout__cluster", "node")
    Changing(rows.get(pk=change_id), doors, clock=clock, wall=wall).go_on()
