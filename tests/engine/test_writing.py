"""A snapshot written down as a scenario is the same cluster: it plans the same."""

from textwrap import dedent

import pytest

from scheduling.engine.scenario import read_scenario
from scheduling.engine.scenario.writing import UnsayableError, write_scenario
from tests.engine.test_cases import CASES
from tests.engine.test_scenarios import SCENARIOS

UNSAID = ("mig", "share:", "frac:", "hami", "mps", "time_slicing")


def planned(scenario):
    """Its decisions, devices and all; without what submission refuses, which never is a job."""
    lines = scenario.plan_lines(with_devices=True)
    return [line for line in lines if not line.startswith("refuse ")]


TEXTS = {name: dedent(text) for name, (text, _) in SCENARIOS.items()}
TEXTS |= {
    path.stem: path.read_text().partition("\n---\n")[0]
    for path in CASES
    if path.stem != "c20b-no-such-layout"  # which is refused as it is read
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_written_plans_as_what_it_was_written_of(text):
    scenario = read_scenario(text)
    snapshot = scenario.snapshot()
    try:
        written = write_scenario(snapshot, scenario.world.policy)
    except UnsayableError:
        assert any(word in text for word in UNSAID), text
        return

    assert planned(read_scenario(written)) == planned(scenario)


def test_names_that_are_no_words_are_made_into_some():
    scenario = read_scenario("node n1 2xA100\njob J 1x1")
    scenario.world.nodes["n1"].rack = "row 1, rack 2"

    written = write_scenario(scenario.snapshot(), scenario.world.policy)

    assert "rack=row_1_rack_2" in written
