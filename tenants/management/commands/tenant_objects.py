from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError, CommandParser

from tenants.models import Tenant
from tenants.services.tenancy import tenancy_spec, with_access
from topology.kube import tenancy
from topology.models import Cluster


class Command(BaseCommand):
    help = (
        "Print as YAML what Muster keeps in a cluster for a tenant, or for every tenant with "
        "access: namespace, quota, limits, networks, account and rights."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("cluster", help="its slug")
        parser.add_argument("tenants", nargs="*", metavar="TENANT", help="slugs; all unless said")

    def handle(self, *_args: Any, **options: Any) -> None:
        cluster = Cluster.objects.filter(slug=options["cluster"]).first()
        if cluster is None:
            raise CommandError(f"there is no cluster {options['cluster']}")
        tenants = _named(options["tenants"]) if options["tenants"] else with_access(cluster)
        specs = [tenancy_spec(tenant, cluster) for tenant in tenants]
        objects = [obj for spec in specs for obj in tenancy.tenant_objects(spec)]
        self.stdout.write(yaml.safe_dump_all(objects, sort_keys=False, width=100))


def _named(slugs: list[str]) -> list[Tenant]:
    found = {tenant.slug: tenant for tenant in Tenant.objects.filter(slug__in=slugs)}
    for slug in slugs:
        if slug not in found:
            raise CommandError(f"there is no tenant {slug}")
    return [found[slug] for slug in slugs]
