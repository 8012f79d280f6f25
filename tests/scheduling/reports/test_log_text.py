"""What programs write to a terminal, made fit to be shown."""

import pytest

from scheduling.reports.log_text import LONGEST_LINE, Run, is_binary, stamped_lines

STAMP = b"2026-03-02T12:00:00.5Z "


def only(text):
    (line,) = stamped_lines(STAMP + text)
    return line


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        (b"plain", (Run("plain"),)),
        (b"\x1b[31mred\x1b[0mplain", (Run("red", ("31",)), Run("plain"))),
        (b"\x1b[1;92mbold\x1b[22m green", (Run("bold", ("b", "32")), Run(" green", ("32",)))),
        (b"\x1b[38;5;208morange", (Run("orange"),)),
        (b"\x1b[31ma\x1b[39mb\x1b[mc", (Run("a", ("31",)), Run("b"), Run("c"))),
        (b"\x1b[2K\x1b[1Gmoved", (Run("moved"),)),
        (b"\x1b]0;title\x07shown", (Run("shown"),)),
        (b"\x1b]8;;http://x\x1b\\link", (Run("link"),)),
        (b" 10%|#\r 20%|##\r", (Run(" 20%|##"),)),
        (b"bell\x07", (Run("bell·"),)),
        (b"tab\tstays", (Run("tab\tstays"),)),
        ("损失 ✓".encode(), (Run("损失 ✓"),)),
        (b"\xff", (Run("\ufffd"),)),
        (b"\x1b[9999999999m!", (Run("!"),)),
    ],
)
def test_colours_are_kept_and_all_else_is_undone(text, runs):
    assert only(text).runs == runs


def test_a_line_says_when_it_was_written_and_one_without_an_instant_does_not():
    first, second = stamped_lines(STAMP + b"one\nno instant here\n")

    assert (first.at.isoformat(), first.text) == ("2026-03-02T12:00:00.500000+00:00", "one")
    assert (second.at, second.text) == (None, "no instant here")


def test_a_long_line_says_how_much_of_it_is_left_out():
    line = only(b"\x1b[31m" + b"x" * LONGEST_LINE + b"\x1b[0m" + b"y" * 7)

    assert (line.text, line.more) == ("x" * LONGEST_LINE, 7)


@pytest.mark.parametrize(
    ("data", "binary"),
    [
        (b"", False),
        (b"\x1b[31mred\x1b[0m\r\n" * 50, False),
        ("训练 损失".encode() * 50, False),
        (bytes(range(256)), True),
        (b"\x00" * 20 + b"text", True),
    ],
)
def test_what_is_no_text_is_told_from_what_is(data, binary):
    assert is_binary(data) is binary
