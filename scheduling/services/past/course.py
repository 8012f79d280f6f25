"""What became of each job of the demo's past, as a file keeps it.

All times are whole seconds from the beginning of the past. A line is a job:

    key,tenant,submit,duration,gpus,runs,told

runs: `START-END=PLACE` of each, or `START-END>KEY=PLACE` of one that was stopped for the job KEY,
with a `|` between two. PLACE: the members by rank, `NODE:GPU+GPU`, with a `;` between two.
told: `MADE/EARLIEST/LATEST`, when the job was first told when it would start, and what; or nothing.
"""

import csv
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scheduling.simulation.trace import TraceJob

SWEEP = "sweep-"  # how the keys of jobs begin that are of no trace
NAME = "past"  # of the feed that its jobs would have come by
TRACED = "replayed by Muster's simulator from the Philly trace"
MADE_UP = "made up for the demo, and replayed by Muster's simulator"
"""Where a job of the past comes from, as its first event says."""

FILE = Path(__file__).resolve().parents[3] / "tests" / "data" / "demo_past.csv.gz"
COLUMNS = ("key", "tenant", "submit", "duration", "gpus", "runs", "told")


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one member is: the name of its node, and the indexes of its GPUs there."""

    node: str
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job. stopped_for: the key of the job that it made room for; empty at its end."""

    start: int
    end: int
    seats: tuple[Seat, ...]
    stopped_for: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """The first estimate of a start: made when, and the range that it named."""

    made: int
    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that has ended. told: of its first wait; None where it was not looked at."""

    job: TraceJob
    runs: tuple[Run, ...]
    told: Told | None = None

    @property
    def end(self) -> int:
        return self.runs[-1].end

    @property
    def source(self) -> str:
        return MADE_UP if self.job.key.startswith(SWEEP) else TRACED


def write_past(path: Path, jobs: Iterable[PastJob]) -> None:
    """Write them, the same bytes for the same jobs."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
        packed.write((",".join(COLUMNS) + "\n").encode())
        packed.writelines((",".join(_cells(own)) + "\n").encode() for own in jobs)


def read_past(path: Path) -> list[PastJob]:
    """The jobs of the file, in order of submission."""
    with gzip.open(path, "rt", newline="") as lines:
        return [_past_job(row, cells) for row, cells in enumerate(csv.DictReader(lines))]


def _cells(own: PastJob) -> Iterator[str]:
    job = own.job
    yield from (job.key, job.tenant)
    yield from (str(n) for n in (job.submit_seconds, job.duration_seconds, job.gpus))
    yield "|".join(map(_run_text, own.runs))
    told = own.told
    yield "" if told is None else f"{told.made}/{told.earliest}/{told.latest}"


def _run_text(run: Run) -> str:
    place = ";".join(f"{seat.node}:{'+'.join(map(str, seat.gpus))}" for seat in run.seats)
    end = f"{run.end}>{run.stopped_for}" if run.stopped_for else str(run.end)
    return f"{run.start}-{end}={place}"


def _past_job(row: int, cells: dict[str, str]) -> PastJob:
    told = cells["told"]
    return PastJob(
        job=TraceJob(
            key=cells["key"],
            row=row,
            submit_seconds=int(cells["submit"]),
            duration_seconds=int(cells["duration"]),
            gpus=int(cells["gpus"]),
            tenant=cells["tenant"],
        ),
        runs=tuple(map(_run, cells["runs"].split("|"))),
        told=Told(*map(int, told.split("/"))) if told else None,
    )


def _run(text: str) -> Run:
    times, _, place = text.partition("=")
    start, _, rest = times.partition("-")
    end, _, stopped_for = rest.partition(">")
    seats = (seat.partition(":") for seat in place.split(";"))
    return Run(
        start=int(start),
        end=int(end),
        seats=tuple(Seat(node, tuple(map(int, gpus.split("+")))) for node, _, gpus in seats),
        stopped_for=stopped_for,
    )
