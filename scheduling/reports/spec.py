"""A job as its owner could submit it again: what POST /api/v1/jobs takes."""

from typing import Any

import yaml

from scheduling.models import Job, JobGroup, ServiceClass
from tenants.models import PriorityClass


def spec_of(job: Job) -> dict[str, Any]:
    """What was asked for, without what says nothing; names as in the API. Three queries."""
    priority = PriorityClass.objects.filter(value=job.priority).first()
    accepted = sorted(job.accepted.all(), key=lambda choice: choice.rank)
    said = {
        "tenant": job.tenant.slug,
        "cluster": job.cluster.slug,
        "name": job.name,
        **_sizes(sorted(job.groups.all(), key=lambda group: group.index)),
        "gpu": _said(
            {
                "model": accepted[0].flavor.name if accepted else None,
                "memory_mib": job.gpu_memory_mib,
            }
        ),
        "walltime_seconds": job.walltime_seconds,
        "priority": priority and priority.name,
        "image": job.image,
        "command": list(job.command),
        "environment": dict(job.environment),
        "annotations": dict(job.annotations),
        **_wishes(job),
    }
    shown = _said(said)
    return shown if job.is_preemptible else {**shown, "preemptible": False}


def _sizes(groups: list[JobGroup]) -> dict[str, Any]:
    if len(groups) == 1:
        return _size(groups[0])
    return {"groups": [{"name": group.name, **_size(group)} for group in groups]}


def _size(group: JobGroup) -> dict[str, Any]:
    is_rigid = group.min_member == group.max_member
    members = (
        {"members": group.max_member}
        if is_rigid
        else {"min_member": group.min_member, "max_member": group.max_member}
    )
    room = _said({"cpu_milli": group.cpu_milli, "memory_mib": group.memory_mib})
    return {**members, **_devices(group), **room}


def _devices(group: JobGroup) -> dict[str, Any]:
    parts = _said(
        {
            "slice_profile": group.slice_profile,
            "slices_per_member": group.slices_per_member,
            "shares_per_member": group.shares_per_member,
            "gpu_milli": group.gpu_milli,
            "gpu_mib": group.gpu_mib,
        }
    )
    return parts or {"gpus_per_member": group.gpus_per_member}


def _wishes(job: Job) -> dict[str, Any]:
    is_usual = job.service_class == ServiceClass.TRAINING
    return {
        "topology": _said(
            {
                "required": job.required_level,
                "preferred": job.preferred_level,
                "patience_seconds": job.patience_seconds,
                "island": job.needs_island,
            }
        ),
        "after": [
            {"job": one.on.public_id, "ended": "ok" if one.needs_success else "any"}
            for one in job.dependencies.select_related("on").order_by("pk")
        ],
        "service_class": "" if is_usual else job.service_class,
        "standby": job.is_standby,
        "not_before": job.not_before and job.not_before.isoformat(),
        "grace_seconds": job.grace_seconds,
        "min_total": job.min_total,
    }


def _said(values: dict[str, Any]) -> dict[str, Any]:
    """Without what is nothing, no, or empty."""
    return {name: value for name, value in values.items() if value}


def as_yaml(spec: dict[str, Any]) -> str:
    return str(yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=100))
