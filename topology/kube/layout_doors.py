"""The GPU Operator's own doors, by which a node's layout is read and changed.

Configurations go into the ConfigMaps that the operator was told of, under names of ours; a node
gets one by a label. Every call may be made twice. ClusterAway, NotThere and RefusedByCluster are
raised as in `gateway`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from topology.kube import names, parse
from topology.kube.gateway import NotThere, RefusedByCluster
from topology.kube.values import NodeSeen, PodSeen
from topology.kube.wire import MERGE_PATCH, ApiError, Obj, Request, Wire, pages

NOT_FOUND, CONFLICT = 404, 409
_TRIES = 5
# Adds to the text under a key of a ConfigMap, or gives it back as it is; "" for none yet.
Edit = Callable[[str], str]


class LayoutDoors(Protocol):
    def node(self, name: str) -> NodeSeen:
        """The node as it is now. NotThere: it has left."""

    def cordon(self, name: str, *, on: bool) -> None:
        """Have it take no new pods, or take them again."""

    def label(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of the node, all at once; None removes one."""

    def put_config(self, config_map: str, key: str, edit: Edit) -> None:
        """Edit one text of a ConfigMap of the operator's, which is made where it is missing."""

    def pods_on(self, name: str) -> tuple[PodSeen, ...]:
        """Pods on the node that hold GPUs or parts of them."""

    def evict(self, pod: PodSeen) -> None:
        """Have a pod end, as far as its disruption budget lets it; gone already is fine."""


class LiveLayoutDoors:
    """See LayoutDoors: each method does what is promised there."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def node(self, name: str) -> NodeSeen:
        return parse.node_seen(self._ask("GET", f"/api/v1/nodes/{name}"))

    def cordon(self, name: str, *, on: bool) -> None:
        self._merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": on or None}})

    def label(self, name: str, labels: Mapping[str, str | None]) -> None:
        self._merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": dict(labels)}})

    def put_config(self, config_map: str, key: str, edit: Edit) -> None:
        for _ in range(_TRIES):
            if self._try_config(config_map, key, edit):
                return
        raise RefusedByCluster(f"ConfigMap {config_map} is changed by others again and again")

    def pods_on(self, name: str) -> tuple[PodSeen, ...]:
        try:
            found = [
                parse.pod_seen(pod)
                for page in pages(self._wire, "/api/v1/pods", fields=f"spec.nodeName={name}")
                for pod in page["items"]
            ]
        except ApiError as error:
            raise RefusedByCluster(str(error)) from error
        return tuple(pod for pod in found if pod is not None)

    def evict(self, pod: PodSeen) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
        metadata = {"name": pod.name, "namespace": pod.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        try:
            self._wire.ask(Request(method="POST", path=path, body=body))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise RefusedByCluster(str(error)) from error

    def _try_config(self, config_map: str, key: str, edit: Edit) -> bool:
        """Whether it is as edited now; False where somebody else wrote at the same time."""
        base = f"/api/v1/namespaces/{names.OPERATOR_NAMESPACE}/configmaps"
        try:
            there: Obj | None = self._ask("GET", f"{base}/{config_map}")
        except NotThere:
            there = None
        data: dict[str, Any] = {} if there is None else there.get("data") or {}
        edited = edit(data.get(key, ""))
        if edited == data.get(key):
            return True
        metadata = {"name": config_map, "namespace": names.OPERATOR_NAMESPACE}
        made: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        body = {**(there or made), "data": {**data, key: edited}}
        method, path = ("POST", base) if there is None else ("PUT", f"{base}/{config_map}")
        try:
            self._wire.ask(Request(method=method, path=path, body=body))
        except ApiError as error:
            if error.status != CONFLICT:
                raise RefusedByCluster(str(error)) from error
            return False
        return True

    def _merge(self, path: str, body: Obj) -> None:
        self._ask("PATCH", path, body=body, kind=MERGE_PATCH)

    def _ask(self, method: str, path: str, **rest: Any) -> Obj:
        try:
            return self._wire.ask(Request(method=method, path=path, **rest))
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise NotThere(f"{path} is not there") from error
            raise RefusedByCluster(str(error)) from error
