"""How members find each other: names that come with the gang and go with it, and their ranks."""

from dataclasses import replace

import pytest

from topology.kube.gateway import RefusedByCluster
from topology.kube.values import GroupSize, RendezvousSpec


def rendezvous(cluster_api, spec):
    """Its names, of the one Job that it has."""
    owners = {spec.key.name: cluster_api.gateway.ensure_gang(spec)}
    return RendezvousSpec(namespace=spec.namespace, job=spec.job, owners=owners)


def service_path(kube, spec):
    return f"{kube.home}/services/{spec.job}"


def test_a_gang_that_is_asked_for_again_has_the_same_uid(cluster_api):
    spec = cluster_api.spec()

    first = cluster_api.gateway.ensure_gang(spec)

    assert first == cluster_api.gateway.ensure_gang(spec) != ""


def test_members_have_names_from_before_they_run(cluster_api, kube):
    spec = cluster_api.spec()
    names = rendezvous(cluster_api, spec)

    cluster_api.gateway.ensure_rendezvous(names)
    cluster_api.gateway.ensure_rendezvous(names)

    service = kube.get(service_path(kube, spec))
    pods = [cluster_api.pod(member.pod_name) for member in cluster_api.held(spec)]
    assert [(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods] == [
        (f"{spec.job}-main-0", spec.job),
        (f"{spec.job}-main-1", spec.job),
    ]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    for pod in pods:
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_names_go_with_the_last_job_of_the_gang(cluster_api, kube):
    groups = (GroupSize("main", 2, 2), GroupSize("extra", 1, 1))
    first = cluster_api.spec(groups=groups)
    second = replace(first, group="extra", members=1)
    owners = {gang.key.name: cluster_api.gateway.ensure_gang(gang) for gang in (first, second)}
    names = RendezvousSpec(namespace=first.namespace, job=first.job, owners=owners)
    cluster_api.gateway.ensure_rendezvous(names)

    cluster_api.gateway.delete_gang(first.key)
    kube.until(lambda: not kube.is_there(f"{kube.jobs}/{first.key.name}"))
    are_kept = kube.is_there(service_path(kube, first))
    cluster_api.gateway.delete_gang(second.key)

    kube.until(lambda: not kube.is_there(service_path(kube, first)))
    assert are_kept


def test_the_next_attempt_takes_the_names_over(cluster_api, kube):
    first = cluster_api.spec()
    cluster_api.gateway.ensure_rendezvous(rendezvous(cluster_api, first))
    cluster_api.gateway.delete_gang(first.key)
    second = replace(first, attempt=2)
    cluster_api.ensure_soon(second)
    names = rendezvous(cluster_api, second)

    cluster_api.gateway.ensure_rendezvous(names)

    def is_owned_by_the_second():
        if not kube.is_there(service_path(kube, first)):
            cluster_api.gateway.ensure_rendezvous(names)  # it went with the first; make it again
        owners = kube.get(service_path(kube, first))["metadata"].get("ownerReferences", [])
        return [owner["uid"] for owner in owners] == list(names.owners.values())

    kube.until(is_owned_by_the_second)


def test_what_has_that_name_and_cannot_be_made_ours_is_refused(cluster_api, kube):
    spec = cluster_api.spec()
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": spec.job},
        "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.7.7"},
    }
    made, _ = kube.ask("POST", f"{kube.home}/services", theirs)
    assert made == 201

    with pytest.raises(RefusedByCluster, match=f"Service {spec.job}"):
        cluster_api.gateway.ensure_rendezvous(rendezvous(cluster_api, spec))


def test_a_released_member_is_told_its_rank_and_how_many_there_are(cluster_api):
    spec = cluster_api.spec(members=1)
    [release] = cluster_api.onto(cluster_api.held(spec), cluster_api.nodes[0])

    cluster_api.gateway.release(replace(release, rank=5, world_size=6))

    notes = cluster_api.pod(release.pod_name)["metadata"]["annotations"]
    assert (notes["muster.dev/rank"], notes["muster.dev/world-size"]) == ("5", "6")


def test_what_members_are_told_by_reference_is_kept_as_it_is_said(cluster_api):
    spec = cluster_api.spec()
    pod = cluster_api.pod(cluster_api.held(spec)[0].pod_name)

    told = {v["name"]: v for v in pod["spec"]["containers"][0]["env"]}
    assert told["RANK"]["valueFrom"]["fieldRef"] == {
        "apiVersion": "v1",
        "fieldPath": "metadata.annotations['muster.dev/rank']",
    }
    assert told["NODE_RANK"] == {"name": "NODE_RANK", "value": "$(RANK)"}
