"""The scenario language: a cluster, its jobs and its policy as text; plans as text.

`read_scenario` reads a text; `Scenario.plan_lines` plans its one cycle and writes the decisions.
"""

from dataclasses import dataclass, field

from scheduling.engine.cycle import plan_cycle
from scheduling.engine.scenario.lines import apply_line
from scheduling.engine.scenario.render import Renderer
from scheduling.engine.scenario.world import World

__all__ = ["Scenario", "ScenarioError", "World", "read_scenario"]


class ScenarioError(ValueError):
    """A line that cannot be read; the message begins with its number, counted from 1."""


@dataclass(frozen=True, slots=True)
class Event:
    """A line that holds from a later instant on. at: seconds from the beginning."""

    number: int
    at: int
    line: str


@dataclass(slots=True)
class Scenario:
    """A scenario that was read: the world at its beginning, and what happens later."""

    world: World = field(default_factory=World)
    events: list[Event] = field(default_factory=list)

    def plan_lines(self, *, with_devices: bool = False) -> list[str]:
        """The decisions of one cycle at the beginning, one line each."""
        snapshot = self.world.snapshot(0)
        names = {job.id: job.name for job in self.world.jobs.values()}
        renderer = Renderer(snapshot, 0, names, with_devices)
        return renderer.lines(plan_cycle(snapshot, self.world.policy))


def read_scenario(text: str) -> Scenario:
    """The scenario that `text` tells. Raises ScenarioError naming the first line at fault."""
    scenario = Scenario()
    for number, raw in enumerate(text.splitlines(), 1):
        line = _without_comment(raw)
        if not line:
            continue
        try:
            apply_line(scenario.world, line, at=0)
        except (ValueError, KeyError) as error:
            raise ScenarioError(f"line {number}: {error}") from error
    return scenario


def _without_comment(line: str) -> str:
    words = line.split()
    for index, word in enumerate(words):
        if word.startswith("#"):
            return " ".join(words[:index])
    return " ".join(words)
