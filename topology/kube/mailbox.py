import threading
from collections import OrderedDict
from collections.abc import Hashable

from topology.kube.values import Seen


class Mailbox:
    """What waits to be taken: of each thing only the newest that was said, oldest thing first.

    A burst about one thing is one value for a slow taker, and who puts waits while it is full, so
    it stays small.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._waiting: OrderedDict[Hashable, Seen] = OrderedDict()
        self._changed = threading.Condition()

    def put(self, about: Hashable, seen: Seen, *, seconds: float, last: bool = False) -> bool:
        """Leave a value; False when there was no room for it in that time.

        last: it is about what was told before it, and comes after all that waits.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(about), seconds):
                return False
            self._waiting[about] = seen
            if last:
                self._waiting.move_to_end(about)
            self._changed.notify_all()
            return True

    def take(self, *, seconds: float) -> Seen | None:
        """The next value; None when there was none in that time."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._waiting), seconds):
                return None
            _, seen = self._waiting.popitem(last=False)
            self._changed.notify_all()
            return seen

    def _has_room(self, about: Hashable) -> bool:
        return about in self._waiting or len(self._waiting) < self._length
