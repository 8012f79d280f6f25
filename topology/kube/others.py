"""What pods that are not ours take of each node, kept up to date pod by pod.

A cluster may have more of them than anybody wants to hear of, such as some of every node's own:
those that ask for no GPU are told as one use of their node.
"""

from collections import defaultdict

from topology.kube.usage import use_of
from topology.kube.values import OthersSeen, Use
from topology.kube.wire import Obj


class Others:
    """Not for two threads at once."""

    def __init__(self) -> None:
        self._on: dict[str, dict[str, Use]] = defaultdict(dict)  # uses by node and pod
        self._node: dict[str, str] = {}  # of each pod

    def note(self, pod: Obj, *, gone: bool = False) -> str:
        """Take note of a pod that is, or was, on a node: that node."""
        uid, node = str(pod["metadata"]["uid"]), str(pod["spec"].get("nodeName") or "")
        use = use_of(pod, gone=gone)
        self._forget(uid)
        if use is not None:
            self._node[uid] = node
            self._on[node][uid] = use
        return node

    def keep(self, uids: set[str]) -> None:
        """Forget the pods that a full list lacks."""
        for uid in self._node.keys() - uids:
            self._forget(uid)

    def nodes(self) -> frozenset[str]:
        """Of which something is taken."""
        return frozenset(node for node, uses in self._on.items() if uses)

    def seen(self, node: str) -> OthersSeen:
        """All that is taken of `node`, those with GPUs by name."""
        uses = self._on.get(node, {}).values()
        rest = [use for use in uses if not use.gpus]
        plain = Use(
            cpu_milli=sum(use.cpu_milli for use in rest),
            memory_mib=sum(use.memory_mib for use in rest),
        )
        named = sorted((use for use in uses if use.gpus), key=lambda use: use.name)
        return OthersSeen(node=node, uses=(*([plain] if plain != Use() else []), *named))

    def _forget(self, uid: str) -> None:
        node = self._node.pop(uid, None)
        if node is not None:
            del self._on[node][uid]
