from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.models import Cycle
from scheduling.services.recording import export_cycle


class Command(BaseCommand):
    help = "Print a recorded cycle as JSON: what was seen, the policy, what was decided."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=int)

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            self.stdout.write(export_cycle(Cycle.objects.get(pk=options["id"])))
        except Cycle.DoesNotExist as error:
            raise CommandError(f"there is no cycle {options['id']}") from error
        except LookupError as error:
            raise CommandError(str(error)) from error
