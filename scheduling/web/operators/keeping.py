"""Forms of what is kept free: maintenance windows and capacity blocks."""

from collections.abc import Mapping
from datetime import datetime
from itertools import groupby
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from scheduling.models import CapacityBlock
from scheduling.services.blocks import BlockRequest
from scheduling.services.maintenance import WindowRequest
from tenants.models import Tenant
from topology.models import Cluster, MaintenanceWindow, Node

WRITTEN = "%Y-%m-%dT%H:%M"


class InstantInput(forms.DateTimeInput):
    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(format=WRITTEN)


class KeepingForm(forms.Form):
    """Nodes, from one instant of the cluster's clock to another, in the reader's time zone."""

    from_at = forms.DateTimeField(label=gettext_lazy("From"), widget=InstantInput())
    until_at = forms.DateTimeField(label=gettext_lazy("Until"), widget=InstantInput())

    def __init__(self, *args: Any, cluster: Cluster, at: datetime, **kwargs: Any) -> None:
        """at: cluster clock."""
        super().__init__(*args, **kwargs)
        self.at = at
        present = cluster.nodes.present().select_related("flavor", "rack")
        self.nodes = list(present.order_by("flavor__name", "name", "pk"))

    def clean_until_at(self) -> datetime:
        until: datetime = self.cleaned_data["until_at"]
        if until <= self.at:
            raise forms.ValidationError(_("That is over already by the cluster's clock."))
        return until

    def pools(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """GPU model and lines of its nodes: the node, and what is chosen of it."""
        return [
            (model, [{"node": node, "chosen": self.chosen(node)} for node in nodes])
            for model, nodes in groupby(
                self.nodes, key=lambda node: node.flavor.name if node.flavor else "–"
            )
        ]

    def chosen(self, node: Node) -> Any:
        raise NotImplementedError

    def chosen_nodes(self) -> list[Node]:
        """Of a valid form."""
        raise NotImplementedError


class WindowForm(KeepingForm):
    note = forms.CharField(
        label=gettext_lazy("What for"),
        max_length=200,
        required=False,
        help_text=gettext_lazy("Everybody reads it: firmware, a new switch, a power cut."),
    )

    def chosen(self, node: Node) -> bool:
        names = self.data.getlist("nodes") if self.is_bound else self.initial.get("nodes", ())
        return node.name in names

    def chosen_nodes(self) -> list[Node]:
        return [node for node in self.nodes if self.chosen(node)]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.chosen_nodes():
            self.add_error(None, _("Choose at least one node."))
        return cleaned

    def wish(self) -> WindowRequest:
        """The request of a valid form."""
        said = self.cleaned_data
        return WindowRequest(
            nodes=self.chosen_nodes(),
            from_at=said["from_at"],
            until_at=said["until_at"],
            note=said["note"],
        )


class BlockForm(KeepingForm):
    name = forms.SlugField(
        label=gettext_lazy("Name"),
        max_length=60,
        help_text=gettext_lazy("Letters, digits and dashes: course-ml."),
    )
    tenant = forms.ModelChoiceField(
        Tenant.objects.none(),
        label=gettext_lazy("For jobs of"),
        required=False,
        empty_label=gettext_lazy("nobody"),
        to_field_name="slug",
        help_text=gettext_lazy("Whose jobs may use the GPUs in that time."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["tenant"].queryset = Tenant.objects.active().order_by("slug")

    def chosen(self, node: Node) -> Any:
        """GPUs, as sent or as they are."""
        if self.is_bound:
            return self.data.get(f"gpus-{node.name}", "").strip()
        return self.initial.get("gpus", {}).get(node.name, "")

    def amounts(self) -> Mapping[Node, int]:
        """GPUs by node of a valid form."""
        return {node: int(self.chosen(node)) for node in self.nodes if self.chosen(node) not in _NO}

    def chosen_nodes(self) -> list[Node]:
        return list(self.amounts())

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        odd = [node.name for node in self.nodes if not _is_amount(self.chosen(node), node)]
        if odd:
            said = _("Not so many GPUs are there: %(nodes)s.") % {"nodes": ", ".join(odd[:5])}
            self.add_error(None, said)
        elif not self.amounts():
            self.add_error(None, _("Choose GPUs of at least one node."))
        return cleaned

    def wish(self) -> BlockRequest:
        """The request of a valid form."""
        said = self.cleaned_data
        return BlockRequest(
            name=said["name"],
            amounts=self.amounts(),
            from_at=said["from_at"],
            until_at=said["until_at"],
            tenant=said["tenant"],
        )


_NO = ("", "0")


def _is_amount(said: str, node: Node) -> bool:
    most = len(str(node.gpu_count))
    plain = said.isascii() and said.isdecimal() and len(said) <= most
    return said in _NO or (plain and int(said) <= node.gpu_count)


def as_window(window: MaintenanceWindow) -> dict[str, Any]:
    """What the form of a window shows."""
    return {
        "from_at": window.from_at,
        "until_at": window.until_at,
        "note": window.note,
        "nodes": {node.name for node in window.nodes.all()},
    }


def as_block(block: CapacityBlock) -> dict[str, Any]:
    """What the form of a block shows."""
    return {
        "from_at": block.from_at,
        "until_at": block.until_at,
        "name": block.name,
        "tenant": block.tenant.slug if block.tenant else None,
        "gpus": {part.node.name: part.gpus for part in block.parts.select_related("node")},
    }
