"""Public job traces, read line by line into one kind of row.

Each format keeps the clock of its source: seconds that mean something only by their differences.
`read_trace` moves them so that the window, or else the first job that is kept, begins at 0.
"""

import csv
import gzip
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TextIO

LARGEST_NUMBER = 10**13
"""What no honest row exceeds in any unit: three hundred years in milliseconds."""


class TraceFormat(StrEnum):
    """Whose columns a file has."""

    PHILLY = "philly"
    MURI = "muri"
    TIRESIAS = "tiresias"
    KALOS = "kalos"


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace. key: the trace's own id of it, or its row number from 0.

    row counts the data rows of the file from 0, good and bad. tenant is empty where the trace has
    none. duration_seconds is at least 1.
    """

    key: str
    row: int
    submit_seconds: int
    duration_seconds: int
    gpus: int
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line of the file, counted from 1, that is no job, and why."""

    line: int
    why: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.why}"


class TraceError(ValueError):
    """The file as a whole cannot be read as a trace; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Which jobs of a trace are wanted; None: no such limit.

    window: [from, until) in seconds of the trace's own clock; see `philly_seconds`.
    """

    tenants: frozenset[str] | None = None
    max_gpus: int | None = None
    max_duration: int | None = None
    window: tuple[int, int] | None = None

    def wants(self, job: TraceJob) -> bool:
        return (
            (self.tenants is None or job.tenant in self.tenants)
            and (self.max_gpus is None or job.gpus <= self.max_gpus)
            and (self.max_duration is None or job.duration_seconds <= self.max_duration)
            and (self.window is None or self.window[0] <= job.submit_seconds < self.window[1])
        )


KEEP_ALL = Keep()


@dataclass(frozen=True, slots=True)
class Trace:
    """jobs: by submit time, ties in the order of rows; the first at 0 or later."""

    jobs: tuple[TraceJob, ...]
    bad: tuple[BadRow, ...]


def read_trace(path: Path, kind: TraceFormat, *, keep: Keep = KEEP_ALL) -> Trace:
    """The wanted jobs of a .csv or .csv.gz file, in order of submission, on a clock from 0.

    Raises TraceError for a file that is not there, not text, or without the columns of its format.
    """
    jobs: list[TraceJob] = []
    bad: list[BadRow] = []
    for row in stream_trace(path, kind):
        if isinstance(row, BadRow):
            bad.append(row)
        elif keep.wants(row):
            jobs.append(row)
    jobs.sort(key=lambda job: (job.submit_seconds, job.row))
    zero = keep.window[0] if keep.window else min((job.submit_seconds for job in jobs), default=0)
    shifted = tuple(replace(job, submit_seconds=job.submit_seconds - zero) for job in jobs)
    return Trace(shifted, tuple(bad))


def stream_trace(path: Path, kind: TraceFormat) -> Iterator[TraceJob | BadRow]:
    """Every row of the file as it comes, on the trace's own clock. Raises as `read_trace`."""
    try:
        with _opened(path) as lines:
            yield from parse_trace(lines, kind)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise TraceError(
            f"{path} cannot be read: {error}. Is it a .csv or .csv.gz file?"
        ) from error


def parse_trace(lines: Iterable[str], kind: TraceFormat) -> Iterator[TraceJob | BadRow]:
    """Every row of `lines`, whose first names the columns; empty lines are no rows."""
    rows = _rows(lines)
    _, columns = next(rows, (1, []))
    layout = _LAYOUTS[kind]
    if missing := [name for name in layout.columns if name not in columns]:
        raise TraceError(
            f"line 1 names no column {', '.join(missing)}: is this a trace of format {kind}?"
        )
    for row, (line, cells) in enumerate(rows):
        try:
            yield layout.parse(row, _by_column(columns, cells))
        except _Bad as error:
            yield BadRow(line, str(error))


def in_steps_of(job: TraceJob, compress: int) -> TraceJob:
    """The job with the time until its submission divided by `compress`, whole seconds."""
    return replace(job, submit_seconds=job.submit_seconds // compress)


def members_of(gpus: int, *, per_member: int = 8) -> tuple[int, int]:
    """(members, GPUs of each): the fewest equal members of at most `per_member` GPUs.

    12 GPUs are two members of 6, so that no GPU is added or lost.
    """
    fewest = -(-gpus // per_member)
    members = next(count for count in range(fewest, gpus + 1) if gpus % count == 0)
    return members, gpus // members


def philly_seconds(timestamp: str) -> int:
    """Where a Philly timestamp, which has no zone, lies on that trace's own clock."""
    return int(datetime.fromisoformat(timestamp).replace(tzinfo=UTC).timestamp())


class _Bad(ValueError):
    """Why a row is no job."""


@dataclass(frozen=True, slots=True)
class _Layout:
    columns: tuple[str, ...]
    parse: Callable[[int, Mapping[str, str]], TraceJob]


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of each row that is not empty; [""] for one that is no CSV at all."""
    reader = csv.reader(lines, strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            cells = [""]
        if cells:
            yield reader.line_num, cells


def _by_column(columns: list[str], cells: list[str]) -> Mapping[str, str]:
    if len(cells) != len(columns):
        raise _Bad(f"{len(columns)} cells are expected, and here are {len(cells)}")
    return dict(zip(columns, cells, strict=True))


def _number(cells: Mapping[str, str], name: str) -> float:
    text = cells[name].strip()
    try:
        number = float(text)
    except ValueError:
        raise _Bad(f"{name} is {text!r}, not a number") from None
    if not math.isfinite(number) or not 0 <= number <= LARGEST_NUMBER:
        raise _Bad(f"{name} is {text}, which no job has")
    return number


def _gpus(cells: Mapping[str, str], name: str) -> int:
    number = _number(cells, name)
    if number < 1 or number != int(number):
        raise _Bad(f"{name} is {cells[name]}, and whole GPUs are needed, at least one")
    return int(number)


def _philly(row: int, cells: Mapping[str, str]) -> TraceJob:
    try:
        submit = philly_seconds(cells["timestamp"])
    except ValueError:
        raise _Bad(f"timestamp is {cells['timestamp']!r}, not a date and a time") from None
    if not cells["cluster"]:
        raise _Bad("cluster is empty")
    return TraceJob(
        str(row),
        row,
        submit,
        max(1, int(_number(cells, "duration"))),
        _gpus(cells, "num_gpus"),
        cells["cluster"],
    )


def _muri(row: int, cells: Mapping[str, str]) -> TraceJob:
    return _by_job_id(row, cells, per_second=1000)


def _tiresias(row: int, cells: Mapping[str, str]) -> TraceJob:
    return _by_job_id(row, cells, per_second=1)


def _by_job_id(row: int, cells: Mapping[str, str], *, per_second: int) -> TraceJob:
    return TraceJob(
        _key(cells),
        row,
        int(_number(cells, "submit_time")) // per_second,
        max(1, int(_number(cells, "duration")) // per_second),
        _gpus(cells, "num_gpu"),
    )


def _kalos(row: int, cells: Mapping[str, str]) -> TraceJob:
    return TraceJob(
        _key(cells),
        row,
        int(_number(cells, "arrival_time")),
        max(1, int(_number(cells, "num_iteration")) // 2),  # made from seconds by doubling them
        _gpus(cells, "gpu_workers") * _gpus(cells, "gpu_per_worker"),
    )


def _key(cells: Mapping[str, str]) -> str:
    key = cells["job_id"].strip()
    if not key:
        raise _Bad("job_id is empty")
    return key


_LAYOUTS: dict[TraceFormat, _Layout] = {
    TraceFormat.PHILLY: _Layout(("timestamp", "duration", "num_gpus", "cluster"), _philly),
    TraceFormat.MURI: _Layout(("job_id", "num_gpu", "submit_time", "duration"), _muri),
    TraceFormat.TIRESIAS: _Layout(("job_id", "num_gpu", "submit_time", "duration"), _tiresias),
    TraceFormat.KALOS: _Layout(
        ("job_id", "arrival_time", "num_iteration", "gpu_workers", "gpu_per_worker"), _kalos
    ),
}
