import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from scheduling.simulation.inflation.choosers import InflatePolicy
from scheduling.simulation.inflation.lists import read_nodes, read_tasks
from scheduling.simulation.inflation.run import Inflation, inflate

REPORTED = (50, 80, 90, 100, 110, 120, 130)
UNREADABLE = 2


class Command(BaseCommand):
    help = "Fill a list of nodes with tasks until fragmentation stops it. Needs no database."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--nodes", type=Path, required=True)
        parser.add_argument("--pods", type=Path, required=True)
        parser.add_argument("--policy", choices=list(InflatePolicy), default="fgd")
        parser.add_argument("--exact", action="store_true", help="compare whole numbers")
        parser.add_argument("--seeds", type=_seeds, default=range(42, 52), metavar="42-51")
        parser.add_argument("--json", action="store_true", help="one JSON object a run")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            nodes, tasks = read_nodes(options["nodes"]), read_tasks(options["pods"])
        except KeyError as error:
            self.stderr.write(f"these lists cannot be read: one has no column {error}")
            raise SystemExit(UNREADABLE) from error
        except (OSError, EOFError, ValueError) as error:
            self.stderr.write(f"these lists cannot be read: {error}")
            raise SystemExit(UNREADABLE) from error
        policy, runs = InflatePolicy(options["policy"]), []
        for seed in options["seeds"]:
            run = inflate(nodes, tasks, policy, seed, exact=options["exact"])
            runs.append(run)
            self.stdout.write(json.dumps(asdict(run)) if options["json"] else _line(run))
        if not options["json"]:
            self.stdout.write(_mean_line(runs))


def _seeds(word: str) -> Sequence[int]:
    first, _, last = word.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal():
        raise ArgumentTypeError(f"{word!r}: write 42 or 42-51")
    return range(int(first), int(last or first) + 1)


def _line(run: Inflation) -> str:
    figures = " ".join(
        f"alloc@{bucket}={run.allocated[bucket]}" for bucket in REPORTED if bucket in run.allocated
    )
    return f"seed {run.seed}: {figures} lost={run.lost_tasks} log={run.log_sha256[:16]}"


def _mean_line(runs: Sequence[Inflation]) -> str:
    parts = []
    for bucket in REPORTED:
        values = [run.allocated[bucket] for run in runs if bucket in run.allocated]
        if values:
            mean = sum(values) / len(values)
            parts.append(f"alloc@{bucket}={mean:.2f} ({min(values)}..{max(values)})")
    return "all: " + " ".join(parts)
