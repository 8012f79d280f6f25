"""A new job after the pattern of another: what the form proposes, and what it cannot carry over."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from scheduling.models import Job, ServiceClass
from scheduling.services.feeding import RUN_SECONDS
from scheduling.web.forms import SHARE
from tenants.models import PriorityClass

HOUR = 3600


@dataclass(frozen=True, slots=True)
class Pattern:
    """Values for the form's fields by name, and words for each thing that has no field."""

    job: Job
    initial: dict[str, Any]
    left_out: tuple[str, ...]


def pattern_of(job: Job) -> Pattern:
    """What a copy of `job` starts from. One query, where `job` was read with its rows."""
    first, *_others = job.groups.all()
    accepted = [choice.flavor_id for choice in job.accepted.all()]
    priority = PriorityClass.objects.offered().filter(value=job.priority).first()
    initial = {
        "name": job.name,
        "tenant": job.tenant.slug,
        "cluster": job.cluster.slug,
        "members": first.max_member,
        "gpus_per_member": first.devices_per_member,
        "device": first.slice_profile or (SHARE if first.shares_per_member else ""),
        "flavor": accepted[0] if len(accepted) == 1 else None,
        "image": job.image,
        "command": shlex.join(job.command),
        "environment": "\n".join(f"{name}={value}" for name, value in job.environment.items()),
        "max_hours": job.walltime_seconds and f"{job.walltime_seconds / HOUR:.4g}",
        "priority": priority and priority.pk,
        "run_seconds": job.annotations.get(RUN_SECONDS, ""),
    }
    return Pattern(job, initial, tuple(str(words) for words in _left_out(job)))


def _left_out(job: Job) -> Iterator[Promise]:
    """What the form has no field for, and a copy would lose without a word."""
    groups, accepted = list(job.groups.all()), list(job.accepted.all())
    if len(groups) > 1:
        yield _("member groups besides the first")
    if any(group.min_member != group.max_member for group in groups):
        yield _("that it may start with fewer members")
    if any(group.cpu_milli or group.memory_mib for group in groups):
        yield _("CPU and memory")
    if any(group.gpu_milli for group in groups):
        yield _("that members have parts of GPUs")
    if len(accepted) > 1:
        yield _("the choice of GPU models")
    if job.gpu_memory_mib or job.required_level or job.preferred_level or job.needs_island:
        yield _("wishes about GPUs and nodes")
    if job.not_before or job.grace_seconds or job.dependencies.exists():
        yield _("wishes about time and other jobs")
    if not job.is_preemptible or job.is_standby or job.service_class != ServiceClass.TRAINING:
        yield _("how it may be stopped for others")
    if set(job.annotations) - {RUN_SECONDS}:
        yield _("annotations")
