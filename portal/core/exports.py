"""Lists as files for spreadsheets."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.http import HttpResponse

# The last four as East Asian keyboards write them, which some spreadsheets compute, too.
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_MARK = "\ufeff"  # by which spreadsheets know the encoding

Cell = str | int | float | datetime | None


class _Echo:
    """A file of which each write is handed on."""

    def write(self, text: str) -> str:
        return text


def csv_response(name: str, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> HttpResponse:
    """Rows as a file `name`. Texts that a spreadsheet would compute begin with an apostrophe;
    numbers stay numbers, and instants are ISO 8601.
    """
    writer = csv.writer(_Echo(), lineterminator="\r\n")

    def lines() -> Iterator[str]:
        yield _MARK + writer.writerow(head)
        for row in rows:
            yield writer.writerow([_cell(value) for value in row])

    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return HttpResponse("".join(lines()), content_type="text/csv; charset=utf-8", headers=headers)


def _cell(value: Cell) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return "" if value is None else value
