"""What an Xid means, and how much of a GPU it takes out of capacity."""

from collections import Counter

import pytest

from topology.catalog.xid import (
    Action,
    Reach,
    Severity,
    XidClass,
    XidLine,
    find_xid,
    read_xid_line,
    xids,
)


def test_every_xid_up_to_the_last_known_is_there():
    assert sorted(xids()) == list(range(1, 174))


def test_every_current_xid_says_what_it_is_and_what_to_do():
    for xid in xids().values():
        assert xid.meaning
        if xid.xid_class != XidClass.LEGACY:
            assert xid.note


def test_critical_ones_never_ask_for_nothing():
    harmless = {Action.IGNORE, Action.WATCH, Action.FOLLOW_OTHER_XID, Action.RESTART_APP}
    critical = [own for own in xids().values() if own.severity == Severity.CRITICAL]

    assert [own.number for own in critical if own.action in harmless] == []
    assert len(critical) == 32


@pytest.mark.parametrize(
    ("number", "xid_class", "action", "reach"),
    [
        (13, XidClass.APPLICATION, Action.RESTART_APP, Reach.NOTHING),
        (31, XidClass.APPLICATION, Action.RESTART_APP, Reach.NOTHING),
        (43, XidClass.APPLICATION, Action.IGNORE, Reach.NOTHING),
        (48, XidClass.HARDWARE, Action.RESET_GPU, Reach.GPU),
        (74, XidClass.INTERCONNECT, Action.RESET_GPU, Reach.GPU),
        (79, XidClass.HARDWARE, Action.DRAIN_REBOOT, Reach.GPU),
        (94, XidClass.HARDWARE, Action.RESTART_APP, Reach.INSTANCE),
        (95, XidClass.HARDWARE, Action.RESET_GPU, Reach.GPU),
        (4_242, XidClass.UNKNOWN, Action.REPORT, Reach.NOTHING),
    ],
)
def test_what_a_number_means(number, xid_class, action, reach):
    xid = find_xid(number)

    assert (xid.number, xid.xid_class, xid.action, xid.reach) == (number, xid_class, action, reach)


def test_what_the_device_plugin_ignores():
    ignored = [own.number for own in xids().values() if own.plugin_ignores]

    assert ignored == [13, 31, 43, 45, 68, 109]


def test_an_unknown_number_is_reported_and_counts_for_a_warning():
    unknown = find_xid(4_242)

    assert (unknown.severity, unknown.plugin_ignores) == (Severity.WARNING, False)


def test_a_program_at_fault_never_takes_a_gpu():
    reach = Counter(own.reach for own in xids().values() if own.xid_class == XidClass.APPLICATION)

    assert set(reach) == {Reach.NOTHING}


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (
            "[ 12.5] NVRM: Xid (PCI:0000:3B:00): 79, pid='<unknown>', GPU has fallen off the bus.",
            XidLine("0000:3b:00", 79, None),
        ),
        (
            "NVRM: Xid (PCI:0000:81:00 GPU-I:02): 94, pid=7194, Contained: CE User Channel",
            XidLine("0000:81:00", 94, 2),
        ),
        ("NVRM: Xid (0000:03:00): 31, Ch 00000010", XidLine("0000:03:00", 31, None)),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15", None),
        ("NVRM: Xid (PCI:0000:81:00): ", None),
        ("", None),
    ],
)
def test_a_line_of_the_kernels_log_is_read(line, read):
    assert read_xid_line(line) == read
