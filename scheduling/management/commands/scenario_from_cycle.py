import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.engine.scenario.writing import UnsayableError
from scheduling.models import Cycle
from scheduling.services.recording import scenario_of_cycle


class Command(BaseCommand):
    help = (
        "Print a recorded cycle as a scenario, to be read, changed and planned again by"
        " `manage.py plan`. Exit status 1 where its plan is not what was decided."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=int)

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            text, differences = scenario_of_cycle(Cycle.objects.get(pk=options["id"]))
        except Cycle.DoesNotExist as error:
            raise CommandError(f"there is no cycle {options['id']}") from error
        except LookupError as error:
            raise CommandError(str(error)) from error
        except UnsayableError as error:
            raise CommandError(f"the scenario language has no words for {error}") from error
        self.stdout.write(text, ending="")
        if differences:
            self.stderr.write("This scenario plans otherwise (- decided, + planned):")
            self.stderr.write("\n".join(differences))
            sys.exit(1)
