from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from portal.site.seed import CLUSTER, TENANTS, seed, write_kubeconfig


class Command(BaseCommand):
    help = "Makes the demo's cluster, tenants and people; what is there already stays as it is."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.SIMCLUSTER_URL or not settings.SIMCLUSTER_TOKEN:
            raise CommandError(
                "Set MUSTER_SIMCLUSTER_URL and MUSTER_SIMCLUSTER_TOKEN to those of a running"
                " `python -m simcluster`; bin/run does all of this by itself."
            )
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
        kubeconfig = settings.DATA_DIR.resolve() / "simcluster.kubeconfig"
        write_kubeconfig(kubeconfig, url=settings.SIMCLUSTER_URL, token=settings.SIMCLUSTER_TOKEN)
        seed(kubeconfig, at=timezone.now())
        names = ", ".join(tenant.slug for tenant in TENANTS)
        self.stdout.write(f"The cluster {CLUSTER} and the tenants {names} are there.")
