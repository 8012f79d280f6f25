"""What a rollout would do, before anything reaches a node; the page and the tests show this."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduling.models import Job, PlacementGpu
from scheduling.reports.homes import homes_won_and_lost
from topology.layouts.faults import Problem
from topology.layouts.preview import NodePreview, NodeSetup, Reset, preview_node, text_diff
from topology.layouts.wish import Wish, mig_file, plugin_file, setup_of
from topology.models import LayoutVersion, Node
from topology.services.layouts import setup_of_row, wish_of

# Seconds that a node takes once it is empty: from, to. Measured by nobody yet on every board; they
# are what the steps allow for: the MIG manager, a reset of all GPUs, the plugin's restart.
_SLICES: Final = (60, 240)
_RESET: Final = (120, 600)
_PLUGIN: Final = (20, 120)


@dataclass(frozen=True, slots=True)
class NodeOutlook:
    """What becomes of one node. jobs: that must end first. others: pods that are not ours.

    seconds: that it takes once it is empty, from and to.
    """

    node: Node
    preview: NodePreview
    jobs: tuple[Job, ...]
    others: tuple[str, ...]
    seconds: tuple[int, int]

    @property
    def is_changed(self) -> bool:
        return bool(self.preview.changed) or self.preview.before != self.preview.after


@dataclass(frozen=True, slots=True)
class RolloutPreview:
    """waves: nodes in the order in which they are changed. gains, loses: waiting jobs that find a
    home on the empty cluster then and not now, or now and not then. files: name, lines of diff.
    seconds: that it takes in all besides waiting for jobs, from and to.
    """

    waves: tuple[tuple[NodeOutlook, ...], ...]
    gains: tuple[Job, ...]
    loses: tuple[Job, ...]
    files: tuple[tuple[str, tuple[str, ...]], ...]
    seconds: tuple[int, int]

    @property
    def nodes(self) -> tuple[NodeOutlook, ...]:
        return tuple(node for wave in self.waves for node in wave)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every job that must end, once."""
        return tuple({job.pk: job for own in self.nodes for job in own.jobs}.values())

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for own in self.nodes for name in own.others)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple({str(p): p for own in self.nodes for p in own.preview.problems}.values())

    @property
    def without_order(self) -> bool:
        """Whether the driver may not be able to make the slices one by one."""
        return any(own.preview.without_order for own in self.nodes)

    @property
    def vanishing(self) -> tuple[str, ...]:
        return tuple(sorted({name for own in self.nodes for name in own.preview.vanishing}))


def preview_rollout(
    version: LayoutVersion, nodes: Sequence[Node], *, wave: int, max_unavailable: int
) -> RolloutPreview:
    """What bringing `version` to `nodes` would do. nodes: with flavor, GPUs and their instances."""
    wish = wish_of(version)
    held = _held_by(nodes)
    ordered = sorted(nodes, key=lambda node: node.name)
    looks = [_outlook(node, wish, held[node.pk]) for node in ordered]
    waves = tuple(tuple(looks[at : at + wave]) for at in range(0, len(looks), wave))
    turns = sum(-(-len(own) // max_unavailable) for own in waves)
    slowest = [max((own.seconds[end] for own in looks), default=0) for end in (0, 1)]
    becomes = {own.node.pk: setup_of(wish) for own in looks}
    gains, loses = homes_won_and_lost(version.layout.cluster, becomes)
    return RolloutPreview(
        waves, gains, loses, _files(version, looks), (turns * slowest[0], turns * slowest[1])
    )


def _held_by(nodes: Sequence[Node]) -> Mapping[int, dict[Job, set[int]]]:
    """By node, the jobs that hold GPUs of it, with the indexes of those."""
    found: dict[int, dict[Job, set[int]]] = defaultdict(lambda: defaultdict(set))
    rows = PlacementGpu.objects.active().filter(gpu__node__in=nodes)
    for row in rows.select_related("gpu", "placement__job__tenant", "placement__job__owner"):
        found[row.gpu.node_id][row.placement.job].add(row.gpu.index)
    return found


def _outlook(node: Node, wish: Wish, held: Mapping[Job, set[int]]) -> NodeOutlook:
    preview = preview_node([wish.model] * len(wish.cuts), setup_of_row(node), setup_of(wish))
    must_end = set(preview.must_end)
    jobs = tuple(sorted((j for j, g in held.items() if g & must_end), key=lambda job: job.pk))
    others = tuple(use["name"] for use in node.foreign if use["gpus"]) if must_end else ()
    return NodeOutlook(node, preview, jobs, others, _seconds(preview))


def _seconds(preview: NodePreview) -> tuple[int, int]:
    if preview.reset != Reset.NONE:
        return _RESET
    return _SLICES if preview.changed else _PLUGIN


def _files(
    version: LayoutVersion, looks: Sequence[NodeOutlook]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The two files of the nodes' present setups against those of the version, without doubles."""
    after, name = setup_of(wish_of(version)), version.config_name
    kinds = {_texts(setup_of_row(own.node), name): own.node.name for own in looks}
    return tuple(
        (f"{file} · {node}", lines)
        for texts, node in kinds.items()
        for file, old, new in zip(
            ("mig-parted", "device-plugin"), texts, _texts(after, name), strict=True
        )
        if (lines := text_diff(old, new, file))
    )


def _texts(setup: NodeSetup, name: str) -> tuple[str, str]:
    return mig_file(setup, name), plugin_file(setup, name)
