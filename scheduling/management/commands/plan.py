import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from scheduling.engine.codec import UnreadableError, decode, encode
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.policy import Policy
from scheduling.engine.scenario import ScenarioError, read_scenario
from scheduling.engine.snapshot import Snapshot

UNREADABLE = 2


class Command(BaseCommand):
    help = "Plan one cycle of a scenario and print the decisions. Needs no database and no service."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", default="-", help="a scenario; - or none: stdin")
        parser.add_argument("--json", action="store_true", help="read a Snapshot, write a Plan")
        parser.add_argument("--devices", action="store_true", help="name the devices too")

    def handle(self, *_args: Any, **options: Any) -> None:
        text = _read(options["file"])
        try:
            if options["json"]:
                plan = plan_cycle(decode(text, Snapshot), Policy())
                lines = [encode(plan)]
            else:
                lines = read_scenario(text).plan_lines(with_devices=options["devices"])
        except (ScenarioError, UnreadableError) as error:
            self.stderr.write(str(error))
            raise SystemExit(UNREADABLE) from error
        for line in lines:
            self.stdout.write(line)


def _read(name: str) -> str:
    try:
        found = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return found.decode()
    except OSError as error:
        raise SystemExit(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SystemExit(f"cannot read {name}: it is no UTF-8 text") from error
