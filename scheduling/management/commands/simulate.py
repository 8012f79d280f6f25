import csv
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from scheduling.engine.scenario import ScenarioError, policy_changes, read_scenario
from scheduling.engine.scenario.values import seconds
from scheduling.simulation.outcome import Watch
from scheduling.simulation.replay import Site
from scheduling.simulation.run import simulate
from scheduling.simulation.streams import (
    NAMED_POLICIES,
    Estimates,
    Result,
    Stream,
    as_json,
    as_lines,
    read_stream,
    run_stream,
    start_rows,
    with_fair_quotas,
)
from scheduling.simulation.trace import Keep, TraceError, TraceFormat, philly_seconds

UNREADABLE = 2
SECONDS_BETWEEN_NEWS = 5
_OF_A_TRACE = (
    "format gpus nodes since before compress policy set estimates quotas engine starts json"
)
_OF_A_SCENARIO = "until devices"


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
        own = parser.add_argument_group("of a scenario")
        own.add_argument("--until", metavar="TIME", help="stop there: 90s, 30m, 2h or 3d")
        own.add_argument("--devices", action="store_true", help="name the devices too")
        self._add_trace_arguments(parser)

    def _add_trace_arguments(self, parser: ArgumentParser) -> None:
        own = parser.add_argument_group("of a trace")
        own.add_argument("--format", type=TraceFormat, choices=list(TraceFormat))
        where = own.add_mutually_exclusive_group()
        where.add_argument("--gpus", type=_positive, help="one pool of so many GPUs")
        where.add_argument("--nodes", type=_site, metavar="64x8", help="nodes of so many GPUs")
        own.add_argument("--from", dest="since", metavar="DATE", help="jobs submitted from then on")
        own.add_argument("--to", dest="before", metavar="DATE", help="and before then")
        own.add_argument("--compress", type=_positive, help="divide submit times by this")
        own.add_argument("--policy", choices=list(NAMED_POLICIES), help="easy unless told")
        own.add_argument("--set", action="append", metavar="KEY=VALUE", help="change the policy")
        own.add_argument(
            "--estimates",
            type=_estimates,
            metavar="1|5|round",
            help="what users say: their run times, so many times as much, or the next round limit",
        )
        own.add_argument(
            "--quotas",
            action="store_true",
            help="guarantee each tenant its part of the GPUs; what it does not use is lent",
        )
        own.add_argument(
            "--engine", action="store_true", help="plan every cycle, where a pool would do as well"
        )
        own.add_argument("--starts", type=Path, metavar="OUT.csv", help="write each start")
        own.add_argument("--json", action="store_true", help="the figures as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            lines = self._trace(options) if options["trace"] else self._scenario(options)
        except (ScenarioError, TraceError, ValueError) as error:
            self.stderr.write(str(error))
            raise SystemExit(UNREADABLE) from error
        for line in lines:
            self.stdout.write(line)

    def _scenario(self, options: dict[str, Any]) -> list[str]:
        _refuse(options, _OF_A_TRACE, "--trace")
        until = None if options["until"] is None else seconds(options["until"])
        scenario = read_scenario(_read(options["scenario"]))
        return list(simulate(scenario, until=until, with_devices=options["devices"]))

    def _trace(self, options: dict[str, Any]) -> list[str]:
        _refuse(options, _OF_A_SCENARIO, "--scenario")
        site = options["nodes"] or (Site(1, options["gpus"]) if options["gpus"] else None)
        if site is None or options["format"] is None:
            raise ValueError("a trace needs --format, and --gpus or --nodes")
        policy = replace(
            NAMED_POLICIES[options["policy"] or "easy"], **policy_changes(options["set"] or [])
        )
        stream = _stream(options)
        result = run_stream(
            stream,
            with_fair_quotas(site, stream) if options["quotas"] else site,
            policy,
            by_engine=options["engine"],
            watch=self._news(len(stream.jobs)),
        )
        if options["starts"]:
            _write_starts(options["starts"], result)
        return [as_json(result)] if options["json"] else as_lines(result)

    def _news(self, jobs: int) -> Watch:
        """Says on standard error from time to time how far the run is."""
        told_at = time.monotonic()

        def watch(ended: int) -> None:
            nonlocal told_at
            if time.monotonic() - told_at >= SECONDS_BETWEEN_NEWS:
                told_at = time.monotonic()
                self.stderr.write(f"{ended:,} of {jobs:,} jobs have ended", self.style.NOTICE)

        return watch


def _stream(options: dict[str, Any]) -> Stream:
    return read_stream(
        options["trace"],
        options["format"],
        keep=Keep(window=_window(options)),
        compress=options["compress"],
        estimates=options["estimates"] or Estimates(),
    )


def _write_starts(path: Path, result: Result) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(["job", "submit", "start", "end"])
            writer.writerows(start_rows(result))
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}") from error


def _refuse(options: dict[str, Any], names: str, where: str) -> None:
    """ValueError for an option that goes with the other kind of input."""
    named = {"since": "from", "before": "to"}
    for name in names.split():
        if options[name]:
            raise ValueError(f"--{named.get(name, name)} goes with {where}")


def _positive(word: str) -> int:
    if not word.isdecimal() or not int(word):
        raise ArgumentTypeError(f"{word!r}: write a whole number, at least 1")
    return int(word)


def _estimates(word: str) -> Estimates:
    return Estimates(is_round=True) if word == "round" else Estimates(_positive(word))


def _site(word: str) -> Site:
    nodes, _, gpus = word.partition("x")
    if not nodes.isdecimal() or not gpus.isdecimal() or not int(nodes) * int(gpus):
        raise ArgumentTypeError(f"{word!r}: write 64x8")
    return Site(int(nodes), int(gpus))


def _window(options: dict[str, Any]) -> tuple[int, int] | None:
    since, before = options["since"], options["before"]
    if since is None and before is None:
        return None
    if since is None or before is None:
        raise ValueError("--from and --to come together")
    if options["format"] != TraceFormat.PHILLY:
        raise ValueError("--from and --to need a trace with dates, which only philly has")
    window = _date(since), _date(before)
    if window[0] >= window[1]:
        raise ValueError(f"--to {before} is not after --from {since}")
    return window


def _date(word: str) -> int:
    try:
        return philly_seconds(word)
    except ValueError as error:
        raise ValueError(f"{word!r} is no date: write 2017-10-01") from error


def _read(name: str) -> str:
    try:
        found = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return found.decode()
    except OSError as error:
        raise SystemExit(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SystemExit(f"cannot read {name}: it is no UTF-8 text") from error
