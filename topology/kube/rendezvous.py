"""How the members of a gang find each other: host names that stay, and what each is told.

What differs between members or attempts stands in annotations of the pod and reaches the container
by reference; the rest is the same for all, and stands in the template of the group's Job.
"""

from collections.abc import Iterator

from topology.kube import names
from topology.kube.values import GangSpec, RendezvousSpec
from topology.kube.wire import Obj

PORT = 29500  # where PyTorch's programs look for the first member, unless told otherwise
_ALONE = "localhost"


def service(spec: RendezvousSpec) -> Obj:
    """The headless Service that gives members their names, from before the first of them runs."""
    owners = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}
        for name, uid in spec.owners.items()
    ]
    labels = {**spec.labels, names.JOB: spec.job}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": spec.job,
            "namespace": spec.namespace,
            "labels": labels,
            "ownerReferences": owners,
        },
        "spec": {
            "clusterIP": "None",
            "selector": {names.JOB: spec.job},
            "publishNotReadyAddresses": True,
            "ports": [{"name": "rendezvous", "port": PORT, "protocol": "TCP"}],
        },
    }


def environment(spec: GangSpec) -> list[Obj]:
    """The variables of a member's container, each once: what people set themselves wins.

    Theirs may name ours, and those of torchrun, which come last, follow what theirs say.
    """
    own = {name: {"name": name, "value": value} for name, value in spec.environment.items()}
    told = [*_of_the_gang(spec), *_of_the_member()]
    derived = list(_of_torchrun(spec))
    return [
        *(variable for variable in told if variable["name"] not in own),
        *own.values(),
        *(variable for variable in derived if variable["name"] not in own),
    ]


def _of_the_gang(spec: GangSpec) -> Iterator[Obj]:
    first = spec.whole[0]
    host = f"{spec.job}-{first.name}-0.{spec.job}" if spec.has_peers else _ALONE
    yield _variable("MASTER_ADDR", host)
    yield _variable("MASTER_PORT", str(PORT))
    yield _variable("MUSTER_JOB", spec.job)
    yield _variable("MUSTER_MEMBERS", _range(spec.least_members, spec.most_members))
    yield _variable("MUSTER_GROUPS", ",".join(group.name for group in spec.whole))
    yield _variable("MUSTER_GROUP", spec.group)
    (own,) = (group for group in spec.whole if group.name == spec.group)
    yield _variable("MUSTER_GROUP_MEMBERS", _range(own.least, own.most))


def _of_the_member() -> Iterator[Obj]:
    yield _reference("RANK", names.GANG_RANK)
    yield _reference("WORLD_SIZE", names.WORLD_SIZE)
    yield _variable("NODE_RANK", "$(RANK)")
    yield _reference("MUSTER_GROUP_RANK", names.RANK)
    yield _reference("MUSTER_ATTEMPT", names.ATTEMPT)
    yield _reference("MUSTER_SAVED_SECONDS", names.SAVED_SECONDS)


def _of_torchrun(spec: GangSpec) -> Iterator[Obj]:
    """What torchrun takes for its option --x, as PET_X, where its command line does not say."""
    yield _variable("PET_NNODES", "$(MUSTER_MEMBERS)")
    yield _variable("PET_NPROC_PER_NODE", str(max(1, spec.devices_per_member)))
    if spec.least_members == spec.most_members:
        yield _variable("PET_NODE_RANK", "$(NODE_RANK)")
        yield _variable("PET_MASTER_ADDR", "$(MASTER_ADDR)")
        yield _variable("PET_MASTER_PORT", "$(MASTER_PORT)")
    else:
        yield _variable("PET_RDZV_BACKEND", "c10d")
        yield _variable("PET_RDZV_ENDPOINT", "$(MASTER_ADDR):$(MASTER_PORT)")
        yield _variable("PET_RDZV_ID", "$(MUSTER_JOB)-$(MUSTER_ATTEMPT)")


def _range(least: int, most: int) -> str:
    return str(most) if least == most else f"{least}:{most}"


def _variable(name: str, value: str) -> Obj:
    return {"name": name, "value": value}


def _reference(name: str, annotation: str) -> Obj:
    field = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{annotation}']"}
    return {"name": name, "valueFrom": {"fieldRef": field}}
