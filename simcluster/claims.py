"""GPUs given by claims (DRA): which devices a pod's claims get, by resource.k8s.io/v1.

Claims are made from templates for pods that name one, allocated as the pod is bound, and let go
when it ends. Of CEL only what follows is understood: `false`, and the UUIDs of NVIDIA's driver as
`device.attributes['gpu.nvidia.com'].uuid in ['GPU-a', 'GPU-b']` or `== 'GPU-a'`.
"""

import re
from collections.abc import Iterator

from simcluster.objects import (
    Obj,
    Stored,
    is_finished,
    name_of,
    namespace_of,
    uid_of,
)
from simcluster.resources import CLAIM_TEMPLATES, CLAIMS, PODS, SLICES
from simcluster.store import Event
from simcluster.world import World

DRIVER = "gpu.nvidia.com"  # and the name of its device class
_POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
_UUIDS = re.compile(
    r"device\.attributes\['gpu\.nvidia\.com'\]\.uuid (?:== ('[^']+')|in \[((?:'[^']+'(?:, )?)+)\])"
)

Results = list[Obj]


def claim_names(pod: Obj) -> list[str] | None:
    """The claims of a pod; None while one of them is still to be made of its template."""
    made = {
        own["name"]: own.get("resourceClaimName")
        for own in pod.get("status", {}).get("resourceClaimStatuses") or []
    }
    wanted = pod["spec"].get("resourceClaims") or []
    found = [own.get("resourceClaimName") or made.get(own["name"]) for own in wanted]
    return [name for name in found if name] if all(found) else None


def uuids_of(expression: str) -> set[str]:
    """The UUIDs that a selector lets through; none of one that is not understood."""
    match = _UUIDS.fullmatch(expression)
    return set(re.findall("'([^']+)'", match[1] or match[2])) if match else set()


class Claims:
    """What the scheduler and the kubelets ask."""

    def __init__(self, world: World) -> None:
        self._store = world.store
        self._clock = world.clock

    def plan(self, pod: Obj, node: str) -> dict[str, Results] | None:
        """What each claim of a pod would get on a node; None if one gets too little."""
        names = claim_names(pod)
        if names is None:
            return None
        taken, planned = self._taken(), {}
        for name in names:
            claim = self._store.get(CLAIMS, namespace_of(pod), name)
            if claim is None or not _is_for(claim, pod):
                return None
            results = self._results(claim, node, taken)
            if results is None:
                return None
            planned[name] = results
            taken |= {(own["pool"], own["device"]) for own in results}
        return planned

    def allocate(self, pod: Obj, node: str) -> None:
        at = self._clock.stamp()
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        user = {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
        for name, results in (self.plan(pod, node) or {}).items():
            status = {
                "allocation": {
                    "devices": {"results": results},
                    "nodeSelector": selector,
                    "allocationTimestamp": at,
                },
                "reservedFor": [user],
            }
            claim = self._store.get(CLAIMS, namespace_of(pod), name)
            if claim is not None:
                self._store.change(CLAIMS, claim, lambda new, said=status: new.update(status=said))

    def given(self, pod: Obj) -> list[str]:
        """The indexes of the GPUs that a pod's claims have got."""
        found = [
            self._store.get(CLAIMS, namespace_of(pod), name) for name in claim_names(pod) or ()
        ]
        results = [own for claim in found if claim is not None for own in _results_of(claim)]
        return [own["device"].removeprefix("gpu-") for own in results]

    def let_go(self, pod: Obj) -> None:
        """A pod has ended: what its claims hold is free."""
        for name in claim_names(pod) or ():
            claim = self._store.get(CLAIMS, namespace_of(pod), name)
            if claim is not None and claim.get("status"):
                self._store.change(CLAIMS, claim, lambda new: new.update(status={}))

    def _taken(self) -> set[tuple[str, str]]:
        """Pool and name of each device that is allocated."""
        claims = self._store.all(CLAIMS)
        return {(own["pool"], own["device"]) for claim in claims for own in _results_of(claim)}

    def _results(self, claim: Obj, node: str, taken: set[tuple[str, str]]) -> Results | None:
        if held := _results_of(claim):
            return held if all(own["pool"] == node for own in held) else None
        results: Results = []
        for request in claim["spec"]["devices"].get("requests") or []:
            exactly = request.get("exactly") or {}
            count = exactly.get("count", 1)
            fitting = [name for name in self._fitting(exactly, node) if (node, name) not in taken]
            if len(fitting) < count:
                return None
            common = {"request": request["name"], "driver": DRIVER, "pool": node}
            results += [{**common, "device": name} for name in fitting[:count]]
        return results

    def _fitting(self, exactly: Obj, node: str) -> Iterator[str]:
        """Names of a node's devices that a request lets through, in their slice's order."""
        selectors = [own["cel"]["expression"] for own in exactly.get("selectors") or []]
        if exactly.get("deviceClassName") != DRIVER:
            return
        for slice_ in self._store.all(SLICES):
            if slice_["spec"].get("nodeName") != node or slice_["spec"]["driver"] != DRIVER:
                continue
            for device in slice_["spec"]["devices"]:
                uuid = device["attributes"]["uuid"]["string"]
                if all(uuid in uuids_of(expression) for expression in selectors):
                    yield device["name"]


class ClaimController:
    """Makes the claims of pods that name a template, and lets go what ended pods held."""

    def __init__(self, world: World, claims: Claims) -> None:
        self._world = world
        self._claims = claims
        self._new: dict[str, None] = {}
        self._ended: list[Obj] = []

    def seen(self, event: Event) -> None:
        if event.resource is not PODS or not event.obj["spec"].get("resourceClaims"):
            return
        if event.kind == "DELETED" or is_finished(event.obj):
            self._ended.append(event.obj)
        elif claim_names(event.obj) is None:
            self._new[uid_of(event.obj)] = None

    def act(self) -> bool:
        new, self._new = self._new, {}
        ended, self._ended = self._ended, []
        for uid in new:
            found = self._world.store.by_uid(uid)
            if found is not None:
                self._make_claims(found[1])
        for pod in ended:
            self._claims.let_go(pod)
        return bool(new or ended)

    def _make_claims(self, pod: Stored) -> None:
        made = list(pod.get("status", {}).get("resourceClaimStatuses") or [])
        known = {own["name"] for own in made}
        for own in pod["spec"]["resourceClaims"]:
            template = self._world.store.get(
                CLAIM_TEMPLATES, namespace_of(pod), own.get("resourceClaimTemplateName") or ""
            )
            if own["name"] not in known and template is not None:
                claim = self._make(pod, own["name"], template["spec"]["spec"])
                made.append({"name": own["name"], "resourceClaimName": name_of(claim)})

        def note(new: Obj) -> None:
            new.setdefault("status", {})["resourceClaimStatuses"] = made

        self._world.store.change(PODS, pod, note)

    def _make(self, pod: Obj, name: str, spec: Obj) -> Obj:
        world = self._world
        claim = f"{name_of(pod)}-{name}-{world.suffix()}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
        metadata = {
            **world.new_metadata(claim, namespace=namespace_of(pod)),
            "annotations": {_POD_CLAIM: name},
            "ownerReferences": [{**owner, "controller": True}],
        }
        head = {"apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind}
        return world.store.put(CLAIMS, {**head, "metadata": metadata, "spec": spec, "status": {}})


def _results_of(claim: Obj) -> Results:
    allocation = claim.get("status", {}).get("allocation") or {}
    return list(allocation.get("devices", {}).get("results") or [])


def _is_for(claim: Obj, pod: Obj) -> bool:
    """A claim that a pod controls is that pod's alone."""
    owners = claim["metadata"].get("ownerReferences") or []
    return all(own["uid"] == uid_of(pod) for own in owners if own.get("controller"))
