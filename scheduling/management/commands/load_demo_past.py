import time
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from portal.core import clock
from scheduling.services import demo
from scheduling.services.past.course import FILE, PastJob, read_past
from scheduling.services.past.loading import is_told, lacking, tell_of_the_past
from topology.models import Cluster


class Command(BaseCommand):
    help = "Writes the demo's past down once its nodes are known: thirty days that were simulated."

    def handle(self, *args: Any, **options: Any) -> None:
        past = read_past(FILE)
        while (cluster := ready_cluster(past)) is None:
            time.sleep(1)
        began = time.monotonic()
        told = tell_of_the_past(cluster, past, at=clock.now(cluster), wall=timezone.now())
        took = time.monotonic() - began
        self.stdout.write(f"{told} jobs of the past are told of; that took {took:.1f} s.")


def ready_cluster(past: Sequence[PastJob]) -> Cluster | None:
    """The demo's cluster once all nodes of the past are there, or once it was told."""
    cluster = demo.demo_cluster()
    if cluster is None or (lacking(cluster, past) and not is_told(cluster)):
        return None
    return cluster
