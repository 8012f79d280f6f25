"""Somebody who watches the API server by a line of his own, and knows what must never be."""

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPException

from topology.kube import names

ENDED = ("Succeeded", "Failed")
_LEDGER = """
    SELECT n.name, p.released_at, array_remove(array_agg(gpu.index ORDER BY gpu.index), NULL)
    FROM scheduling_member m
    JOIN scheduling_job j ON j.id = m.job_id
    JOIN scheduling_jobgroup g ON g.id = m.group_id
    JOIN scheduling_placement p ON p.id = m.placement_id
    JOIN topology_node n ON n.id = p.node_id
    LEFT JOIN scheduling_placementgpu d ON d.member_id = m.id
    LEFT JOIN topology_gpu gpu ON gpu.id = d.gpu_id
    WHERE j.public_id = %s AND g.name = %s AND m.attempt = %s AND m.rank = %s
    GROUP BY m.id, n.name, p.released_at
"""
_LEAST = """
    SELECT g.name, g.min_member
    FROM scheduling_jobgroup g JOIN scheduling_job j ON j.id = g.job_id WHERE j.public_id = %s
"""


@dataclass(frozen=True)
class Pod:
    """One pod, as the API server has it now."""

    uid: str
    job: str
    group: str
    attempt: int
    rank: int
    node: str
    devices: tuple[int, ...]
    has_ended: bool
    bound_at: datetime | None

    @property
    def is_live(self):
        return bool(self.node) and not self.has_ended


@dataclass
class Attempt:
    """How far one attempt to start a gang is. begun: when its first pod was bound, monotonic."""

    begun: float
    bound: set[tuple[str, int]] = field(default_factory=set)
    is_whole: bool = False
    over: float | None = None


class Witness(threading.Thread):
    """Follows the pods of one namespace. wrong: what was seen that must never be."""

    def __init__(self, api, namespace, database, *, since):
        super().__init__(daemon=True)
        self.wrong = []
        self.bound = 0
        self._least = {}
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._database = database
        self._since = since
        self._pods = {}
        self._attempts = {}
        self._ended = threading.Event()

    def run(self):
        version = self._since
        while not self._ended.is_set():
            with suppress(OSError, HTTPException):
                for event in self._api.follow(self._path, seconds=60, resourceVersion=version):
                    if self._ended.is_set():
                        return
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._take(event)

    def end(self):
        self._ended.set()

    def live(self):
        """Where each pod that is bound and has not ended is, and with which devices."""
        return {
            (pod.job, pod.group, pod.attempt, pod.rank, pod.node, pod.devices)
            for pod in list(self._pods.values())
            if pod.is_live
        }

    def late(self, seconds):
        """Gangs that were started in part for longer than that."""
        found = []
        for (job, number), attempt in list(self._attempts.items()):
            lasted = (attempt.over or time.monotonic()) - attempt.begun
            if not attempt.is_whole and lasted > seconds:
                found.append(f"{job} attempt {number}, of {attempt.bound} alone for {lasted:.1f} s")
        return found

    def _take(self, event):
        obj = event["object"]
        if names.JOB not in (obj["metadata"].get("labels") or {}):
            return
        pod = pod_of(obj)
        before = self._pods.pop(pod.uid, None)
        if event["type"] != "DELETED":
            self._pods[pod.uid] = pod
        if pod.node and (before is None or not before.node):
            self._note_bound(pod)
        self._note_attempt(pod)

    def _note_bound(self, pod):
        self.bound += 1
        key = (pod.job, pod.group, pod.attempt, pod.rank)
        rows = self._database.execute(_LEDGER, key).fetchall()
        held = [row for row in rows if row[1] is None or row[1] >= pod.bound_at]
        if (pod.node, pod.devices) not in {(node, tuple(gpus)) for node, _, gpus in held}:
            self.wrong.append(f"{pod} was bound, and the ledger has {rows}")
        for other in list(self._pods.values()):
            shared = set(pod.devices) & set(other.devices)
            if other.uid != pod.uid and other.is_live and other.node == pod.node and shared:
                self.wrong.append(f"{pod} was bound with devices {shared} of {other}")

    def _note_attempt(self, pod):
        key = (pod.job, pod.attempt)
        if pod.node:
            attempt = self._attempts.setdefault(key, Attempt(time.monotonic()))
            attempt.bound.add((pod.group, pod.rank))
            attempt.is_whole = attempt.is_whole or self._is_whole(pod.job, attempt)
        attempt = self._attempts.get(key)
        if attempt is not None:
            own = [other for other in self._pods.values() if (other.job, other.attempt) == key]
            is_over = not any(other.is_live for other in own)
            attempt.over = (attempt.over or time.monotonic()) if is_over else None

    def _is_whole(self, job, attempt):
        if job not in self._least:
            self._least[job] = self._database.execute(_LEAST, [job]).fetchall()
        groups = [group for group, _ in attempt.bound]
        return all(groups.count(group) >= least for group, least in self._least[job])


def pod_of(obj):
    """What a witness notes of a pod's manifest."""
    metadata, status = obj["metadata"], obj.get("status", {})
    labels, notes = metadata["labels"], metadata.get("annotations") or {}
    scheduled = [c for c in status.get("conditions", []) if c["type"] == "PodScheduled"]
    is_bound = scheduled and scheduled[0]["status"] == "True"
    devices = notes.get(names.DEVICES, "")
    return Pod(
        uid=metadata["uid"],
        job=labels[names.JOB],
        group=labels[names.GROUP],
        attempt=int(notes[names.ATTEMPT]),
        rank=int(notes[names.RANK]),
        node=obj["spec"].get("nodeName", ""),
        devices=tuple(int(index) for index in devices.split(",") if index),
        has_ended=status.get("phase") in ENDED,
        bound_at=datetime.fromisoformat(scheduled[0]["lastTransitionTime"]) if is_bound else None,
    )
