"""The scheduling cases in tests/data/scenarios: a scenario, `---`, and what its output must match.

One regular expression a line; `!` in front of one means that it must not match. A file with a line
that begins with `@` is simulated, the others are planned once.
"""

import re
from pathlib import Path

import pytest

from scheduling.engine.scenario import ScenarioError, read_scenario
from scheduling.simulation.run import simulate

FOLDER = Path(__file__).parent.parent / "data" / "scenarios"
CASES = sorted(FOLDER.glob("*.txt"))


def output_of(text):
    try:
        scenario = read_scenario(text)
        is_simulated = re.search("^@", text, re.MULTILINE)
        lines = simulate(scenario) if is_simulated else scenario.plan_lines()
        return "\n".join(lines)
    except ScenarioError as error:
        return str(error)


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_case(path):
    text, _, expectations = path.read_text(encoding="utf-8").partition("\n---\n")

    output = output_of(text)

    wrong = []
    for line in expectations.splitlines():
        pattern = line.removeprefix("!").lstrip() if line.startswith("!") else line
        if line and bool(re.search(pattern, output, re.MULTILINE)) == line.startswith("!"):
            wrong.append(line)
    assert wrong == [], output


def test_there_are_cases():
    assert len(CASES) >= 39
