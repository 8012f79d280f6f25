"""The scenario language: a cluster, its jobs and its policy as text; plans as text.

`read_scenario` reads a text; `Scenario.plan_lines` plans its one cycle and writes the decisions.
What happens later (`@TIME LINE`) is left in `Scenario.events` for a simulation.
"""

from dataclasses import dataclass, field

from scheduling.engine.cycle import plan_cycle
from scheduling.engine.scenario import values
from scheduling.engine.scenario.lines import apply_line, policy_changes
from scheduling.engine.scenario.refusals import check_change, refuse_new
from scheduling.engine.scenario.render import Renderer
from scheduling.engine.scenario.survey import take_snapshot
from scheduling.engine.scenario.world import World
from scheduling.engine.snapshot import Snapshot

__all__ = [
    "Event",
    "Scenario",
    "ScenarioError",
    "World",
    "apply_event",
    "policy_changes",
    "read_scenario",
]


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
    """A scenario that was read: the world at its beginning, and what happens later.

    refused: (job, why) of what submission refuses at the beginning.
    """

    world: World = field(default_factory=World)
    events: list[Event] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        """The world at the beginning, as the engine sees it."""
        return take_snapshot(self.world, 0)

    def plan_lines(self, *, with_devices: bool = False) -> list[str]:
        """The refusals and the decisions of one cycle at the beginning, one line each."""
        snapshot = self.snapshot()
        renderer = Renderer(snapshot, 0, self.world.names(), with_devices)
        refusals = [f"refuse {name} {why}" for name, why in self.refused]
        return refusals + renderer.lines(plan_cycle(snapshot, self.world.policy))


def read_scenario(text: str) -> Scenario:
    """The scenario that `text` tells. Raises ScenarioError naming the first line at fault."""
    scenario = Scenario()
    for number, raw in enumerate(text.splitlines(), 1):
        line = _without_comment(raw)
        if not line:
            continue
        try:
            if line.startswith("@"):
                scenario.events.append(_event(number, line))
            else:
                apply_line(scenario.world, line, at=0)
        except (ValueError, KeyError) as error:
            raise ScenarioError(f"line {number}: {error}") from error
    scenario.events.sort(key=lambda event: event.at)
    waiting = [job for job in scenario.world.jobs.values() if job.state == "waiting"]
    scenario.refused = refuse_new(scenario.world, waiting)
    return scenario


def apply_event(world: World, event: Event) -> list[tuple[str, str]]:
    """Let `event` happen. Returns (job, why) of jobs that submission refuses."""
    before = dict(world.jobs)
    word, name, *_ = *event.line.split(), ""
    try:
        apply_line(world, event.line, at=event.at, is_event=True)
        job = world.jobs.get(name)
        if word != "job" or job is None or job.is_placed:
            return []
        if job is before.get(name):
            check_change(world, job)
            return []
    except (ValueError, KeyError) as error:
        raise ScenarioError(f"line {event.number}: {error}") from error
    refused = refuse_new(world, [job])
    if refused and name in before:
        world.jobs[name] = before[name]
    return refused


def _event(number: int, line: str) -> Event:
    time, _, rest = line[1:].partition(" ")
    if not rest:
        raise ValueError("write: @TIME LINE")
    at = values.seconds(time)
    if at < 0:
        raise ValueError(f"{time} is before the beginning")
    return Event(number, at, rest)


def _without_comment(line: str) -> str:
    words = line.split()
    for index, word in enumerate(words):
        if word.startswith("#"):
            return " ".join(words[:index])
    return " ".join(words)
