import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.engine import codec
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.invariants import violations
from scheduling.engine.plan import Plan
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Snapshot


class Command(BaseCommand):
    help = (
        "Plan a recorded cycle again (a file of export_cycle) and say whether the plan is the same."
        " Exit status 1 when it is not. Needs no database."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *_args: Any, **options: Any) -> None:
        snapshot, policy, recorded = _read(options["file"])
        again = plan_cycle(snapshot, policy)
        for wrong in violations(snapshot, again, policy):
            self.stdout.write(f"violation: {wrong}")
        if codec.encode(again) == codec.encode(recorded):
            self.stdout.write(f"same: {len(again.decisions)} decisions, byte for byte")
            return
        before, after = set(map(repr, recorded.decisions)), set(map(repr, again.decisions))
        for line in sorted(before - after):
            self.stdout.write(f"- {line}")
        for line in sorted(after - before):
            self.stdout.write(f"+ {line}")
        self.stdout.write("different")
        sys.exit(1)


def _read(path: Path) -> tuple[Snapshot, Policy, Plan]:
    """Snapshot, Policy and Plan of the file; CommandError where it is none of ours."""
    try:
        parts = json.loads(path.read_text())
        return (
            codec.decode(json.dumps(parts["snapshot"]), Snapshot),
            codec.decode(json.dumps(parts["policy"]), Policy),
            codec.decode(json.dumps(parts["plan"]), Plan),
        )
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CommandError(f"{path} is no recorded cycle: {error}") from error
