"""What submission refuses: jobs that could never mean anything, with the word at fault."""

from collections.abc import Iterable

from scheduling.engine.jobs import Level
from scheduling.engine.scenario.world import Job, World


def refuse_new(world: World, new: Iterable[Job]) -> list[tuple[str, str]]:
    """Take jobs that submission refuses out of the world. Returns (name, why) of each, in order.

    A job that waits for a refused one waits for an unknown one, and is refused as well.
    """
    left = list(new)
    order = {job.name: place for place, job in enumerate(left)}
    refused: list[tuple[str, str]] = []
    cycles = _cycles(left)
    while True:
        found = [(job, why) for job in left if (why := cycles.get(job.name) or _why(world, job))]
        if not found:
            return sorted(refused, key=lambda own: order[own[0]])
        for job, why in found:
            left.remove(job)
            del world.jobs[job.name]
            refused.append((job.name, why))


def _why(world: World, job: Job) -> str | None:
    most = world.tenants[job.tenant].max_priority
    if most is not None and job.priority > most:
        return f"priority: {most} is the highest that {job.tenant} may use"
    if job.walltime == 0:
        return "walltime: 0 is no run time"
    for level in (job.required, job.preferred):
        if level and level.upper() not in Level.__members__:
            return f"unknown level {level}"
    for parent, _ in job.after:
        other = world.jobs.get(parent)
        if other is None or other.tenant != job.tenant:
            return f"unknown job {parent}"
    return None


def _cycles(jobs: Iterable[Job]) -> dict[str, str]:
    """For each job that waits for itself: the way round, each before the one that waits for it."""
    by_name = {job.name: job for job in jobs}
    found: dict[str, str] = {}
    for name in by_name:
        way = _way_back(by_name, name)
        if way:
            found[name] = "cycle " + "→".join(reversed(way))
    return found


def _way_back(jobs: dict[str, Job], name: str) -> list[str] | None:
    """The shortest way from a job along what it waits for back to itself, or None."""
    ways, seen = [[name]], {name}
    while ways:
        way = ways.pop(0)
        for parent, _ in jobs[way[-1]].after if way[-1] in jobs else ():
            if parent == name:
                return [*way, parent]
            if parent not in seen:
                seen.add(parent)
                ways.append([*way, parent])
    return None
