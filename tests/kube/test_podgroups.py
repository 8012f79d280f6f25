"""The groups by which a cluster's own scheduler binds gangs as one, as manifests."""

from topology.kube import podgroups
from topology.kube.manifest import gang_job
from topology.kube.values import GangSpec, PodGroupSpec


def gang(**changes):
    known = {"namespace": "muster-t", "job": "j-000001", "group": "main", "attempt": 2}
    return GangSpec(**(known | {"members": 2} | changes))


def test_pods_of_all_jobs_of_a_gang_name_one_group():
    jobs = [gang_job(gang(group=group, in_pod_group=True)) for group in ("main", "extra")]

    named = [job["spec"]["template"]["spec"]["schedulingGroup"] for job in jobs]
    assert named == [{"podGroupName": "muster-j-000001"}] * 2
    assert all(map(podgroups.is_named_by, jobs))


def test_pods_name_no_group_where_the_cluster_has_none():
    job = gang_job(gang())

    assert "schedulingGroup" not in job["spec"]["template"]["spec"]
    assert not podgroups.is_named_by(job)


def test_a_group_is_owned_by_the_jobs_and_has_the_priority_of_their_pods():
    spec = PodGroupSpec(
        namespace="muster-t",
        job="j-000001",
        attempt=2,
        least=3,
        owners={"j-000001-main": "u1", "j-000001-extra": "u2"},
        labels={"muster.dev/tenant": "t"},
        priority_class="muster-member",
    )

    made = podgroups.group(spec)

    assert made["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "priorityClassName": "muster-member",
    }
    assert made["metadata"]["name"] == podgroups.name_of("j-000001")
    assert made["metadata"]["labels"] == {"muster.dev/tenant": "t", "muster.dev/job": "j-000001"}
    assert [(own["kind"], own["uid"]) for own in made["metadata"]["ownerReferences"]] == [
        ("Job", "u1"),
        ("Job", "u2"),
    ]
    assert not any(own.get("controller") for own in made["metadata"]["ownerReferences"])
