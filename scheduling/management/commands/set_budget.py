from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.core.errors import PortalError
from scheduling.management import asking
from tenants.services.budgets import set_budget


class Command(BaseCommand):
    help = "Limit what a tenant may use in a cluster, in GPU-hours, from one time to another."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant")
        parser.add_argument("cluster")
        parser.add_argument("gpu_hours", type=int)
        asking.add_span(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            budget = set_budget(
                asking.tenant(options["tenant"]),
                asking.cluster(options["cluster"]),
                gpu_hours=options["gpu_hours"],
                by=asking.operator(options),
                **asking.span(options),
            )
        except PortalError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(str(budget))
