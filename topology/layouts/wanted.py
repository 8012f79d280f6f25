"""From what is wanted to the files that make it so: a node's layout as a mig-parted configuration.

The MIG manager applies the configuration that the label of a node names: a name is a label value.
mig-parted is told how many instances of which profile; where they stand is the driver's choice.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from topology.layouts.documents import read_document, write_document
from topology.layouts.faults import Fault, Problem, RefusedError
from topology.layouts.mig_parted import MigEntry, read_mig_configs, written_entry
from topology.layouts.node import GpuLayout

_LABEL_VALUE: Final = re.compile(r"(?=.{1,63}$)[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def entries_for(layouts: Sequence[GpuLayout]) -> tuple[MigEntry, ...]:
    """The entries that give each GPU of a node its layout, GPUs with equal ones together.

    layouts: one for each GPU, in order; None where MIG is to be off.
    """
    groups: dict[tuple[tuple[str, int], ...] | None, list[int]] = {}
    for gpu, layout in enumerate(layouts):
        groups.setdefault(_counts(layout), []).append(gpu)
    return tuple(
        MigEntry(
            gpus=None if len(groups) == 1 else tuple(gpus),
            device_filter=(),
            mig_enabled=counts is not None,
            profiles=counts or (),
        )
        for counts, gpus in groups.items()
    )


def _counts(layout: GpuLayout) -> tuple[tuple[str, int], ...] | None:
    if layout is None:
        return None
    return tuple(sorted(Counter(own.profile for own in layout).items()))


def put_mig_config(text: str, name: str, entries: Sequence[MigEntry]) -> str:
    """A mig-parted file with one configuration added or replaced; the others stay as they are.

    text: the file as it is, empty for none yet; comments in it are lost. Raises RefusedError if it
    cannot be read, or `name` is no label value.
    """
    if not is_label_value(name):
        raise RefusedError(Problem(name, Fault.LABEL_VALUE))
    document: dict[str, Any] = {"version": "v1", "mig-configs": {}}
    if text.strip():
        read_mig_configs(text)
        document = read_document(text)
    configs: Mapping[str, Any] = document["mig-configs"]
    written = [written_entry(entry) for entry in entries]
    return write_document({**document, "mig-configs": {**configs, name: written}})


def is_label_value(name: str) -> bool:
    """Whether a node's label can have this value."""
    return _LABEL_VALUE.fullmatch(name) is not None
