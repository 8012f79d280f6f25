"""Text that programs wrote to a terminal, made fit to be shown: colours kept, all else undone."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

LONGEST_LINE = 4000  # characters shown of one
_SEQUENCE = re.compile(
    r"\x1b\[([0-9;:]*)m"  # colours and weights: the only ones with a group
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # moves of the cursor and the like
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SHOWN_BYTES = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_BINARY_SHARE = 0.1
_BRIGHT = 60  # from a colour to its bright one
_EXTENDED = {"38", "48"}


@dataclass(frozen=True, slots=True)
class Run:
    """Some text of one look; `look` are the names of its marks: b for bold, 31 for red."""

    text: str
    look: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A line and when it was written; `more` characters of it are left out."""

    at: datetime | None
    runs: tuple[Run, ...]
    more: int = 0

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)


def is_binary(data: bytes) -> bool:
    """Whether this is no text: a tenth of it is control characters, or no UTF-8."""
    broken = data.decode("utf-8", "replace").count("\ufffd")
    strange = len(_SHOWN_BYTES.findall(data)) + broken
    return strange > _BINARY_SHARE * max(1, len(data))


def stamped_lines(data: bytes) -> Iterator[Line]:
    """The lines of a log in which each begins with its instant and a blank."""
    for line in data.decode("utf-8", "replace").split("\n"):
        stamp, _, rest = line.partition(" ")
        at = _instant(stamp)
        if line:
            yield _line(at, rest if at else line)


def _instant(stamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat(stamp)
    except ValueError:
        return None


def _line(at: datetime | None, text: str) -> Line:
    last = text.rstrip("\r").rsplit("\r", 1)[-1]  # a progress bar writes over itself
    runs, room = [], LONGEST_LINE
    for run in _runs(last):
        runs.append(Run(run.text[:room], run.look))
        room -= len(run.text)
    return Line(at, tuple(run for run in runs if run.text), max(0, -room))


def _runs(text: str) -> Iterator[Run]:
    look: tuple[str, ...] = ()
    start = 0
    for found in _SEQUENCE.finditer(text):
        yield Run(_plain(text[start : found.start()]), look)
        if found[1] is not None:
            look = _look(look, re.split("[;:]", found[1]))
        start = found.end()
    yield Run(_plain(text[start:]), look)


def _plain(text: str) -> str:
    return _CONTROL.sub("·", text)


def _look(look: tuple[str, ...], codes: list[str]) -> tuple[str, ...]:
    """The look after these codes: weights and the 16 foreground colours; others change nothing."""
    bold, colour = "b" in look, next((mark for mark in look if mark != "b"), "")
    if _EXTENDED & set(codes):
        return look
    for code in codes:
        number = int(code[:4] or 0)
        if number == 0:
            bold, colour = False, ""
        elif number in {1, 22}:
            bold = number == 1
        elif number == 39:  # noqa: PLR2004 - the terminal's own colour
            colour = ""
        elif number in {*range(30, 38), *range(90, 98)}:
            colour = str(number - _BRIGHT if number >= 90 else number)  # noqa: PLR2004 - bright ones
    return tuple(mark for mark in ("b" if bold else "", colour) if mark)
