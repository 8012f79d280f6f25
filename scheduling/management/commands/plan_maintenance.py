from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.core.errors import PortalError
from scheduling.management import asking
from scheduling.services.maintenance import WindowRequest, plan_maintenance


class Command(BaseCommand):
    help = "Keep nodes free of jobs from one time to another; what runs there is left alone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("cluster")
        parser.add_argument("nodes", nargs="+", metavar="NODE")
        parser.add_argument("--note", default="", help="what for")
        asking.add_span(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        cluster = asking.cluster(options["cluster"])
        try:
            request = WindowRequest(
                nodes=asking.nodes(cluster, options["nodes"]),
                note=options["note"],
                **asking.span(options),
            )
            window = plan_maintenance(request, cluster=cluster, by=asking.operator(options))
        except PortalError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(str(window))
