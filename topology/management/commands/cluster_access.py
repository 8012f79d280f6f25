from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandParser

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

    def handle(self, *_args: Any, **options: Any) -> None:
        objects = access_objects(options["account"], manages=options["manage"])
        self.stdout.write(yaml.safe_dump_all(objects, sort_keys=False, width=100))
