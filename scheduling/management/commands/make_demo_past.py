import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduling.services.past.course import FILE, write_past
from scheduling.services.past.making import jobs_of_the_past, make_past
from scheduling.simulation.trace import TraceError


class Command(BaseCommand):
    help = (
        "Makes the demo's past anew: thirty days of the reduced Philly trace through the simulator."
        " Needs no database and no service, and some minutes."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("trace", type=Path, help="the whole trace: .csv or .csv.gz")
        parser.add_argument("--to", type=Path, default=FILE, help="where it goes (tests/data)")

    def handle(self, *args: Any, **options: Any) -> None:
        began = time.monotonic()
        try:
            jobs = jobs_of_the_past(options["trace"])
        except TraceError as error:
            raise CommandError(str(error)) from error
        past = make_past(jobs)
        write_past(options["to"], past)
        took = time.monotonic() - began
        self.stdout.write(
            f"{len(past)} of {len(jobs)} jobs ended in time; {options['to']} tells of them."
            f" It took {took:.0f} s."
        )
