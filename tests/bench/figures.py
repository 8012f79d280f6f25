"""Figures: what was measured, on what, how, and the most that it may be."""

import os
import platform
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import django
import numpy as np
from django.db import connection

RANGES = tomllib.loads((Path(__file__).parent / "ranges.toml").read_text())


class NotRun(Exception):
    """What a bench needs is not there. The message says what."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number. n: of how many measurements. of: what it is the number of, a page and a role say.

    A bench that is all about seconds may be called by its name alone.
    """

    bench: str
    name: str
    value: float
    unit: str = "s"
    n: int = 1
    of: dict[str, str] = field(default_factory=dict)
    protocol: str = ""

    @property
    def most(self):
        return RANGES[self.bench][self.name]["most"]

    @property
    def is_within(self):
        return self.value <= self.most

    def as_json(self):
        return {
            "name": self.bench if self.name == "seconds" else f"{self.bench}/{self.name}",
            "value": float(f"{self.value:.4g}"),
            "unit": self.unit,
            "n": self.n,
            "of": self.of,
            "most": self.most,
            "is_within": self.is_within,
            "protocol": self.protocol,
            "machine": machine(),
            "versions": versions(),
        }

    def as_text(self):
        of = " ".join(self.of.values())
        verdict = "" if self.is_within else "  TOO MUCH"
        what = f"{self.bench:21} {self.name:20}"
        return f"{what} {self.value:9.4f} {self.unit:7} of {self.most:<6} {of}{verdict}"


def machine():
    """load: of the last minute; times measured beside other work say little."""
    return {"cores": os.cpu_count(), "system": platform.machine(), "load": os.getloadavg()[0]}


def versions():
    server = str(connection.pg_version) if connection.connection else ""
    return {
        "python": platform.python_version(),
        "django": django.__version__,
        "numpy": np.__version__,
        "postgresql": server[:2],
    }


def percentile(values, share):
    """The least of `values` that `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)]
