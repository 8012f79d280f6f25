import csv
import sys
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduling.engine.scenario import ScenarioError, policy_changes, read_scenario
from scheduling.engine.scenario.values import seconds
from scheduling.simulation.replay import Site
from scheduling.simulation.run import simulate
from scheduling.simulation.streams import (
    NAMED_POLICIES,
    as_json,
    as_lines,
    read_stream,
    run_stream,
    start_rows,
)
from scheduling.simulation.trace import Keep, TraceError, TraceFormat, philly_seconds

UNREADABLE = 2


class Command(BaseCommand):
    help = (
        "Run a scenario or a trace forward in time, with the cycle that plans in production."
        " Needs no database and no service."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--scenario", metavar="FILE", help="a scenario; - reads stdin")
        what.add_argument("--trace", type=Path, metavar="FILE", help="jobs: .csv or .csv.gz")
        parser.add_argument("--until", metavar="TIME", help="stop there: 90s, 30m, 2h or 3d")
        parser.add_argument("--devices", action="store_true", help="name the devices too")
        parser.add_argument("--format", type=TraceFormat, choices=list(TraceFormat))
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--gpus", type=int, help="one pool of so many GPUs")
        where.add_argument("--nodes", type=_site, metavar="64x8", help="nodes of so many GPUs")
        parser.add_argument("--from", dest="since", metavar="DATE", help="jobs submitted from then")
        parser.add_argument("--to", dest="before", metavar="DATE", help="and before then")
        parser.add_argument("--compress", type=int, help="divide submit times by this")
        parser.add_argument("--policy", choices=list(NAMED_POLICIES), default="easy")
        parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
        parser.add_argument("--estimates", type=int, default=1, help="run times, overestimated")
        parser.add_argument("--starts", type=Path, metavar="OUT.csv", help="write each start")
        parser.add_argument("--json", action="store_true", help="the figures as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            lines = self._trace(options) if options["trace"] else self._scenario(options)
        except (ScenarioError, TraceError, ValueError) as error:
            self.stderr.write(str(error))
            raise SystemExit(UNREADABLE) from error
        for line in lines:
            self.stdout.write(line)

    def _scenario(self, options: dict[str, Any]) -> list[str]:
        until = None if options["until"] is None else seconds(options["until"])
        scenario = read_scenario(_read(options["scenario"]))
        return list(simulate(scenario, until=until, with_devices=options["devices"]))

    def _trace(self, options: dict[str, Any]) -> list[str]:
        site = options["nodes"] or (Site(1, options["gpus"]) if options["gpus"] else None)
        if site is None or options["format"] is None:
            raise CommandError("a trace needs --format, and --gpus or --nodes")
        stream = read_stream(
            options["trace"],
            options["format"],
            keep=Keep(window=_window(options["since"], options["before"])),
            compress=options["compress"],
            estimates=options["estimates"],
        )
        changes = policy_changes(options["set"])
        result = run_stream(stream, site, options["policy"], changes)
        if options["starts"]:
            with options["starts"].open("w", encoding="utf-8", newline="") as out:
                writer = csv.writer(out, lineterminator="\n")
                writer.writerow(["job", "submit", "start", "end"])
                writer.writerows(start_rows(result))
        return [as_json(result)] if options["json"] else as_lines(result)


def _site(word: str) -> Site:
    nodes, _, gpus = word.partition("x")
    if not nodes.isdecimal() or not gpus.isdecimal() or not int(nodes) * int(gpus):
        raise ArgumentTypeError(f"{word!r}: write 64x8")
    return Site(int(nodes), int(gpus))


def _window(since: str | None, before: str | None) -> tuple[int, int] | None:
    if since is None and before is None:
        return None
    if since is None or before is None:
        raise CommandError("--from and --to come together")
    return philly_seconds(since), philly_seconds(before)


def _read(name: str) -> str:
    try:
        found = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return found.decode()
    except OSError as error:
        raise SystemExit(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SystemExit(f"cannot read {name}: it is no UTF-8 text") from error
