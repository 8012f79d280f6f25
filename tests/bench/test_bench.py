"""Counts of queries against their ranges. Times are for `bin/bench`, on a quiet machine."""

from functools import partial

import pytest

from scheduling.engine.cycle import plan_cycle
from scheduling.engine.invariants import violations
from tests.bench import cycles, inflation, pages
from tests.bench.around import surround
from tests.bench.figures import RANGES, Figure, NotRun, percentile
from tests.bench.fill import Size, fill
from tests.bench.measuring import exponent, peak_mib
from tests.bench.scale import NO_STOPS, draw_case, snapshot_of

FEW = Size(nodes=4, jobs=120, running=20, queued=40)


def test_no_page_needs_more_queries_than_it_may(db):
    filled = fill(FEW)
    figures = list(pages.query_figures(filled, surround(filled, scale=0.02)))

    assert {figure.of["role"] for figure in figures} == set(pages.ROLES)
    measured = {figure.of["page"] for figure in figures}
    assert {"/", "/jobs/", "/queue/", "/cluster/", "/admin/audit/", "/api/v1/jobs"} <= measured
    assert [figure.as_text() for figure in figures if not figure.is_within] == []


def test_an_operators_home_with_a_large_map_needs_no_more_queries_than_it_may(db, monkeypatch):
    monkeypatch.setattr("scheduling.web.map.MOST_GPUS", 8)
    filled = fill(FEW)
    surround(filled, scale=0.02)
    client = pages.signed_in(filled.people["operator"])
    assert client.get("/").context["map"].is_far

    assert pages.count_queries(client, "/") <= RANGES["pages"]["queries"]["most"]


def test_a_snapshot_needs_no_more_queries_than_it_may(db):
    figure = cycles.snapshot_queries(fill(FEW))

    assert figure.value > 0
    assert figure.is_within


def test_every_range_says_where_it_comes_from():
    ranges = [limit for figures in RANGES.values() for limit in figures.values()]

    assert ranges
    assert all(limit["most"] > 0 and len(limit["from"]) > 40 for limit in ranges)


def test_a_figure_says_all_that_it_takes_to_measure_it_again(db):
    said = Figure(bench="pages", name="queries", value=26, protocol="once").as_json()

    assert (said["value"], said["most"], said["is_within"]) == (26, 25, False)
    assert (said["name"], said["n"]) == ("pages/queries", 1)
    assert said["machine"]["cores"] >= 1
    assert set(said["versions"]) == {"python", "django", "numpy", "postgresql"}


@pytest.mark.parametrize(("share", "value"), [(50, 2), (95, 4), (100, 4), (25, 1)])
def test_a_percentile_is_one_of_the_values(share, value):
    assert percentile([4, 1, 3, 2], share) == value


def test_a_case_is_the_one_that_everybody_draws():
    case = draw_case(100, 200)

    assert case.sha256.startswith("e57dfa5605a984e8")
    assert (sum(case.free), case.free.count(8)) == (79, 9)


def test_what_is_measured_is_a_sound_plan():
    snapshot = snapshot_of(draw_case(100, 200))

    plan = plan_cycle(snapshot, NO_STOPS)

    assert violations(snapshot, plan, NO_STOPS) == []
    assert len(plan.starts) > 10


@pytest.mark.parametrize("power", [0.5, 1, 2])
def test_the_exponent_is_the_power_that_a_cost_grows_with(power):
    sizes = [100, 200, 400]

    assert exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)


def test_peak_memory_counts_what_the_work_holds():
    assert peak_mib(partial(bytearray, 200 << 20)) > 200


def test_a_bench_without_its_lists_says_what_it_needs(monkeypatch, tmp_path):
    monkeypatch.setenv(inflation.VARIABLE, str(tmp_path))

    with pytest.raises(NotRun, match="MUSTER_OPENB must name a folder with openb_node_list"):
        inflation.lists()
