"""What a stream asks for, and what becomes of each of its jobs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

SHORT_JOB = 10
"""Seconds: slowdown is bounded as if no job ran for less."""

Watch: TypeAlias = Callable[[int], None]
"""Is told how many jobs have ended, as a run goes on."""


@dataclass(frozen=True, slots=True)
class StreamJob:
    """A job of a stream. estimate: what the scheduler believes, never less than the run time."""

    submit: int
    runtime: int
    gpus: int
    estimate: int
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A job that ran. runs: (from, to) of each; every one but the last was stopped for others."""

    job: StreamJob
    runs: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        return self.runs[0][0]

    @property
    def end(self) -> int:
        return self.runs[-1][1]

    @property
    def completion(self) -> int:
        return self.end - self.job.submit

    @property
    def wait(self) -> int:
        """All of the completion time that is no run time: in the queue, or on work that was lost.

        For a job that was never stopped it is the time until its start.
        """
        return self.completion - self.job.runtime

    @property
    def slowdown(self) -> float:
        """Completion time by run time, at least 1; short jobs count as `SHORT_JOB` seconds."""
        return max(1.0, self.completion / max(self.job.runtime, SHORT_JOB))

    @property
    def preemptions(self) -> int:
        return len(self.runs) - 1

    @property
    def lost(self) -> int:
        """GPU-seconds of work that had to be done again."""
        held = sum(end - start for start, end in self.runs)
        return self.job.gpus * (held - self.job.runtime)


def start_of(outcome: Outcome | None) -> int | None:
    """When the job started; None for one that was refused."""
    return None if outcome is None else outcome.start
