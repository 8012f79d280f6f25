"""Xid errors: what the number that a GPU's driver reports means, and what to do about it.

`data/xid.csv` has a line for each, put together from dcgm-exporter's xid_errors.go, NVIDIA's Xid
catalogue and its older table of causes; its column `note` says what is unverified.

A number alone says nothing of time: DCGM's gauge keeps the last one until it is restarted.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from topology.catalog.boards import DATA


class XidClass(StrEnum):
    """Where the cause lies."""

    APPLICATION = "application"
    DRIVER = "driver"
    HARDWARE = "hardware"
    INTERCONNECT = "interconnect"
    INFORMATIONAL = "informational"
    LEGACY = "legacy"  # not sent by GPUs since Ampere
    UNKNOWN = "unknown"


class Action(StrEnum):
    """What to do about an Xid."""

    IGNORE = "ignore"
    RESTART_APP = "restart_app"
    WATCH = "watch"
    FOLLOW_OTHER_XID = "follow_other_xid"
    FOLLOW_RECOVERY_ACTION = "follow_recovery_action"
    RESET_GPU = "reset_gpu"
    DRAIN_REBOOT = "drain_reboot"
    RESTART_VM = "restart_vm"
    UPDATE_SOFTWARE = "update_software"
    CHECK_POWER = "check_power"
    RMA = "rma"
    REPORT = "report"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Reach(StrEnum):
    """How much of a GPU an Xid takes out of capacity."""

    NOTHING = "nothing"
    INSTANCE = "instance"  # the MIG instance that it names; the whole GPU where it names none
    GPU = "gpu"


@dataclass(frozen=True, slots=True)
class Xid:
    """One kind of Xid error.

    plugin_ignores: whether the device plugin leaves the GPU healthy.
    """

    number: int
    mnemonic: str
    meaning: str
    xid_class: XidClass
    subclass: str
    action: Action
    severity: Severity
    plugin_ignores: bool
    note: str

    @property
    def reach(self) -> Reach:
        """What goes out of capacity: critical errors take the GPU, those that the hardware keeps
        to one MIG instance take that, errors of programs take nothing.
        """
        if self.number in CONTAINED:
            return Reach.INSTANCE
        return Reach.GPU if self.severity == Severity.CRITICAL else Reach.NOTHING


CONTAINED: Final = frozenset({94})


@cache
def xids() -> Mapping[int, Xid]:
    """Every known Xid by its number."""
    with (DATA / "xid.csv").open(newline="") as lines:
        return {int(row["xid"]): _xid(row) for row in csv.DictReader(lines)}


def find_xid(number: int) -> Xid:
    """What `number` means; one of class UNKNOWN if nobody has said."""
    return xids().get(number) or Xid(
        number=number,
        mnemonic="",
        meaning="",
        xid_class=XidClass.UNKNOWN,
        subclass="",
        action=Action.REPORT,
        severity=Severity.WARNING,
        plugin_ignores=False,
        note="",
    )


def _xid(row: Mapping[str, str]) -> Xid:
    return Xid(
        number=int(row["xid"]),
        mnemonic=row["mnemonic"],
        meaning=row["meaning"],
        xid_class=XidClass(row["xid_class"]),
        subclass=row["subclass"],
        action=Action(row["action"]),
        severity=Severity(row["severity"]),
        plugin_ignores=row["plugin_ignores"] == "yes",
        note=row["note"],
    )


@dataclass(frozen=True, slots=True)
class XidLine:
    """An Xid in the kernel's log. gpu_instance: of MIG, None for the whole GPU."""

    pci_bus: str
    number: int
    gpu_instance: int | None


_LINE: Final = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)(?:\s+GPU-I:(?P<instance>\d+))?[^)]*\): "
    r"(?P<number>\d+)\b"
)


def read_xid_line(line: str) -> XidLine | None:
    """The Xid that a line of the kernel's log reports, or None."""
    found = _LINE.search(line)
    if found is None:
        return None
    instance = found["instance"]
    return XidLine(
        found["bus"].lower(), int(found["number"]), None if instance is None else int(instance)
    )
