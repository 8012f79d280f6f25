import gzip
from collections import Counter
from pathlib import Path

import pytest

from scheduling.simulation.trace import (
    BadRow,
    Keep,
    TraceError,
    TraceFormat,
    TraceJob,
    in_steps_of,
    members_of,
    parse_trace,
    philly_seconds,
    read_trace,
)

DATA = Path(__file__).parents[1] / "data"
PHILLY_COLUMNS = "timestamp,duration,num_gpus,gpu_time,cluster"


def philly(*lines):
    return list(parse_trace([PHILLY_COLUMNS, *lines], TraceFormat.PHILLY))


def test_philly_row_is_numbered_and_takes_its_virtual_cluster_as_tenant():
    rows = philly("2017-10-09 07:01:55,66.0,4,264.0,11cb48")

    assert rows == [TraceJob("0", 0, philly_seconds("2017-10-09 07:01:55"), 66, 4, "11cb48")]


@pytest.mark.parametrize(
    ("kind", "file", "count", "first", "last"),
    [
        (
            TraceFormat.PHILLY,
            "philly_slice.csv",
            323,
            TraceJob("0", 0, 0, 310, 1, "103959"),
            TraceJob("322", 322, 85_417, 62, 1, "11cb48"),
        ),
        (
            TraceFormat.MURI,
            "muri_head.csv",
            40,
            TraceJob("0", 0, 0, 927_475, 4),
            TraceJob("39", 39, 682_326, 62, 8),
        ),
        (
            TraceFormat.TIRESIAS,
            "tiresias_60_jobs.csv",
            60,
            TraceJob("0", 0, 0, 164, 1),
            TraceJob("59", 59, 1779, 122, 1),
        ),
        (
            TraceFormat.KALOS,
            "kalos_head.csv.gz",
            40,
            TraceJob("0", 0, 0, 104, 64),
            TraceJob("39", 39, 953_980, 16, 2),
        ),
    ],
)
def test_each_format_is_read_in_its_own_units(kind, file, count, first, last):
    trace = read_trace(DATA / file, kind)

    assert (len(trace.jobs), trace.jobs[0], trace.jobs[-1], trace.bad) == (count, first, last, ())


def test_slice_of_the_demo_is_what_its_licence_file_says():
    trace = read_trace(DATA / "philly_slice.csv", TraceFormat.PHILLY)

    assert max(job.gpus for job in trace.jobs) == 32
    assert max(job.duration_seconds for job in trace.jobs) <= 6 * 3600
    assert trace.jobs[-1].submit_seconds < 24 * 3600
    assert Counter(job.tenant for job in trace.jobs) == {
        "11cb48": 176,
        "6214e9": 60,
        "103959": 44,
        "ee9e8c": 43,
    }
    assert sum(job.gpus >= 16 for job in trace.jobs) == 15


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("today,66.0,1,66.0,a", "timestamp is 'today', not a date and a time"),
        ("2017-10-09 07:01:55,long,1,66.0,a", "duration is 'long', not a number"),
        ("2017-10-09 07:01:55,nan,1,66.0,a", "duration is nan, which no job has"),
        ("2017-10-09 07:01:55,-1,1,66.0,a", "duration is -1, which no job has"),
        ("2017-10-09 07:01:55,1e99,1,66.0,a", "duration is 1e99, which no job has"),
        (
            "2017-10-09 07:01:55,66.0,0,66.0,a",
            "num_gpus is 0, and whole GPUs are needed, at least one",
        ),
        (
            "2017-10-09 07:01:55,66.0,1.5,66.0,a",
            "num_gpus is 1.5, and whole GPUs are needed, at least one",
        ),
        ("2017-10-09 07:01:55,66.0,1,66.0,", "cluster is empty"),
        ("2017-10-09 07:01:55,66.0", "5 cells are expected, and here are 2"),
        ('2017-10-09 07:01:55,"66.0"x,1,66.0,a', "5 cells are expected, and here are 1"),
    ],
)
def test_bad_row_is_named_by_its_line_and_the_next_one_is_read(line, why):
    good = "2017-10-09 07:01:55,66.0,1,66.0,a"

    rows = philly(good, "", line, good)

    assert rows[1] == BadRow(4, why)
    assert [row.row for row in (rows[0], rows[2])] == [0, 2]


def test_job_without_an_id_of_its_own_trace_is_a_bad_row():
    lines = ["job_id,num_gpu,submit_time,duration", ",1,0,5"]

    assert list(parse_trace(lines, TraceFormat.MURI)) == [BadRow(2, "job_id is empty")]


def test_file_of_another_format_is_refused_with_the_columns_it_lacks():
    with pytest.raises(TraceError) as refusal:
        read_trace(DATA / "muri_head.csv", TraceFormat.PHILLY)

    assert str(refusal.value) == (
        "line 1 names no column timestamp, num_gpus, cluster: is this a trace of format philly?"
    )


@pytest.mark.parametrize("name", ["nothing.csv", "folder", "text.csv.gz", "binary.csv"])
def test_file_that_is_no_trace_is_refused_by_name(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.csv.gz").write_text("timestamp")
    (tmp_path / "binary.csv").write_bytes(gzip.compress(b"timestamp"))

    with pytest.raises(TraceError) as refusal:
        read_trace(tmp_path / name, TraceFormat.PHILLY)

    assert str(refusal.value).startswith(f"{tmp_path / name} cannot be read: ")


def test_compressed_and_plain_file_give_the_same_jobs(tmp_path):
    plain = DATA / "philly_slice.csv"
    packed = tmp_path / "slice.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    assert read_trace(packed, TraceFormat.PHILLY) == read_trace(plain, TraceFormat.PHILLY)


def test_jobs_come_by_submit_time_and_those_of_one_instant_by_row(tmp_path):
    file = tmp_path / "unsorted.csv"
    file.write_text("job_id,num_gpu,submit_time,duration\nlate,1,9,5\nb,1,3,5\na,1,3,5\n")

    jobs = read_trace(file, TraceFormat.TIRESIAS).jobs

    assert [(job.key, job.submit_seconds) for job in jobs] == [("b", 0), ("a", 0), ("late", 6)]


def test_keep_names_tenants_sizes_and_a_window_that_becomes_the_zero(tmp_path):
    file = tmp_path / "philly.csv"
    rows = [
        "2017-12-12 01:00:00,60,1,60,a",
        "2017-12-11 23:59:59,60,1,60,a",
        "2017-12-13 00:00:00,60,1,60,a",
        "2017-12-12 01:00:00,60,1,60,b",
        "2017-12-12 01:00:00,60,64,60,a",
        "2017-12-12 01:00:00,61,1,60,a",
    ]
    file.write_text("\n".join([PHILLY_COLUMNS, *rows]))
    day = philly_seconds("2017-12-12")
    keep = Keep(tenants=frozenset("a"), max_gpus=32, max_duration=60, window=(day, day + 24 * 3600))

    jobs = read_trace(file, TraceFormat.PHILLY, keep=keep).jobs

    assert jobs == (TraceJob("0", 0, 3600, 60, 1, "a"),)


def test_compressing_time_moves_submissions_and_leaves_durations():
    job = TraceJob("0", 0, 43, 100, 1)

    assert in_steps_of(job, 4) == TraceJob("0", 0, 10, 100, 1)


@pytest.mark.parametrize(
    ("gpus", "members"),
    [
        (1, (1, 1)),
        (8, (1, 8)),
        (12, (2, 6)),
        (16, (2, 8)),
        (32, (4, 8)),
        (11, (11, 1)),
        (9, (3, 3)),
    ],
)
def test_gang_is_of_the_fewest_equal_members(gpus, members):
    assert members_of(gpus) == members
