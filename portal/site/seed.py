"""The demo's cluster, tenants and people. Asked again, it changes nothing but what has moved."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from django.db import transaction

from portal.core.clock import day_in
from tenants.models import (
    Cohort,
    Membership,
    PriorityClass,
    Quota,
    QuotaRequest,
    Role,
    Tenant,
    User,
)
from tenants.services.membership import add_member
from tenants.services.quota import QuotaAmounts, set_quota
from tenants.services.quota_requests import QuotaWish, file_request
from topology.models import Cluster, ResourceFlavor

CLUSTER = "demo"
OPERATOR = "demo-operator"
LEAD, RESEARCHER, PAYER = "mei-lin", "jonas-weber", "ruth-adler"  # whom the demo lets one be
COHORT = "research"
DEFAULT_PRIORITY = "normal"
HIGHEST_PRIORITY = "high"  # that a tenant may ask for itself
PRIORITIES = {
    "low": (0, "May wait: sweeps, clean-ups, whatever nobody is waiting for."),
    DEFAULT_PRIORITY: (100, "The usual."),
    HIGHEST_PRIORITY: (200, "A deadline is near."),
    "urgent": (300, "Operators only."),
}
FLAVORS = {
    "H100-SXM": ("NVIDIA-H100-80GB-HBM3", 81_559),
    "A100-80GB": ("NVIDIA-A100-SXM4-80GB", 81_920),
    "L40S": ("NVIDIA-L40S", 46_068),
}
"""Flavors by name: the product that nodes report, and the memory of one GPU in MiB."""


@dataclass(frozen=True, slots=True)
class DemoTenant:
    """A tenant to be. people: user name, full name, role. quota: guaranteed GPUs by flavor."""

    slug: str
    name: str
    about: str
    people: tuple[tuple[str, str, Role], ...]
    quota: Mapping[str, int]


TENANTS = (
    DemoTenant(
        "nlp",
        "Language",
        "Language models, from pre-training to evaluation.",
        (
            ("mei-lin", "Mei Lin", Role.LEAD),
            ("jonas-weber", "Jonas Weber", Role.RESEARCHER),
            ("aisha-bello", "Aisha Bello", Role.RESEARCHER),
            ("ruth-adler", "Ruth Adler", Role.VIEWER),
        ),
        {"H100-SXM": 32, "A100-80GB": 16},
    ),
    DemoTenant(
        "vision",
        "Vision",
        "Detection, segmentation and video.",
        (
            ("elena-rossi", "Elena Rossi", Role.LEAD),
            ("tomasz-nowak", "Tomasz Nowak", Role.RESEARCHER),
            ("yuki-tanaka", "Yuki Tanaka", Role.RESEARCHER),
            ("priya-shah", "Priya Shah", Role.VIEWER),
            ("ruth-adler", "Ruth Adler", Role.VIEWER),
        ),
        {"A100-80GB": 4, "L40S": 8},
    ),
    DemoTenant(
        "speech",
        "Speech",
        "Recognition and synthesis.",
        (
            ("samuel-okafor", "Samuel Okafor", Role.LEAD),
            ("nina-petrov", "Nina Petrov", Role.RESEARCHER),
        ),
        {"A100-80GB": 4, "L40S": 4},
    ),
    DemoTenant(
        "robotics",
        "Robotics",
        "Policies, simulation and perception for robots.",
        (
            ("carla-mendes", "Carla Mendes", Role.LEAD),
            ("arjun-rao", "Arjun Rao", Role.RESEARCHER),
        ),
        {"H100-SXM": 16},
    ),
)
"""They leave eight A100 and four L40S to be asked for."""

ASKING = ("speech", "samuel-okafor")  # a tenant, and its lead, that ask for some of them
ASKED_FLAVOR, ASKED_GPUS, ASKED_DAYS = "L40S", 4, 90
ASKED_WHY = (
    "Fine-tuning of the recogniser for three new languages: six runs of about eight days on four"
    " GPUs, as measured on the first one in October."
)


@transaction.atomic
def seed(kubeconfig: Path, *, at: datetime) -> None:
    """Everything the demo needs before its first job.

    kubeconfig: how its cluster is reached. at: wall clock.
    """
    operator = _person(OPERATOR, "Demo Operator", is_operator=True)
    cluster, _ = Cluster.objects.update_or_create(
        slug=CLUSTER,
        defaults={"kubeconfig_path": str(kubeconfig), "is_simulated": True},
        create_defaults={
            "kubeconfig_path": str(kubeconfig),
            "is_simulated": True,
            "name": "Demo cluster",
        },
    )
    flavors = {name: _flavor(cluster, name) for name in FLAVORS}
    for name, (value, description) in PRIORITIES.items():
        PriorityClass.objects.get_or_create(
            name=name,
            defaults={
                "value": value,
                "description": description,
                "is_default": name == DEFAULT_PRIORITY,
            },
        )
    for tenant in TENANTS:
        _tenant(tenant, flavors, operator)
    _ask(cluster, flavors[ASKED_FLAVOR], at=at)


def write_kubeconfig(path: Path, *, url: str, token: str) -> None:
    """Write how the simulated cluster is reached, at once, for its owner alone to read."""
    half = path.with_suffix(".half")
    half.unlink(missing_ok=True)
    descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(_kubeconfig(url, token), file, indent=2)  # JSON is YAML
    half.replace(path)


def _kubeconfig(url: str, token: str) -> dict[str, object]:
    """The token stands in the address as well: kubectl leaves a user's out over plain HTTP."""
    server = url.replace("://", f"://muster:{quote(token, safe='')}@", 1)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER, "cluster": {"server": server}}],
        "users": [{"name": "muster", "user": {"token": token}}],
        "contexts": [{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": "muster"}}],
        "current-context": CLUSTER,
    }


def _person(username: str, full_name: str, *, is_operator: bool = False) -> User:
    """Somebody without a password, who comes in by a link."""
    first, last = full_name.split(" ", 1)
    user, is_new = User.objects.get_or_create(
        username=username,
        defaults={
            "first_name": first,
            "last_name": last,
            "email": f"{username}@demo.invalid",
            "is_operator": is_operator,
        },
    )
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def _flavor(cluster: Cluster, name: str) -> ResourceFlavor:
    """The flavor of that kind of GPU, whoever came first: this, or the report of the first node."""
    product, memory_mib = FLAVORS[name]
    flavor, _ = ResourceFlavor.objects.get_or_create(
        cluster=cluster,
        gpu_model=product,
        defaults={"name": name, "gpu_memory_mib": memory_mib},
    )
    return flavor


def _tenant(wanted: DemoTenant, flavors: Mapping[str, ResourceFlavor], operator: User) -> None:
    """A tenant with its people and its quota; what an operator has changed since stays changed."""
    cohort, _ = Cohort.objects.get_or_create(name=COHORT)
    tenant, _ = Tenant.objects.get_or_create(
        slug=wanted.slug,
        defaults={
            "name": wanted.name,
            "description": wanted.about,
            "cohort": cohort,
            "highest_priority": PriorityClass.objects.get(name=HIGHEST_PRIORITY),
        },
    )
    for username, full_name, role in wanted.people:
        user = _person(username, full_name)
        if not Membership.objects.filter(tenant=tenant, user=user).exists():
            add_member(tenant, user, role=role, by=operator)
    for name, gpus in wanted.quota.items():
        if not Quota.objects.filter(tenant=tenant, flavor=flavors[name]).exists():
            # Everybody lends and borrows. The trace's own jobs do not: see `feeding.Feed`.
            amounts = QuotaAmounts(gpus)
            set_quota(amounts, tenant=tenant, flavor=flavors[name], by=operator)


def _ask(cluster: Cluster, flavor: ResourceFlavor, *, at: datetime) -> None:
    """Let one lead ask for quota, so that an operator finds something to decide; once."""
    tenant = Tenant.objects.get(slug=ASKING[0])
    if QuotaRequest.objects.filter(tenant=tenant).exists():
        return
    today = day_in(cluster, wall=at)
    wish = QuotaWish(
        purpose=QuotaRequest.Purpose.FINE_TUNING,
        cluster=cluster,
        flavor=flavor,
        gpus=ASKED_GPUS,
        starts_on=today,
        ends_on=today + timedelta(days=ASKED_DAYS - 1),
        justification=ASKED_WHY,
    )
    file_request(wish, tenant=tenant, by=User.objects.get(username=ASKING[1]), at=at)
