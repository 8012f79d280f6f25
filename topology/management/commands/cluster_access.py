from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError, CommandParser

from topology.kube.rights import access_objects


class Command(BaseCommand):
    help = (
        "Print as YAML the role that Muster's account needs in a cluster: to look only, or with "
        "--manage to place jobs and keep tenants' namespaces too."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--account",
            required=True,
            metavar="NAMESPACE/NAME",
            help="the service account that Muster is in the cluster, such as muster/muster",
        )
        parser.add_argument("--manage", action="store_true", help="the full set")
        parser.add_argument(
            "--layouts",
            action="store_true",
            help="with --manage: roll out MIG and sharing layouts, which changes nodes",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["layouts"] and not options["manage"]:
            raise CommandError("layouts are rolled out only where Muster manages: add --manage")
        objects = access_objects(
            options["account"], manages=options["manage"], lays_out=options["layouts"]
        )
        self.stdout.write(yaml.safe_dump_all(objects, sort_keys=False, width=100))
