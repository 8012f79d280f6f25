"""Streams of jobs as rows, and the named policies over them."""

from scheduling.simulation.outcome import StreamJob, start_of
from scheduling.simulation.pool import run_pool
from scheduling.simulation.replay import Site, run_engine
from scheduling.simulation.streams import NAMED_POLICIES


def jobs_of(rows, tenants=""):
    """Jobs of (submit, runtime, GPUs) or (submit, runtime, estimate, GPUs)."""
    tenants = tenants or "a" * len(rows)
    return [
        StreamJob(submit=row[0], runtime=row[1], gpus=row[-1], estimate=row[-2], tenant=tenant)
        for row, tenant in zip(rows, tenants, strict=True)
    ]


def pool_starts(jobs, gpus, policy):
    return [start_of(own) for own in run_pool(jobs, gpus, policy)]


def engine_starts(jobs, gpus, policy):
    """When the engine starts them on one node, every plan asked whether it is sound."""
    return [start_of(own) for own in run_engine(jobs, Site(1, gpus), policy, check=True)]


def named(name):
    return NAMED_POLICIES[name]
