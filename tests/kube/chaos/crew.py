"""The processes of one round: who is alive, who is to die of what, who is born again."""

import os
import signal
import time
from contextlib import suppress

from tests.kube.chaos.nursery import Life
from tests.processes import is_running


class Crew:
    """Workers and a watcher, one life after the other.

    asleep: roles that nobody is born to for now. happened: the steps that somebody died of.
    """

    def __init__(self, nursery, label, script, log):
        """label: slug of the cluster, and how names begin. log: where ends are told."""
        self.asleep = set()
        self.happened = []
        self._nursery = nursery
        self._label = label
        self._log = log
        self._roles = ["watcher", *["worker"] * script.workers]
        self._certain = [*script.certain]
        self._perhaps = [*script.perhaps]
        self._bind_seconds = script.bind_seconds
        self._births = 0
        self._alive = {}  # by place among the roles: (pid, life)

    def look_after(self):
        """Note who died, and of what, and let others take their places. AssertionError: a crash."""
        for place, role in enumerate(self._roles):
            pid, life = self._alive.get(place, (0, None))
            if life is not None and not is_running(pid):
                self._note_end(life)
                del self._alive[place]
            if place not in self._alive and role not in self.asleep and self._is_wanted(role):
                self._bear(place, role)

    def missed(self):
        """Steps that somebody was to die of, and nobody has."""
        return {death.step for death in self._certain}

    def _is_wanted(self, role):
        """A second of a role would do the steps that the first is to die of."""
        others = any(life.role == role for _, life in self._alive.values())
        return not others or not any(death.role == role for death in self._certain)

    def kill(self, role):
        """Kill all of that role, wherever they are."""
        for place, (pid, life) in list(self._alive.items()):
            if life.role == role:
                self._kill(place, pid, life)

    def end(self):
        for place, (pid, life) in list(self._alive.items()):
            self._kill(place, pid, life)

    def _kill(self, place, pid, life):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        while is_running(pid):
            time.sleep(0.001)
        del self._alive[place]
        if self._said_killed(life):
            self._note_death(life)

    def _bear(self, place, role):
        own = [death for death in (*self._certain, *self._perhaps) if death.role == role]
        death = own[0] if own else None
        self._births += 1
        life = Life(
            name=f"{self._label}-{role}-{self._births}",
            role=role,
            cluster=self._label,
            bind_seconds=self._bind_seconds,
            step=death.step if death else "",
            count=death.count if death else 1,
        )
        self._alive[place] = self._nursery.bear(life), life

    def _note_end(self, life):
        assert self._said_killed(life), f"{life} ended by itself"
        self._note_death(life)

    def _note_death(self, life):
        self.happened.append(life.step)
        for deaths in (self._certain, self._perhaps):
            known = next((own for own in deaths if own.step == life.step), None)
            if known is not None:
                deaths.remove(known)
                return

    def _said_killed(self, life):
        return f"{life.name} killed" in self._log.read_text(errors="replace")
