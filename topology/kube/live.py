"""The one gateway there is: real clusters and simulated ones speak the same API."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from math import ceil
from pathlib import Path

from portal.core.errors import ClusterAway
from topology.kube import claims, manifest, names, parse, podgroups, rendezvous, tenancy, upkeep
from topology.kube.admission.policies import POLICY_NAMES, POLICY_PATHS
from topology.kube.gateway import (
    AttemptMoved,
    NotOffered,
    NotStarted,
    NotThere,
    RefusedByCluster,
)
from topology.kube.values import (
    Drift,
    GangKey,
    GangSpec,
    GroupSeen,
    LogAsked,
    MemberClaim,
    MemberRelease,
    MemberSeen,
    NodeSeen,
    NotReleased,
    PodGroupSpec,
    RendezvousSpec,
    TenancySpec,
)
from topology.kube.wire import (
    JSON_PATCH,
    WITHOUT,
    ApiError,
    Obj,
    ReadingWire,
    Request,
    Wire,
    pages,
)

BAD, NOT_FOUND, CONFLICT, INVALID = 400, 404, 409, 422
PARALLEL = 16  # calls at a time
KNOCK_SECONDS = 8.0
# Between looks at whether a pod was given the claim of its template, which would replace ours.
_CLAIM_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
LOG_SECONDS = 8.0  # a page waits for it

_lock = threading.Lock()
_gateways: dict[tuple[str, bool], tuple[int, "LiveGateway"]] = {}


def connect(kubeconfig_path: str, *, writes: bool = True) -> "LiveGateway":
    """The gateway to the cluster that the kubeconfig names; empty: the one around us.

    writes: False for one that sends nothing but questions and refuses the rest itself.
    Made once in each process, and again when the file changes. ClusterAway when the file leads
    nowhere.
    """
    key = kubeconfig_path, writes
    with _lock:
        changed_at = _changed_at(kubeconfig_path)
        known = _gateways.get(key)
        if known is None or known[0] != changed_at:
            # The client costs 0.6 s and 48 MB, which a web process need not pay.
            from topology.kube.client import KubernetesWire  # noqa: PLC0415 - see above

            wire: Wire = KubernetesWire(kubeconfig_path)
            known = changed_at, LiveGateway(wire if writes else ReadingWire(wire))
            _gateways[key] = known
    return known[1]


def knock(kubeconfig_path: str) -> Wire:
    """A wire that only asks, with little patience: for a person who waits, of a kubeconfig that
    may be wrong. ClusterAway when there is no way in.
    """
    from topology.kube.client import KubernetesWire  # noqa: PLC0415 - as in connect

    _changed_at(kubeconfig_path)
    return ReadingWire(KubernetesWire(kubeconfig_path, tries=1, read_seconds=KNOCK_SECONDS))


def _changed_at(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns if path else 0
    except OSError as error:
        raise ClusterAway(f"the kubeconfig {path} cannot be read: {error.strerror}") from error


class LiveGateway:
    """See Gateway: each method does what is promised there."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def has_tenancy(self, namespace: str) -> bool:
        found = self._find(f"/api/v1/namespaces/{namespace}")
        labels = {} if found is None else found["metadata"].get("labels") or {}
        return names.KEPT_BY in labels

    def tenancy_drift(self, spec: TenancySpec) -> tuple[Drift, ...]:
        return self.drift(tenancy.kept_objects(spec))

    def drift(self, objects: Sequence[Obj]) -> tuple[Drift, ...]:
        return upkeep.drifts(self.wire, objects)

    def keep_tenancy(self, spec: TenancySpec) -> None:
        self.apply(tenancy.kept_objects(spec))

    def apply(self, objects: Sequence[Obj]) -> None:
        upkeep.apply_all(self.wire, objects)

    def missing_policies(self) -> tuple[str, ...]:
        there: set[str] = set()
        for path in POLICY_PATHS:
            try:
                pages_of_it = list(pages(self.wire, path, selector=f"{names.KEPT_BY}={names.US}"))
            except ApiError as error:
                if error.status == NOT_FOUND:
                    continue
                raise RefusedByCluster(str(error)) from error
            there |= {obj["metadata"]["name"] for page in pages_of_it for obj in page["items"]}
        return tuple(name for name in POLICY_NAMES if name not in there)

    def ensure_gang(self, spec: GangSpec) -> str:
        made = self._create(_jobs_path(spec.namespace), manifest.gang_job(spec))
        job = made or self._find(_job_path(spec.key))
        if not made and job and _is_to_be_made_anew(job, spec):
            self.delete_gang(spec.key)
            made = self._create(_jobs_path(spec.namespace), manifest.gang_job(spec))
            job = made or self._find(_job_path(spec.key))
        if job is None or job["metadata"].get("deletionTimestamp"):
            raise ClusterAway(f"the Job {spec.key.name} of before is still being removed")
        if not made:
            self._lead_on(spec, job)
            if job["spec"].get("suspend") and not spec.is_opened_later:
                self.open_gang(spec.key)
        uid = str(job["metadata"]["uid"])
        if spec.by_claim:
            templates = claims.path_of(spec.namespace, "resourceclaimtemplates")
            self._create(templates, claims.placeholder(spec, owner=uid))
        return uid

    def ensure_all(self, specs: Sequence[GangSpec]) -> frozenset[GangKey]:
        with ThreadPoolExecutor(PARALLEL) as pool:
            made = pool.map(self._try_ensure, specs)
            return frozenset(spec.key for spec, is_made in zip(specs, made, strict=True) if is_made)

    def ensure_rendezvous(self, spec: RendezvousSpec) -> None:
        self.apply([rendezvous.service(spec)])

    def ensure_pod_group(self, spec: PodGroupSpec) -> None:
        path = podgroups.path_of(spec.namespace, spec.job)
        try:
            made = self.wire.ask(upkeep.applying(path, podgroups.group(spec)))
        except ApiError as error:
            if error.status in WITHOUT:
                raise NotOffered(str(error)) from error
            raise RefusedByCluster(str(error)) from error
        if made["metadata"].get("deletionTimestamp"):
            raise ClusterAway(f"the PodGroup of {spec.job} of before is still being removed")

    def ease_pod_group(self, namespace: str, job: str) -> None:
        # Where it is refused, those that are bound are enough for others to join, as a rule.
        with suppress(NotThere, RefusedByCluster):
            self._patch(podgroups.path_of(namespace, job), podgroups.eased(), of=None)

    def open_gang(self, key: GangKey) -> None:
        self._patch(_job_path(key), manifest.suspension(key.attempt, suspend=False), of=key)

    def scale_gang(self, key: GangKey, members: int) -> None:
        self._patch(_job_path(key), manifest.resized(key.attempt, members), of=key)

    def limit_gang(self, key: GangKey, *, ends_at: datetime, wall_at: datetime) -> None:
        job = self._find(_job_path(key)) or {}
        opened_at = parse.instant(job.get("status", {}).get("startTime"))
        if opened_at is None:
            raise NotThere(f"{key.name} is not there, or not open")
        seconds = max(1, ceil((wall_at - opened_at).total_seconds()))
        self._patch(_job_path(key), manifest.limited(key.attempt, seconds), of=key)
        pods = [pod for pod in self.members(key) if pod.phase not in {"succeeded", "failed"}]
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda pod: self._tell_end(pod, ends_at), pods))

    def gated_members(self, key: GangKey) -> tuple[MemberSeen, ...]:
        own = [member for member in self.members(key) if not member.by_hand]
        waiting = [member for member in own if member.phase == "gated" and not member.stopping]
        return tuple(sorted(waiting, key=lambda member: (member.rank, member.pod_uid)))

    def release(self, release: MemberRelease) -> None:
        path = f"/api/v1/namespaces/{release.namespace}/pods/{release.pod_name}"
        if release.claim is not None:
            self._claim(release, release.claim, path)
        try:
            self.wire.ask(_json_patch(path, manifest.as_made(release)))
        except ApiError as error:
            if error.status not in {NOT_FOUND, INVALID}:
                raise RefusedByCluster(str(error)) from error
            self._release_as_found(release, path)

    def release_all(
        self, releases: Sequence[MemberRelease], *, parallel: int = PARALLEL
    ) -> tuple[NotReleased, ...]:
        with ThreadPoolExecutor(parallel) as pool:
            outcomes = list(pool.map(self._try_release, releases))
        for outcome in outcomes:
            if isinstance(outcome, ClusterAway):
                raise outcome
        return tuple(outcome for outcome in outcomes if isinstance(outcome, NotReleased))

    def suspend_gang(self, key: GangKey) -> bool:
        try:
            self._patch(_job_path(key), manifest.suspension(key.attempt, suspend=True), of=key)
        except (NotThere, AttemptMoved):
            return False
        return True

    def delete_gang(self, key: GangKey) -> None:
        job = self._find(_job_path(key))
        if job is None or (job["metadata"].get("labels") or {}).get(names.JOB) != key.job:
            return
        # By its uid: a request that comes late must not reach the Job of the next attempt.
        this_one = {"uid": job["metadata"]["uid"]}
        how = {"propagationPolicy": "Background", "preconditions": this_one}
        try:
            self.wire.ask(Request(method="DELETE", path=_job_path(key), body=how))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise RefusedByCluster(str(error)) from error

    def remove_member(self, member: MemberSeen) -> None:
        path = f"/api/v1/namespaces/{member.namespace}/pods/{member.pod_name}"
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": member.pod_uid}}
        try:
            self.wire.ask(Request(method="DELETE", path=path, body=body))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise RefusedByCluster(str(error)) from error

    def gangs(self) -> tuple[GroupSeen, ...]:
        found = (parse.group_seen(obj) for obj in self._all("/apis/batch/v1/jobs", names.JOB))
        return tuple(group for group in found if group is not None)

    def members(self, key: GangKey | None = None) -> tuple[MemberSeen, ...]:
        path, selector = "/api/v1/pods", names.JOB
        if key is not None:
            path = f"/api/v1/namespaces/{key.namespace}/pods"
            selector = f"{names.JOB}={key.job},{names.GROUP}={key.group}"
        found = (parse.member_seen(obj) for obj in self._all(path, selector))
        return tuple(
            member
            for member in found
            if member is not None and (key is None or member.attempt == key.attempt)
        )

    def members_of(self, keys: Sequence[GangKey]) -> tuple[MemberSeen, ...]:
        jobs: dict[str, set[str]] = {}
        for key in keys:
            jobs.setdefault(key.namespace, set()).add(key.job)
        pods = (
            parse.member_seen(obj)
            for namespace, own in sorted(jobs.items())
            for obj in self._all(
                f"/api/v1/namespaces/{namespace}/pods", f"{names.JOB} in ({','.join(sorted(own))})"
            )
        )
        wanted = frozenset(keys)
        return tuple(pod for pod in pods if pod is not None and pod.key in wanted)

    def nodes(self) -> tuple[NodeSeen, ...]:
        return tuple(parse.node_seen(obj) for obj in self._all("/api/v1/nodes", ""))

    def log(self, asked: LogAsked) -> bytes:
        query = {
            "container": names.MAIN,
            "tailLines": str(asked.lines),
            "limitBytes": str(asked.most),
            "timestamps": str(asked.stamped).lower(),
        }
        path = f"/api/v1/namespaces/{asked.namespace}/pods/{asked.pod_name}/log"
        request = Request(method="GET", path=path, query=query)
        try:
            return self.wire.read(request, most=asked.most, within_seconds=LOG_SECONDS)
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise NotThere(f"pod {asked.pod_name} is no longer there") from error
            if error.status == BAD:
                raise NotStarted(str(error)) from error
            raise RefusedByCluster(str(error)) from error

    def _lead_on(self, spec: GangSpec, job: Obj) -> None:
        """Lead a Job of ours that is there on to the spec's attempt, if it is of an earlier one."""
        before = _attempt_of(job)
        if not before or (job["metadata"].get("labels") or {}).get(names.JOB) != spec.job:
            raise RefusedByCluster(
                f"a Job {spec.key.name} is in {spec.namespace} and is not ours; remove it"
            )
        if before == str(spec.attempt):
            return
        if int(before) > spec.attempt or not job["spec"].get("suspend"):
            raise AttemptMoved(f"{spec.key.name} is at attempt {before}, not {spec.attempt}")
        if job.get("status", {}).get("startTime"):
            raise ClusterAway(f"attempt {before} of {spec.key.name} is still being taken down")
        self._patch(_job_path(spec.key), manifest.next_attempt(spec, before=before), of=spec.key)

    def _claim(self, release: MemberRelease, claim: MemberClaim, path: str) -> None:
        """Have the pod get exactly these GPUs, before its gate is opened."""
        made = claims.claim_of(release, claim)
        self._create(claims.path_of(release.namespace, "resourceclaims"), made)
        for pause in _CLAIM_PAUSES:
            time.sleep(pause)
            pod = self._find(path)
            if pod is None or pod["metadata"]["uid"] != release.pod_uid:
                raise NotThere(f"pod {release.pod_name} is no longer there")
            if claims.is_provided(pod):
                self._patch(f"{path}/status", claims.pointed(release), of=None)
                return
        raise RefusedByCluster(
            f"the cluster made no claim for pod {release.pod_name}; does its controller manager"
            f" serve {claims.API}?"
        )

    def _release_as_found(self, release: MemberRelease, path: str) -> None:
        """The second try, when the pod is not as our template made it: look, then say or do."""
        pod = self._find(path)
        if pod is None or pod["metadata"]["uid"] != release.pod_uid:
            raise NotThere(f"pod {release.pod_name} is no longer there")
        if pod["metadata"].get("deletionTimestamp"):
            raise NotThere(f"pod {release.pod_name} is being removed")
        if _attempt_of(pod) != str(release.attempt):
            raise AttemptMoved(f"pod {release.pod_name} is of attempt {_attempt_of(pod)}")
        if names.GATE in manifest.gates_of(pod):
            self._patch(path, manifest.as_found(release, pod), of=None)
            return
        onto = (pod["spec"].get("nodeSelector") or {}).get(names.HOSTNAME, "any node")
        if onto != release.node:
            raise RefusedByCluster(f"pod {release.pod_name} was released onto {onto} before")

    def _try_ensure(self, spec: GangSpec) -> bool:
        try:
            self.ensure_gang(spec)
        except (ClusterAway, RefusedByCluster, AttemptMoved, NotThere):
            return False
        return True

    def _try_release(self, release: MemberRelease) -> NotReleased | ClusterAway | None:
        try:
            self.release(release)
        except ClusterAway as error:
            return error
        except NotThere as error:
            return NotReleased(release=release, why=str(error), gone=True)
        except (RefusedByCluster, AttemptMoved) as error:
            return NotReleased(release=release, why=str(error))
        return None

    def _tell_end(self, pod: MemberSeen, ends_at: datetime) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.pod_name}"
        with suppress(NotThere):
            self._patch(path, manifest.told_end(pod.pod_uid, ends_at), of=None)

    def _patch(self, path: str, body: list[Obj], *, of: GangKey | None) -> None:
        """One JSON patch. A 422 does not say which test failed: where an attempt matters, look."""
        try:
            self.wire.ask(_json_patch(path, body))
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise NotThere(f"{path} is not there") from error
            now = self._find(path) if of and error.status == INVALID else None
            if of and now and _attempt_of(now) != str(of.attempt):
                raise AttemptMoved(f"{of.name} is at attempt {_attempt_of(now)}") from error
            raise RefusedByCluster(str(error)) from error

    def _find(self, path: str) -> Obj | None:
        try:
            return self.wire.ask(Request(method="GET", path=path))
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise RefusedByCluster(str(error)) from error

    def _create(self, path: str, body: Obj) -> Obj | None:
        """What this call made; None when one of that name was there."""
        try:
            return self.wire.ask(Request(method="POST", path=path, body=body))
        except ApiError as error:
            if error.status != CONFLICT:
                raise RefusedByCluster(str(error)) from error
            return None

    def _all(self, path: str, selector: str) -> Iterator[Obj]:
        try:
            for page in pages(self.wire, path, selector=selector):
                yield from page["items"]
        except ApiError as error:
            raise RefusedByCluster(str(error)) from error


def _json_patch(path: str, body: list[Obj]) -> Request:
    return Request(method="PATCH", path=path, body=body, kind=JSON_PATCH)


def _jobs_path(namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def _job_path(key: GangKey) -> str:
    return f"{_jobs_path(key.namespace)}/{key.name}"


def _attempt_of(obj: Obj) -> str:
    return str((obj.get("metadata", {}).get("annotations") or {}).get(names.ATTEMPT, ""))


def _is_to_be_made_anew(job: Obj, spec: GangSpec) -> bool:
    """Whether a Job of ours cannot be led on: it ended before, or asks in another way.

    One of this very attempt that is not open yet has asked for what the cluster lacks.
    """
    before = _attempt_of(job)
    if before == "" or int(before) > spec.attempt:
        return False
    asks_otherwise = (claims.asks_by_claim(job), podgroups.is_named_by(job)) != (
        spec.by_claim,
        spec.in_pod_group,
    )
    if int(before) == spec.attempt:
        return asks_otherwise and bool(job["spec"].get("suspend"))
    return asks_otherwise or _is_over(job)


def _is_over(job: Obj) -> bool:
    group = parse.group_seen(job)
    return group is not None and bool(group.outcome)
