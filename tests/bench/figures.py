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


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number. of: what it is the number of, a page and a role say."""

    bench: str
    name: str
    value: float
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
            "bench": self.bench,
            "figure": self.name,
            "of": self.of,
            "value": round(self.value, 4),
            "most": self.most,
            "is_within": self.is_within,
            "protocol": self.protocol,
            "machine": machine(),
            "versions": versions(),
        }

    def as_text(self):
        of = " ".join(self.of.values())
        verdict = "" if self.is_within else "  TOO MUCH"
        return f"{self.bench:9} {self.name:19} {self.value:9.3f} of {self.most:<6} {of}{verdict}"


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
