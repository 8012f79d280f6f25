"""What the commands of operators are told, as rows and instants, or CommandError."""

from argparse import ArgumentParser
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError

from tenants.models import Tenant, User
from topology.models import Cluster, Node


def add_span(parser: ArgumentParser) -> None:
    """The arguments that `span` and `operator` read."""
    parser.add_argument("--from", dest="from_at", required=True, metavar="TIME", help="RFC 3339")
    parser.add_argument("--until", dest="until_at", required=True, metavar="TIME", help="RFC 3339")
    parser.add_argument("--as", dest="operator", required=True, help="the operator who asks")


def span(options: dict[str, Any]) -> dict[str, datetime]:
    """Both ends, on the cluster's clock."""
    return {name: _instant(options[name]) for name in ("from_at", "until_at")}


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"{text} is no time: write 2026-01-31T08:00:00Z") from error
    if at.tzinfo is None:
        raise CommandError(f"{text} has no zone: write {text}Z, or its offset")
    return at


def operator(options: dict[str, Any]) -> User:
    found = User.objects.filter(username=options["operator"]).first()
    if found is None:
        raise CommandError(f"there is nobody named {options['operator']}")
    return found


def cluster(slug: str) -> Cluster:
    found = Cluster.objects.filter(slug=slug).first()
    if found is None:
        raise CommandError(f"there is no cluster {slug}")
    return found


def tenant(slug: str) -> Tenant:
    found = Tenant.objects.active().filter(slug=slug).first()
    if found is None:
        raise CommandError(f"there is no tenant {slug}")
    return found


def nodes(of: Cluster, names: Iterable[str]) -> list[Node]:
    """The nodes of these names, in their order."""
    wanted = list(names)
    known = {node.name: node for node in of.nodes.present().filter(name__in=wanted)}
    if missing := [name for name in wanted if name not in known]:
        raise CommandError(f"{of.slug} has no node {', '.join(missing)}")
    return [known[name] for name in wanted]
