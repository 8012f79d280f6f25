"""What submission refuses: jobs that could never mean anything, with the word at fault."""

from collections.abc import Iterable, Mapping

from scheduling.engine.jobs import Level
from scheduling.engine.scenario.world import Job, World


def refuse_new(world: World, new: Iterable[Job]) -> list[tuple[str, str]]:
    """Take jobs that submission refuses out of the world. Returns (name, why) of each, in order.

    A job that waits for a refused one waits for an unknown one, and is refused as well.
    """
    left = list(new)
    order = {job.name: place for place, job in enumerate(left)}
    refused: list[tuple[str, str]] = []
    cycles = {job.name: _cycle(world, job) for job in left}
    while True:
        found = [(job, why) for job in left if (why := cycles[job.name] or _why(world, job))]
        if not found:
            return sorted(refused, key=lambda own: order[own[0]])
        for job, why in found:
            left.remove(job)
            del world.jobs[job.name]
            refused.append((job.name, why))


def check_levels(job: Job) -> None:
    """Raises ValueError for a wish that names no level."""
    why = _unknown_level(job)
    if why:
        raise ValueError(f"{why}: write one of {', '.join(Level.__members__).lower()}")


def check_change(world: World, job: Job) -> None:
    """Raises ValueError where `job`, that is known, now waits for what submission refuses."""
    why = _cycle(world, job) or _unknown_parent(world, job)
    if why:
        raise ValueError(f"job {job.name!r} cannot wait for it: {why}")


def _why(world: World, job: Job) -> str | None:
    most = world.tenants[job.tenant].max_priority
    if most is not None and job.priority > most:
        return f"priority: {most} is the highest that {job.tenant} may use"
    if job.walltime == 0:
        return "walltime: 0 is no run time"
    return _unknown_level(job) or _unknown_parent(world, job)


def _unknown_level(job: Job) -> str | None:
    for level in (job.required, job.preferred):
        if level and level.upper() not in Level.__members__:
            return f"unknown level {level}"
    return None


def _unknown_parent(world: World, job: Job) -> str | None:
    for parent, _ in job.after:
        other = world.jobs.get(parent)
        if other is None or other.tenant != job.tenant:
            return f"unknown job {parent}"
    return None


def _cycle(world: World, job: Job) -> str | None:
    """The way round of a job that waits for itself, each before the one that waits for it."""
    way = _way_back(world.jobs, job.name)
    return "cycle " + "→".join(reversed(way)) if way else None


def _way_back(jobs: Mapping[str, Job], name: str) -> list[str] | None:
    """The shortest way from a job along what it waits for back to itself, or None."""
    ways, seen = [[name]], {name}
    while ways:
        way = ways.pop(0)
        job = jobs.get(way[-1])
        for parent, _ in job.after if job is not None and job.state == "waiting" else ():
            if parent == name:
                return [*way, parent]
            if parent not in seen:
                seen.add(parent)
                ways.append([*way, parent])
    return None
