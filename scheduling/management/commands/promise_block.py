from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.core.errors import PortalError
from scheduling.management import asking
from scheduling.services.blocks import BlockRequest, promise_block


class Command(BaseCommand):
    help = (
        "Promise whole GPUs to people from one time to another: "
        "promise_block main course node-1=8 node-2=4 --tenant teaching --from … --until … --as …"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("cluster")
        parser.add_argument("name")
        parser.add_argument("parts", nargs="+", metavar="NODE=GPUS")
        parser.add_argument("--tenant", help="whose jobs may use them meanwhile (nobody's)")
        asking.add_span(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        cluster = asking.cluster(options["cluster"])
        gpus = dict(_part(word) for word in options["parts"])
        nodes = asking.nodes(cluster, gpus)
        request = BlockRequest(
            name=options["name"],
            amounts={node: gpus[node.name] for node in nodes},
            tenant=asking.tenant(options["tenant"]) if options["tenant"] else None,
            **asking.span(options),
        )
        try:
            block = promise_block(request, cluster=cluster, by=asking.operator(options))
        except PortalError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(str(block))


def _part(word: str) -> tuple[str, int]:
    name, _, gpus = word.rpartition("=")
    if not name or not gpus.isdecimal():
        raise CommandError(f"{word} is no NODE=GPUS")
    return name, int(gpus)
