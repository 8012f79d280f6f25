import base64
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.core.errors import ClusterAway
from topology.kube.gateway import RefusedByCluster
from topology.kube.live import connect
from topology.kube.tenancy import shared_objects
from topology.models import Cluster


class Command(BaseCommand):
    help = (
        "Print as YAML what a cluster's administrator installs once for Muster: admission "
        "policies, priority classes, and the role of tenants' people. --apply CLUSTER installs it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--account",
            action="append",
            required=True,
            metavar="NAME",
            help="user name of Muster in the cluster, such as system:serviceaccount:muster:worker; "
            "nobody else opens gates. May be said more than once",
        )
        parser.add_argument("--apply", metavar="CLUSTER", help="its slug")
        parser.add_argument(
            "--webhooks",
            metavar="NAMESPACE/SERVICE",
            help="webhooks that this service answers, for a cluster without admission policies",
        )
        parser.add_argument("--ca", type=Path, help="file with the CA of its certificate")

    def handle(self, *_args: Any, **options: Any) -> None:
        server = _server(options["webhooks"], options["ca"]) if options["webhooks"] else None
        objects = shared_objects(options["account"], server=server)
        if not options["apply"]:
            self.stdout.write(yaml.safe_dump_all(objects, sort_keys=False, width=100))
            return
        cluster = Cluster.objects.filter(slug=options["apply"]).first()
        if cluster is None:
            raise CommandError(f"there is no cluster {options['apply']}")
        if not cluster.is_writable:
            raise CommandError(f"cluster {cluster.slug} is connected to look only")
        try:
            connect(cluster.kubeconfig_path).apply(objects)
        except (ClusterAway, RefusedByCluster) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{len(objects)} objects are in cluster {cluster.slug} as they should be")


def _server(service: str, ca: Path | None) -> dict[str, Any]:
    """How an API server reaches who answers. CommandError for what says too little."""
    namespace, _slash, name = service.partition("/")
    if not name or ca is None:
        raise CommandError("say NAMESPACE/SERVICE, and with --ca whose certificate counts there")
    try:
        bundle = base64.b64encode(ca.read_bytes()).decode()
    except OSError as error:
        raise CommandError(f"{ca} cannot be read: {error.strerror}") from error
    return {"service": {"namespace": namespace, "name": name}, "caBundle": bundle}
