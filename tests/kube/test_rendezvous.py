"""What a member's container is told of its gang; and, on a real control plane, that it resolves."""

from itertools import count

import pytest

from tests.kube.contract.conftest import ClusterApi
from tests.kube.contract.providers import real_cluster
from topology.kube.rendezvous import environment
from topology.kube.values import GangSpec, GroupSize, RendezvousSpec


def spec(**changes):
    known = {"namespace": "muster-t", "job": "j-000001", "group": "main", "attempt": 1}
    return GangSpec(**{**known, "members": 2, "gpus_per_member": 8} | changes)


def told(gang, **annotations):
    """The variables of a container as a kubelet works them out; each may name those before it."""
    known: dict[str, str] = {}
    for variable in environment(gang):
        source = variable.get("valueFrom")
        if source:
            key = source["fieldRef"]["fieldPath"].split("'")[1].rpartition("/")[2]
            value = annotations.get(key.replace("-", "_"), "")
        else:
            value = variable["value"]
            for name, text in known.items():
                value = value.replace(f"$({name})", text)
        known[variable["name"]] = value
    return known


def test_a_member_of_a_fixed_gang_is_told_where_the_first_one_is():
    gang = spec()

    known = told(gang, rank="1", world_size="2", job_completion_index="1", attempt="3")

    assert known == {
        "MASTER_ADDR": "j-000001-main-0.j-000001",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "2",
        "RANK": "1",
        "NODE_RANK": "1",
        "MUSTER_JOB": "j-000001",
        "MUSTER_ATTEMPT": "3",
        "MUSTER_SAVED_SECONDS": "",
        "MUSTER_MEMBERS": "2",
        "MUSTER_GROUPS": "main",
        "MUSTER_GROUP": "main",
        "MUSTER_GROUP_MEMBERS": "2",
        "MUSTER_GROUP_RANK": "1",
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "8",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "j-000001-main-0.j-000001",
        "PET_MASTER_PORT": "29500",
    }


def test_an_elastic_gang_is_told_its_range_and_meets_at_a_rendezvous():
    gang = spec(groups=(GroupSize("main", 2, 8),))

    known = told(gang, rank="0", world_size="2", attempt="4")

    assert {name: text for name, text in known.items() if name.startswith("PET_")} == {
        "PET_NNODES": "2:8",
        "PET_NPROC_PER_NODE": "8",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "j-000001-main-0.j-000001:29500",
        "PET_RDZV_ID": "j-000001-4",
    }
    assert known["MUSTER_MEMBERS"] == "2:8"


def test_the_least_of_a_whole_gang_may_be_more_than_that_of_its_groups():
    groups = (GroupSize("main", 1, 4), GroupSize("extra", 1, 4))

    known = told(spec(group="extra", groups=groups, min_total=5))

    assert (known["MUSTER_MEMBERS"], known["MUSTER_GROUP_MEMBERS"]) == ("5:8", "1:4")


def test_every_group_looks_for_the_first_member_of_the_first_one():
    groups = (GroupSize("chief", 1, 1), GroupSize("worker", 3, 3))

    known = told(spec(group="worker", groups=groups), rank="2", job_completion_index="1")

    assert known["MASTER_ADDR"] == "j-000001-chief-0.j-000001"
    assert (known["MUSTER_GROUPS"], known["MUSTER_GROUP"]) == ("chief,worker", "worker")
    assert (known["RANK"], known["MUSTER_GROUP_RANK"]) == ("2", "1")


def test_who_is_alone_finds_itself():
    assert told(spec(members=1))["MASTER_ADDR"] == "localhost"


def test_values_that_people_set_win_and_what_follows_from_them_follows():
    own = {"MASTER_PORT": "1234", "PET_NPROC_PER_NODE": "2", "ARGS": "--rank=$(RANK)"}

    known = told(spec(environment=own), rank="1")

    assert own.items() - {("ARGS", own["ARGS"])} <= known.items()
    assert known["PET_MASTER_PORT"] == "1234"
    assert known["ARGS"] == "--rank=1"


def test_no_variable_is_said_twice():
    names = [variable["name"] for variable in environment(spec(environment={"RANK": "9"}))]

    assert len(names) == len(set(names))


_numbers = count(1)


@pytest.fixture
def real(control_plane):
    with real_cluster(control_plane) as provider:
        api = ClusterApi(provider)
        yield api
        for group in api.gateway.gangs():
            api.gateway.delete_gang(group.key)
        provider.until(lambda: not api.gateway.members())


@pytest.mark.kube
def test_the_cluster_knows_each_member_by_its_name_before_it_runs(real):
    gang = real.spec()
    members = real.held(gang)
    owners = {gang.key.name: real.gateway.ensure_gang(gang)}
    real.gateway.ensure_rendezvous(
        RendezvousSpec(namespace=gang.namespace, job=gang.job, owners=owners)
    )

    real.gateway.release_all(real.onto(members, real.nodes[0]))
    real.await_phases(gang, "bound", "bound")
    for number, member in enumerate(members, 1):
        address = f"10.1.0.{number}"  # as their node gives them when it makes their sandboxes
        status = {"podIP": address, "podIPs": [{"ip": address}]}
        real.kube.patch(f"{real.kube.pods}/{member.pod_name}/status", {"status": status})

    slices = f"/apis/discovery.k8s.io/v1/namespaces/{gang.namespace}/endpointslices"

    def known_names():
        found = real.provider.api.get(slices)["items"]
        endpoints = [endpoint for item in found for endpoint in item["endpoints"] or ()]
        return {e.get("hostname"): (*e["addresses"], e["conditions"]["ready"]) for e in endpoints}

    names = {
        f"{gang.job}-main-0": ("10.1.0.1", True),
        f"{gang.job}-main-1": ("10.1.0.2", True),
    }
    real.soon(lambda: known_names() == names)
