"""`manage.py simulate --trace`: what it reads, what it says, and what it refuses."""

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

DATA = Path(__file__).parents[1] / "data"
PHILLY = ("--trace", str(DATA / "philly_slice.csv"), "--format", "philly")
MURI = ("--trace", str(DATA / "muri_head.csv"), "--format", "muri", "--gpus", "64")


def simulate(*words):
    out = StringIO()
    call_command("simulate", *words, stdout=out)
    return out.getvalue()


def figures(*words):
    return json.loads(simulate(*words, "--json"))


def refusal(*words):
    """What is said on standard error when nothing is said on standard output."""
    out, err = StringIO(), StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("simulate", *words, stdout=out, stderr=err)
    assert (ended.value.code, out.getvalue()) == (2, "")
    return err.getvalue().strip()


def test_figures_are_told_for_people():
    lines = simulate(*PHILLY, "--gpus", "64", "--policy", "fifo").splitlines()

    assert lines[0] == "jobs 323, refused 0, bad rows 0"
    assert [line.split(":")[0] for line in lines[1:13]] == [
        "wait",
        "completion",
        "bounded slowdown",
        "wait of jobs of 8 GPUs and more",
        "utilisation",
        "free while jobs waited",
        "preemptions",
        "work lost",
        "GPUs 1",
        "GPUs 2-7",
        "GPUs 8-31",
        "GPUs 32+",
    ]
    assert lines[13].startswith("Jain's index over tenants 0.")
    assert [line.split(":")[0] for line in lines[14:18]] == [
        f"tenant {name}" for name in ("103959", "11cb48", "6214e9", "ee9e8c")
    ]


def test_figures_as_json_come_with_every_class():
    own = figures(*PHILLY, "--gpus", "32")

    spread = {"mean", "p50", "p90", "p99"}
    fares = {"wait", "completion", "slowdown", "preemptions", "lost_gpu_hours"}
    assert (own["jobs"], own["refused"], own["bad_rows"]) == (323, 0, 0)
    for group in (own, *own["by_size"].values(), *own["by_tenant"].values()):
        assert {name: set(group[name]) for name in fares} == dict.fromkeys(fares, spread)
    assert set(own["by_size"]) == {"1", "2-7", "8-31", "32+"}
    assert set(own["sharing"]) == set(own["by_tenant"])
    assert set(own["worse_off"]) <= set(own["by_tenant"])


def test_estimates_compression_and_knobs_change_what_happens():
    changes = (
        (),
        ("--compress", "9"),
        ("--estimates", "5"),
        ("--estimates", "round"),
        ("--set", "reservations=0"),
        ("--policy", "expansion"),
    )

    waits = [figures(*PHILLY, "--gpus", "32", *words)["wait"]["mean"] for words in changes]

    assert len(set(waits)) == len(changes)


def test_kalos_is_compressed_unless_told_otherwise():
    kalos = ("--trace", str(DATA / "kalos_head.csv.gz"), "--format", "kalos", "--gpus", "1024")

    assert figures(*kalos) == figures(*kalos, "--compress", "4")
    assert figures(*kalos) != figures(*kalos, "--compress", "1")


def test_nodes_and_the_engine_give_a_pool_its_figures_where_gangs_do_not_matter():
    pool = figures(*MURI, "--policy", "firstfit")

    assert figures(*MURI, "--policy", "firstfit", "--engine") == pool
    on_nodes = figures(*MURI[:4], "--nodes", "8x8", "--policy", "firstfit")
    assert on_nodes["wait"]["mean"] >= pool["wait"]["mean"]


def test_with_quotas_borrowers_are_stopped_and_their_work_is_lost():
    own = figures(*PHILLY, "--gpus", "32", "--quotas", "--set", "order=expansion")

    assert own["total_preemptions"] > 0
    assert own["total_lost_gpu_hours"] == pytest.approx(own["lost_gpu_hours"]["mean"] * own["jobs"])


def test_starts_are_written_in_job_order_with_blanks_for_a_refused_job(tmp_path):
    file = tmp_path / "starts.csv"

    simulate(*PHILLY, "--gpus", "31", "--starts", str(file))

    rows = list(csv.reader(file.read_text().splitlines()))
    assert rows[0] == ["job", "submit", "start", "end"]
    assert [row[0] for row in rows[1:]] == [str(number) for number in range(323)]
    refused = [row for row in rows[1:] if row[2:] == ["", ""]]
    assert len(refused) == 6
    first = rows[1]
    assert (first, int(first[3]) - int(first[2])) == (["0", "0", "0", "310"], 310)


def test_a_window_takes_the_jobs_of_its_days_and_begins_at_0():
    whole = figures(*PHILLY, "--gpus", "64")
    half = figures(*PHILLY, "--gpus", "64", "--from", "2017-12-12", "--to", "2017-12-12 12:00:00")

    assert 0 < half["jobs"] < whole["jobs"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (PHILLY, "a trace needs --format, and --gpus or --nodes"),
        ((*PHILLY[:2], "--gpus", "8"), "a trace needs --format, and --gpus or --nodes"),
        ((*PHILLY, "--gpus", "8", "--from", "2017-12-12"), "--from and --to come together"),
        (
            (*PHILLY, "--gpus", "8", "--from", "then", "--to", "2017-12-12"),
            "'then' is no date: write 2017-10-01",
        ),
        (
            (*PHILLY, "--gpus", "8", "--from", "2017-12-13", "--to", "2017-12-12"),
            "--to 2017-12-12 is not after --from 2017-12-13",
        ),
        (
            (*MURI, "--from", "2017-12-12", "--to", "2017-12-13"),
            "--from and --to need a trace with dates, which only philly has",
        ),
        (
            (*PHILLY, "--gpus", "8", "--from", "2018-12-12", "--to", "2018-12-13"),
            f"{PHILLY[1]} has no job in that window, 0 bad rows",
        ),
        ((*MURI, "--set", "speed=9"), "unknown policy 'speed=9'"),
        ((*MURI, "--set", "order=best"), "'best' is not a valid Order"),
        ((*MURI, "--until", "2h"), "--until goes with --scenario"),
        (("--scenario", "x.txt", "--gpus", "8"), "--gpus goes with --trace"),
        (("--scenario", "x.txt", "--from", "2017-12-12"), "--from goes with --trace"),
        ((*MURI, "--starts", "/"), "cannot write /: Is a directory"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(words, why):
    assert refusal(*words) == why


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--gpus", "0"), "'0': write a whole number, at least 1"),
        (("--gpus", "many"), "'many': write a whole number, at least 1"),
        (("--nodes", "64"), "'64': write 64x8"),
        (("--nodes", "0x8"), "'0x8': write 64x8"),
        (("--gpus", "8", "--compress", "-1"), "'-1': write a whole number, at least 1"),
        (("--gpus", "8", "--estimates", "0.5"), "'0.5': write a whole number, at least 1"),
        (("--gpus", "8", "--nodes", "1x8"), "not allowed with argument"),
        (("--gpus", "8", "--policy", "lottery"), "invalid choice"),
    ],
)
def test_a_bad_option_is_named(words, why):
    with pytest.raises(CommandError, match=why):
        call_command("simulate", *PHILLY, *words)


def test_a_wide_job_that_fits_nowhere_leaves_nothing_to_say(tmp_path):
    file = tmp_path / "wide.csv"
    file.write_text("job_id,num_gpu,submit_time,duration\n0,16,0,5\n")

    words = ("--trace", str(file), "--format", "tiresias", "--gpus", "8")

    assert refusal(*words) == "no job ran: none was in the window, or none fits"
