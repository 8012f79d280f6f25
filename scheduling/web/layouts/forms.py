"""The layout editor's fields: parts of a node's GPUs, each with a number for every profile."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from scheduling.services.layouts.rollouts import MOST_NODES
from scheduling.services.layouts.versions import VersionRequest
from scheduling.web.layouts.drawing import number_words
from topology.catalog.boards import MigProfile
from topology.catalog.gpus import GpuModel
from topology.catalog.mig import find_layout, find_misfit, profiles, useful_starts
from topology.catalog.sharing import SharingMode
from topology.layouts.device_plugin import PluginConfig
from topology.layouts.node import MigStrategy
from topology.layouts.wish import Cut
from topology.models import LayoutVersion

_RANGE = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")
_SPARE_PARTS = 2


class LayoutForm(forms.Form):
    """What is the same for all GPUs of a node."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=40)
    strategy = forms.ChoiceField(
        label=gettext_lazy("How slices are called"),
        choices=[
            (MigStrategy.MIXED, gettext_lazy("each by its profile (mixed)")),
            (MigStrategy.SINGLE, gettext_lazy("as if they were GPUs (single)")),
            (MigStrategy.NONE, gettext_lazy("not at all (none)")),
        ],
        initial=MigStrategy.MIXED,
    )
    sharing = forms.ChoiceField(
        label=gettext_lazy("Whole GPUs are shared"),
        required=False,
        choices=[
            ("", gettext_lazy("not at all")),
            (SharingMode.TIME_SLICING, gettext_lazy("by time-slicing")),
            (SharingMode.MPS, gettext_lazy("by MPS")),
        ],
        help_text=gettext_lazy("All whole GPUs of a node or none: the device plugin has no other."),
    )
    replicas = forms.IntegerField(
        label=gettext_lazy("Shares of each GPU"), min_value=1, max_value=1000, initial=1
    )
    rename = forms.BooleanField(
        label=gettext_lazy("Call shares nvidia.com/gpu.shared"), required=False, initial=True
    )
    refuse_many = forms.BooleanField(
        label=gettext_lazy("Refuse containers that ask for more than one share"),
        required=False,
        initial=True,
    )
    note = forms.CharField(label=gettext_lazy("Note"), max_length=200, required=False)

    def request(self, cuts: tuple[Cut, ...]) -> VersionRequest:
        """What a service takes. Without sharing, nothing is said of shares."""
        data = self.cleaned_data
        shared = bool(data["sharing"])
        return VersionRequest(
            cuts=cuts,
            strategy=MigStrategy(data["strategy"]),
            sharing=data["sharing"],
            replicas=data["replicas"] if shared else 1,
            rename=shared and data["rename"],
            refuse_many=shared and data["refuse_many"],
            note=data["note"],
        )


def initial_of(version: LayoutVersion) -> dict[str, Any]:
    """A version as the form shows it."""
    shown = {
        "name": version.layout.name,
        "strategy": version.strategy,
        "sharing": version.sharing,
        "replicas": version.replicas,
    }
    if version.sharing:
        shown |= {"rename": version.rename, "refuse_many": version.refuse_many}
    return shown


def initial_of_plugin(plugin: PluginConfig) -> dict[str, Any]:
    """What a device plugin's file says of the form."""
    sharing = plugin.sharing
    if sharing is None:
        return {"strategy": plugin.strategy}
    return {
        "strategy": plugin.strategy,
        "sharing": sharing.mode,
        "replicas": max(count for _name, count in sharing.replicas),
        "rename": sharing.rename,
        "refuse_many": sharing.refuse_many,
    }


@dataclass(frozen=True, slots=True)
class Amount:
    """The number field of one profile. most: that fit beside what is there."""

    field: str
    profile: MigProfile
    count: int
    most: int


@dataclass(frozen=True, slots=True)
class Part:
    """Some GPUs that are cut alike. text: their numbers as written. error: why it cannot be."""

    field: str
    text: str
    gpus: tuple[int, ...]
    amounts: tuple[Amount, ...]
    error: str = ""

    @property
    def cut(self) -> Cut:
        counts = {own.profile.name: own.count for own in self.amounts if own.count}
        return counts or None


class Parts:
    """The parts of a node, from what was sent, or from cuts that there are."""

    def __init__(self, model: GpuModel, gpus: int, texts: Sequence[tuple[str, Cut]]) -> None:
        self.model, self.gpus = model, gpus
        taken: set[int] = set()
        parts = []
        for at, (text, cut) in enumerate(texts):
            part = self._part(at, text, cut or {}, taken)
            taken |= set(part.gpus)
            parts.append(part)
        self.parts = tuple(parts)

    @property
    def is_sound(self) -> bool:
        return not any(part.error for part in self.parts)

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Of each GPU; one that no part names stays whole."""
        found: dict[int, Cut] = {gpu: own.cut for own in self.parts for gpu in own.gpus}
        return tuple(found.get(gpu) for gpu in range(self.gpus))

    def _part(self, at: int, text: str, cut: Mapping[str, int], taken: set[int]) -> Part:
        gpus, error = self._numbers(text, cut, taken)
        names = [name for name, count in cut.items() for _ in range(count)]
        misfit = find_misfit(self.model, names)
        layout = None if misfit else find_layout(self.model, names)
        amounts = tuple(
            Amount(
                f"part-{at}-{number}",
                profile,
                cut.get(profile.name, 0),
                self._most(profile, cut, layout),
            )
            for number, profile in enumerate(profiles(self.model).values())
        )
        return Part(f"part-{at}", text, gpus, amounts, error or (misfit.text(_) if misfit else ""))

    def _most(self, profile: MigProfile, cut: Mapping[str, int], layout: Any) -> int:
        if layout is None:
            return profile.most
        return cut.get(profile.name, 0) + useful_starts(self.model, profile.name, layout)

    def _numbers(
        self, text: str, cut: Mapping[str, int], taken: set[int]
    ) -> tuple[tuple[int, ...], str]:
        """The GPUs that a text names, and what is wrong with it."""
        if not text.strip():
            return (), _("Say which GPUs: 0-3, 5 or all.") if cut else ""
        gpus = _read_numbers(text, self.gpus)
        if gpus is None:
            return (), _("Write the numbers of GPUs as 0-3, 5, or all.")
        if gpus[-1] >= self.gpus:
            return (), _("There is no GPU %(gpu)s; the node has 0 to %(last)s.") % {
                "gpu": gpus[-1],
                "last": self.gpus - 1,
            }
        twice = sorted(taken & set(gpus))
        if twice:
            return (), _("GPU %(gpu)s stands in two parts.") % {"gpu": twice[0]}
        return gpus, ""


def _read_numbers(text: str, gpus: int) -> tuple[int, ...] | None:
    """Numbers in order; None for a text that names none."""
    if text.strip() == "all":
        return tuple(range(gpus))
    found: set[int] = set()
    for word in text.replace(" ", "").split(","):
        match = _RANGE.fullmatch(word)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            return None
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(found))


def parts_sent(data: Mapping[str, str], model: GpuModel, gpus: int) -> Parts:
    """The parts of a form that was sent; those without GPUs and numbers are left out."""
    texts = []
    for at in range(gpus + _SPARE_PARTS):
        text = data.get(f"part-{at}", "")[:80]
        cut = {
            profile.name: count
            for number, profile in enumerate(profiles(model).values())
            if (count := _count(data.get(f"part-{at}-{number}", "")))
        }
        if text.strip() or cut:
            texts.append((text, cut))
    return with_spare(model, gpus, texts)


def _count(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) < 4  # noqa: PLR2004 - no board holds a thousand
    return int(text) if is_number else 0


def parts_of(cuts: Sequence[Cut], model: GpuModel) -> Parts:
    """GPUs that are cut alike together; whole ones need no part."""
    groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for gpu, cut in enumerate(cuts):
        if cut:
            groups.setdefault(tuple(cut.items()), []).append(gpu)
    texts = [
        ("all" if len(gpus) == len(cuts) else number_words(gpus), dict(cut))
        for cut, gpus in groups.items()
    ]
    return with_spare(model, len(cuts), texts)


def with_spare(model: GpuModel, gpus: int, texts: Sequence[tuple[str, Cut]]) -> Parts:
    """With empty parts behind, so that one more can always be written."""
    spare = max(1, min(_SPARE_PARTS, gpus - len(texts)))
    return Parts(model, gpus, [*texts, *[("", None)] * spare])


class RolloutForm(forms.Form):
    """How a version is brought to nodes."""

    wave = forms.IntegerField(
        label=gettext_lazy("Nodes in a wave"), min_value=1, max_value=MOST_NODES, initial=1
    )
    max_unavailable = forms.IntegerField(
        label=gettext_lazy("At a time at most"),
        min_value=1,
        max_value=MOST_NODES,
        initial=1,
        help_text=gettext_lazy("So many nodes are out of service together."),
    )
    drain = forms.ChoiceField(
        label=gettext_lazy("Jobs in the way"),
        choices=[
            ("evict", gettext_lazy("save and wait again, after a time")),
            ("wait", gettext_lazy("run to their end, however long that takes")),
        ],
        initial="evict",
    )
    evict_minutes = forms.IntegerField(
        label=gettext_lazy("After so many minutes"), min_value=0, max_value=100_000, initial=10
    )
    node_minutes = forms.IntegerField(
        label=gettext_lazy("Minutes for each node"),
        min_value=1,
        max_value=10_000,
        initial=15,
        help_text=gettext_lazy("Once it is empty. A node that takes longer has failed."),
    )

    def plan(self) -> dict[str, Any]:
        """What RolloutRequest takes besides the version and the nodes."""
        data = self.cleaned_data
        return {
            "wave": data["wave"],
            "max_unavailable": data["max_unavailable"],
            "evict_after_seconds": data["evict_minutes"] * 60 if data["drain"] == "evict" else None,
            "node_limit_seconds": data["node_minutes"] * 60,
        }
