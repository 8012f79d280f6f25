from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.core.errors import ClusterAway
from topology.kube.gateway import RefusedByCluster
from topology.models import Cluster
from topology.reports.stack import PartRow, rows_of
from topology.services.check import findings
from topology.services.reach import gateway_to


class Command(BaseCommand):
    help = (
        "Say which GPU software a cluster has, with versions, what is lost without the rest, and "
        "which rights of Muster's account are missing. Changes nothing; exit status 1 when a right "
        "to look is missing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("cluster", metavar="CLUSTER", help="its slug")

    def handle(self, *_args: Any, **options: Any) -> None:
        cluster = Cluster.objects.filter(slug=options["cluster"]).first()
        if cluster is None:
            raise CommandError(f"there is no cluster {options['cluster']}")
        try:
            found = findings(gateway_to(cluster).wire)
        except (ClusterAway, RefusedByCluster) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"Kubernetes {found['kubernetes']}: {found['nodes']} nodes, "
            f"{found['gpu_nodes']} with GPUs"
        )
        for row in rows_of(found["parts"], gpu_nodes=found["gpu_nodes"]):
            self.stdout.write(_line(row))
        for path in found["closed"]:
            self.stdout.write(f"may not be listed: {path}")
        self._say_rights(found)

    def _say_rights(self, found: dict[str, Any]) -> None:
        if not found["knows_rights"]:
            self.stdout.write("the cluster does not say what Muster may do")
        for purpose in ("manage", "look"):
            for right in found[f"lacks_to_{purpose}"]:
                self.stdout.write(f"missing right to {purpose}: {right}")
        if found["lacks_to_look"]:
            raise CommandError("rights to look are missing; see manage.py cluster_access")


def _line(row: PartRow) -> str:
    """One part: state, versions, nodes, and what follows from it."""
    version = ", ".join(row.versions)
    nodes = "" if row.nodes is None else f"{row.nodes} nodes"
    facts = ", ".join(part for part in (version, nodes) if part)
    said = f"{row.name}: {row.state_says}" + (f" ({facts})" if facts else "")
    return f"{said}. {row.says}" if row.says else said
