"""Files for spreadsheets: a text is never a formula, a number stays a number."""

import csv
import io
from datetime import UTC, datetime

import pytest

from portal.core.exports import csv_response

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def cells(*row):
    body = csv_response("x.csv", ["head"], [row]).content.decode("utf-8-sig")
    return list(csv.reader(io.StringIO(body, newline="")))[1]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ('=HYPERLINK("http://x","y")', '\'=HYPERLINK("http://x","y")'),
        ("+1+1", "'+1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2+3", "'-2+3"),
        ("\N{FULLWIDTH EQUALS SIGN}1+1", "'\N{FULLWIDTH EQUALS SIGN}1+1"),
        ("\tname", "'\tname"),
        ("\rname", "'\rname"),
        ("<script>", "<script>"),
        ("plain, with a comma", "plain, with a comma"),
        ("模型", "模型"),
        (-3.5, "-3.5"),
        (0, "0"),
        (None, ""),
        (NOON, "2026-03-02T12:00:00+00:00"),
    ],
)
def test_a_cell_is_what_it_says(value, cell):
    assert cells(value) == [cell]
