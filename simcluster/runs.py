"""How long a pod's containers run and how they end: from annotations, else from the command."""

import re
from dataclasses import dataclass

from simcluster.objects import Obj, annotations_of

RUN_SECONDS = "simcluster.muster.dev/run-seconds"
EXIT_CODE = "simcluster.muster.dev/exit-code"
STOP_SECONDS = "simcluster.muster.dev/stop-seconds"
STOP_EXIT_CODE = "simcluster.muster.dev/stop-exit-code"
START_SECONDS = "simcluster.muster.dev/start-seconds"
REJECT = "simcluster.muster.dev/reject"
SAVED_SECONDS = "muster.dev/saved-seconds"  # of the run, by attempts before this one

TERMINATED_BY_TERM = 143
TERMINATED_BY_KILL = 137

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SLEEP = re.compile(r"\bsleep\s+(?P<length>infinity|inf|\d+(?:\.\d+)?)(?P<unit>[smhd]?)\b")
_EXIT = re.compile(r"\bexit\s+(?P<code>\d+)")


@dataclass(frozen=True, slots=True)
class Run:
    """What a container would do if nobody stopped it; `seconds` None is for ever."""

    seconds: int | None
    exit_code: int


def run_of(pod: Obj, container: Obj, *, default: int) -> Run:
    """The run of one container: the pod's annotations win over what the command says.

    What attempts before this one have saved is done already.
    """
    read = _run_of_command(pod, container, default)
    notes = annotations_of(pod)
    seconds = number(notes, RUN_SECONDS, default=read.seconds)
    saved = number(notes, SAVED_SECONDS, default=0) or 0
    exit_code = number(notes, EXIT_CODE, default=None)
    return Run(
        seconds=None if seconds is None else max(0, round(seconds - saved)),
        exit_code=read.exit_code if exit_code is None else int(exit_code),
    )


def number(notes: dict[str, str], key: str, *, default: float | None) -> float | None:
    """An annotation as a number; `default` when it is absent or is none."""
    try:
        return float(notes[key])
    except (KeyError, ValueError):
        return default


def _run_of_command(pod: Obj, container: Obj, default: int) -> Run:
    words = [str(w) for w in (container.get("command") or []) + (container.get("args") or [])]
    text = " ".join(words)
    program = words[0].rsplit("/", 1)[-1] if words else ""
    exits = _EXIT.findall(text)
    exit_code = int(exits[-1]) if exits else int(program == "false")
    sleeps = _SLEEP.findall(text)
    if any(length.startswith("inf") for length, _ in sleeps):
        return Run(None, exit_code)
    if sleeps:
        return Run(round(sum(float(n) * _UNITS[unit] for n, unit in sleeps)), exit_code)
    if program in {"true", "false", "exit"} or exits:
        return Run(0, exit_code)
    forever = pod["spec"].get("restartPolicy", "Always") == "Always"
    return Run(None if forever else default, exit_code)
