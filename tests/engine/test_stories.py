"""Small stories in tests/data/stories: their titles together say what the engine decides, and why.

A story is `== TITLE`, a scenario, `--`, and exactly what comes out. `# simulated` runs it forward
in time, `# with devices` names devices. Plans are checked against the invariants as well.
"""

from pathlib import Path

import pytest

from scheduling.engine.cycle import plan_cycle
from scheduling.engine.invariants import violations
from scheduling.engine.scenario import read_scenario
from scheduling.engine.scenario.survey import take_snapshot
from scheduling.simulation.run import simulate

FOLDER = Path(__file__).parent.parent / "data" / "stories"
SIX_HOURS = 6 * 3600


def stories():
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        for story in path.read_text(encoding="utf-8").split("== ")[1:]:
            title, _, rest = story.partition("\n")
            text, _, want = rest.partition("\n--\n")
            name = f"{path.stem}: {title}"
            found.append(pytest.param(text, want.strip().splitlines(), id=name))
    return found


@pytest.mark.parametrize(("text", "want"), stories())
def test_story(text, want):
    scenario = read_scenario(text)
    snapshot = take_snapshot(scenario.world, 0)
    policy = scenario.world.policy

    assert violations(snapshot, plan_cycle(snapshot, policy), policy) == []
    if text.startswith("# simulated"):
        assert list(simulate(scenario, until=SIX_HOURS)) == want
    else:
        assert scenario.plan_lines(with_devices=text.startswith("# with devices")) == want
