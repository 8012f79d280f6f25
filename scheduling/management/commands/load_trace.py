import time
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.text import slugify

from portal.core import clock
from portal.core.errors import PortalError
from portal.core.locks import LockSpace, advisory_lock
from scheduling.management.feeder import run_feed
from scheduling.services import demo
from scheduling.services.demo_layout import tell_of_a_rollout
from scheduling.services.feeding import Feed, known_origin, people_of, unmapped
from scheduling.simulation.trace import (
    Keep,
    Trace,
    TraceError,
    TraceFormat,
    TraceJob,
    in_steps_of,
    read_trace,
)
from tenants.models import Tenant, User
from topology.models import Cluster
from topology.services.check import ask_for_check

SHOWN = 10  # bad rows and refused jobs that are named one by one
NEVER_MIND = 10**12  # a compression that leaves no time between any two jobs
LONGEST_FEED_NAME = 32  # of the 80 characters that an external id may have


class Command(BaseCommand):
    help = (
        "Submits the jobs of a public trace, each when the cluster's clock shows its time. Stopped"
        " and started again, it goes on where it was."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", type=Path, help=".csv or .csv.gz")
        parser.add_argument("--format", choices=list(TraceFormat), help="whose columns it has")
        parser.add_argument("--cluster", help="slug of the simulated cluster to submit to")
        parser.add_argument(
            "--tenant",
            action="append",
            default=[],
            metavar="[NAME=]SLUG",
            help="whose jobs they are: all of them, or those of the trace's tenant NAME",
        )
        parser.add_argument("--name", help="tells this replay from others (the file's name)")
        parser.add_argument("--compress", type=int, default=1, help="divide submit times by this")
        parser.add_argument("--limit", type=int, help="take the first so many jobs only")
        parser.add_argument("--max-gpus", type=int, help="leave wider jobs out")
        parser.add_argument("--max-seconds", type=int, help="leave longer jobs out")
        parser.add_argument("--at-once", action="store_true", help="submit all of them now")
        parser.add_argument("--demo", action="store_true", help="the demo's trace, over and over")
        parser.add_argument(
            "--sweeps", action="store_true", help="with --demo: beside it jobs on borrowed GPUs"
        )
        parser.add_argument("--rounds", type=int, help="with --demo: end after so many")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["demo"]:
                self.feed_demo(rounds=options["rounds"], sweeps=options["sweeps"])
            else:
                self.feed_file(options)
        except (PortalError, TraceError) as error:
            raise CommandError(str(error)) from error

    def feed_demo(self, *, rounds: int | None, sweeps: bool) -> None:
        if (cluster := demo.demo_cluster()) is None:
            self.stdout.write("Waiting for the demo to be seeded and its nodes to be seen.")
        while cluster is None:
            time.sleep(1)
            cluster = demo.demo_cluster()
        with advisory_lock(LockSpace.FEED, cluster.pk) as held:
            self.refuse_unless(held, cluster)
            if operator := User.objects.filter(is_operator=True).order_by("pk").first():
                tell_of_a_rollout(cluster, by=operator, at=this_second(cluster))
            ask_for_check(cluster)  # or its page would say little until the beat does
            coming = demo.next_round(cluster, at=this_second(cluster))
            while rounds is None or coming.number <= rounds:
                self.stdout.write(f"Round {coming.number} of the demo's trace.")
                beside = (coming.sweeps, coming.sweep_jobs) if sweeps else None
                refused = run_feed(coming.feed, coming.jobs, out=self.stdout, beside=beside)
                self.report("refused", refused)
                coming = demo.next_round(cluster, at=this_second(cluster))

    def feed_file(self, options: dict[str, Any]) -> None:
        cluster = chosen_cluster(options["cluster"])
        trace = chosen_trace(options)
        self.report("not read", [str(row) for row in trace.bad])
        tenants = chosen_tenants(options["tenant"], trace.jobs)
        name = chosen_name(options)
        with advisory_lock(LockSpace.FEED, cluster.pk) as held:
            self.refuse_unless(held, cluster)
            feed = Feed(
                name=name,
                cluster=cluster,
                origin=known_origin(cluster, name, trace.jobs) or this_second(cluster),
                tenants=tenants,
                people=people_of(set(tenants.values())),
            )
            self.report("refused", run_feed(feed, trace.jobs, out=self.stdout))

    def report(self, what: str, sentences: list[str]) -> None:
        if sentences:
            self.stderr.write(f"{len(sentences)} jobs were {what} and are left out:")
        for sentence in sentences[:SHOWN]:
            self.stderr.write(f"  {sentence}")
        if len(sentences) > SHOWN:
            self.stderr.write(f"  and {len(sentences) - SHOWN} more")

    def refuse_unless(self, held: bool, cluster: Cluster) -> None:  # noqa: FBT001 - what it is about
        if not held:
            raise CommandError(
                f"Another load_trace feeds {cluster.slug}: wait until it is done, or stop it."
            )


def chosen_cluster(slug: str | None) -> Cluster:
    known = list(Cluster.objects.filter(is_simulated=True).order_by("slug"))
    for cluster in known:
        if cluster.slug == slug:
            return cluster
    names = ", ".join(cluster.slug for cluster in known) or "none"
    raise CommandError(f"Say --cluster and the slug of a simulated cluster; there are: {names}.")


def chosen_trace(options: dict[str, Any]) -> Trace:
    """The jobs that were asked for, on the clock that was asked for."""
    if options["file"] is None or options["format"] is None:
        raise CommandError("Name the file and its --format, or say --demo.")
    compress = NEVER_MIND if options["at_once"] else options["compress"]
    if compress < 1:
        raise CommandError("--compress is a whole number, 1 or more.")
    keep = Keep(max_gpus=options["max_gpus"], max_duration=options["max_seconds"])
    trace = read_trace(options["file"], TraceFormat(options["format"]), keep=keep)
    jobs = tuple(in_steps_of(job, compress) for job in trace.jobs[: options["limit"]])
    if not jobs:
        raise CommandError("No job of that trace is left to submit.")
    return Trace(jobs, trace.bad)


def chosen_tenants(said: Sequence[str], jobs: Sequence[TraceJob]) -> dict[str, Tenant]:
    """Tenants by their names in the trace; those not said are looked for by that name."""
    slugs = {job.tenant: job.tenant for job in jobs}
    slugs |= {name: slug for name, _, slug in (text.rpartition("=") for text in said)}
    known = Tenant.objects.active().in_bulk(slugs.values(), field_name="slug")
    if missing := {slug for text in said if (slug := text.rpartition("=")[2]) not in known}:
        raise CommandError(f"There is no tenant {', '.join(sorted(missing))}.")
    tenants = {name: known[slug] for name, slug in slugs.items() if slug in known}
    if lost := unmapped(jobs, tenants):
        raise CommandError(
            f"Whose jobs are those of {', '.join(lost[:SHOWN]) or 'the trace'}?"
            " Say --tenant NAME=SLUG for each, or --tenant SLUG for all."
        )
    return tenants


def chosen_name(options: dict[str, Any]) -> str:
    file: Path = options["file"]
    name = options["name"] or file.name.removesuffix(".gz").removesuffix(".csv")
    return slugify(name)[:LONGEST_FEED_NAME] or "trace"


def this_second(cluster: Cluster) -> datetime:
    """The cluster's clock without the fraction, as a cluster's own times are."""
    return clock.now(cluster).replace(microsecond=0)
