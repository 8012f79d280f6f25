import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.core.errors import PortalError
from scheduling.engine.codec import to_plain
from scheduling.services.policies import newest_policy, policy_in_force, set_policy
from tenants.models import User
from topology.models import Cluster


class Command(BaseCommand):
    help = (
        "Show the policy that a cluster is planned with, or change it: "
        "set_policy main order=fair reservations=1 --as OPERATOR"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("cluster", help="its slug")
        parser.add_argument("changes", nargs="*", metavar="KNOB=VALUE")
        parser.add_argument("--as", dest="operator", help="the operator who changes it")
        parser.add_argument("--note", default="", help="why, for who looks at the history")

    def handle(self, *_args: Any, **options: Any) -> None:
        cluster = Cluster.objects.filter(slug=options["cluster"]).first()
        if cluster is None:
            raise CommandError(f"there is no cluster {options['cluster']}")
        if options["changes"]:
            self._change(cluster, options)
        for knob, value in to_plain(policy_in_force(cluster)).items():
            self.stdout.write(f"{knob}={json.dumps(value)}")

    def _change(self, cluster: Cluster, options: dict[str, Any]) -> None:
        operator = User.objects.filter(username=options["operator"]).first()
        if operator is None:
            raise CommandError("say who changes it: --as USERNAME, an operator")
        newest = newest_policy(cluster)
        try:
            set_policy(
                cluster,
                dict(_change(word) for word in options["changes"]),
                by=operator,
                seen=newest.number if newest else 0,
                note=options["note"],
            )
        except PortalError as error:
            raise CommandError(str(error)) from error


def _change(word: str) -> tuple[str, Any]:
    """Knob and value of `knob=value`; the value is JSON, or a word."""
    knob, equals, value = word.partition("=")
    if not equals:
        raise CommandError(f"{word} is no KNOB=VALUE")
    try:
        return knob, json.loads(value)
    except ValueError:
        return knob, value
