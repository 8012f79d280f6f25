"""The simulated cluster: store, clock, timers and controllers, and how they take turns.

Everything runs in one thread. A change is published, every controller notes what it must look at,
and `settle` lets them act until nobody has anything left to do; only then is time moved on.
"""

import random
import time
import uuid
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from simcluster.clock import Clock, Timers, seconds_of
from simcluster.objects import Obj, name_of, namespace_of, uid_of
from simcluster.resources import EVENTS, NAMESPACES, Resource
from simcluster.store import Event, Store

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
EVENT_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the simulated kubelets behave where a pod does not say."""

    start_seconds: float = 2.0
    run_seconds: int = 60
    tainted: bool = False
    seed: int = 0
    chooses: bool = False  # the device plugin heeds no wishes, as NVIDIA's does not; nor HAMi


class Controller(Protocol):
    """One of the loops of a cluster."""

    def seen(self, event: Event) -> None:
        """Note what must be looked at; change nothing."""

    def act(self) -> bool:
        """Do what was noted; True when there was something to do."""


class World:
    """Everything that a simulated cluster consists of, save its controllers' own notes."""

    def __init__(self, clock: Clock, *, options: Options | None = None) -> None:
        self.clock = clock
        self.options = options or Options()
        self.timers = Timers()
        self.store = Store()
        self.controllers: list[Controller] = []
        # Names and uids only; nothing here guards a secret.
        self.random = random.Random(self.options.seed or None)  # noqa: S311 - no secret
        self._changes: deque[Event] = deque()
        self._told: deque[tuple[float, str, str]] = deque()
        self.store.listeners.append(self._changes.append)

    def settle(self) -> None:
        """Let the controllers act until nothing is left to do at this instant."""
        busy = True
        while busy or self._changes:
            while self._changes:
                event = self._changes.popleft()
                if event.resource is not EVENTS:
                    for controller in self.controllers:
                        controller.seen(event)
            busy = False
            for controller in self.controllers:
                busy = controller.act() or busy

    def run_due(self, budget: float | None = None) -> bool:
        """Run what is due by now, in time order; True when `budget` wall seconds ran out first."""
        now = self.clock.now()
        stop = None if budget is None else time.monotonic() + budget
        while timer := self.timers.pop_due(now):
            with self.clock.pinned(timer.due):
                while timer is not None:  # all of one instant, and then the controllers
                    if timer.action is not None:
                        timer.action()
                    timer = self.timers.pop_due(self.clock.now())
                self.settle()
            if stop is not None and time.monotonic() > stop:
                return True
        return False

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def suffix(self) -> str:
        """Five characters, as generateName and the Job controller append them."""
        return "".join(self.random.choices(_SUFFIX_LETTERS, k=5))

    def new_metadata(self, name: str, *, namespace: str = "") -> Obj:
        """Metadata of an object that is made now."""
        metadata = {"name": name, "uid": self.new_uid(), "creationTimestamp": self.clock.stamp()}
        return {**metadata, "namespace": namespace} if namespace else metadata

    def tell(
        self, about: tuple[Resource, Obj], reason: str, *, message: str, source: str, warn: bool
    ) -> None:
        """Record an Event about an object; it is forgotten after an hour of simulated time."""
        resource, obj = about
        namespace = namespace_of(obj) or "default"
        if self.store.get(NAMESPACES, "", namespace) is None:
            return  # its namespace has just ended
        self._forget_events()
        stamp = self.clock.stamp()
        name = f"{name_of(obj)}.{self.random.getrandbits(60):016x}"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": self.new_metadata(name, namespace=namespace),
            "involvedObject": _reference(resource, obj),
            "reason": reason,
            "message": message,
            "type": "Warning" if warn else "Normal",
            "source": {"component": source},
            "reportingComponent": source,
            "reportingInstance": "",
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "eventTime": None,
            "count": 1,
        }
        self.store.put(EVENTS, event)
        self._told.append((self.clock.now() + EVENT_SECONDS, namespace, name))

    def adopt_events(self) -> None:
        """Take over the events of a saved state, so that they are forgotten in time."""
        told = [
            (
                seconds_of(event["lastTimestamp"]) + EVENT_SECONDS,
                namespace_of(event),
                name_of(event),
            )
            for event in self.store.all(EVENTS)
            if event.get("lastTimestamp")
        ]
        self._told.extend(sorted(told))

    def _forget_events(self) -> None:
        now = self.clock.now()
        while self._told and self._told[0][0] <= now:
            _, namespace, name = self._told.popleft()
            if old := self.store.get(EVENTS, namespace, name):
                self.store.remove(EVENTS, old)


def _reference(resource: Resource, obj: Obj) -> Obj:
    reference = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "name": name_of(obj),
        "uid": uid_of(obj),
        "resourceVersion": obj["metadata"].get("resourceVersion", ""),
    }
    namespace = namespace_of(obj)
    return {**reference, "namespace": namespace} if namespace else reference
