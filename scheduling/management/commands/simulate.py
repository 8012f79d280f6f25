import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from scheduling.engine.scenario import ScenarioError, read_scenario
from scheduling.engine.scenario.values import seconds
from scheduling.simulation.run import simulate

UNREADABLE = 2


class Command(BaseCommand):
    help = "Run a scenario forward in time. Needs no database and no service."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--scenario", required=True, metavar="FILE", help="- reads stdin")
        parser.add_argument("--until", metavar="TIME", help="stop there: 90s, 30m, 2h or 3d")
        parser.add_argument("--devices", action="store_true", help="name the devices too")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            until = None if options["until"] is None else seconds(options["until"])
            scenario = read_scenario(_read(options["scenario"]))
            lines = list(simulate(scenario, until=until, with_devices=options["devices"]))
        except (ScenarioError, ValueError) as error:
            self.stderr.write(str(error))
            raise SystemExit(UNREADABLE) from error
        for line in lines:
            self.stdout.write(line)


def _read(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise SystemExit(f"cannot read {name}: {error.strerror}") from error
