"""How things go: grace, finalizers, owners, namespaces."""

import pytest


def test_a_gated_pod_goes_at_once(kube, pod):
    kube.create(kube.pods, pod(gated=True))

    code, _ = kube.delete(f"{kube.pods}/a")

    assert (code, kube.is_there(f"{kube.pods}/a")) == (200, False)


def test_a_running_pod_is_given_its_grace_and_then_goes(kube, pod):
    kube.create(kube.pods, pod(terminationGracePeriodSeconds=20))
    kube.until_bound()
    kube.start()
    kube.until_phase("Running")

    code, leaving = kube.delete(f"{kube.pods}/a")

    assert code == 200
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 20
    assert leaving["metadata"]["deletionTimestamp"] > leaving["metadata"]["creationTimestamp"]
    kube.until_gone(f"{kube.pods}/a")


def test_a_running_pod_without_grace_goes_at_once(kube, pod):
    kube.create(kube.pods, pod())
    kube.until_bound()
    kube.start()
    kube.until_phase("Running")

    kube.delete(f"{kube.pods}/a", {"gracePeriodSeconds": 0})

    assert not kube.is_there(f"{kube.pods}/a")


def test_a_finished_pod_goes_at_once(kube, pod):
    kube.create(kube.pods, pod())
    kube.until_bound()
    kube.start()
    kube.until_phase("Running")
    kube.end()
    kube.until_phase("Succeeded")

    kube.delete(f"{kube.pods}/a")

    assert not kube.is_there(f"{kube.pods}/a")


def test_a_grace_may_be_made_shorter_and_not_longer(kube, pod):
    manifest = pod(terminationGracePeriodSeconds=300)
    manifest["metadata"]["annotations"] |= kube.provider.ignores_signals
    kube.create(kube.pods, manifest)
    kube.until_bound()
    kube.start()
    kube.until_phase("Running")

    told = [
        kube.delete(f"{kube.pods}/a", {"gracePeriodSeconds": seconds})[1]["metadata"][
            "deletionGracePeriodSeconds"
        ]
        for seconds in (100, 200, 50)
    ]

    kube.delete(f"{kube.pods}/a", {"gracePeriodSeconds": 0})
    assert told == [100, 100, 50]


def test_an_object_goes_when_the_last_finalizer_is_taken(kube):
    kube.create(kube.maps, {"metadata": {"name": "c", "finalizers": ["example.org/keep"]}})

    kube.delete(f"{kube.maps}/c")
    waiting = kube.get(f"{kube.maps}/c")
    added, _ = kube.patch(
        f"{kube.maps}/c", {"metadata": {"finalizers": ["example.org/keep", "example.org/b"]}}
    )
    kube.patch(f"{kube.maps}/c", {"metadata": {"finalizers": []}}, kind="merge")

    assert "deletionTimestamp" in waiting["metadata"]
    assert added == 422  # none may be added once it is leaving
    assert not kube.is_there(f"{kube.maps}/c")


def test_a_dependent_without_any_owner_left_is_collected(kube):
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "nobody"}]

    kube.create(kube.maps, {"metadata": {"name": "c", "ownerReferences": owners}})

    kube.until_gone(f"{kube.maps}/c")


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_a_deletion_with_another_in_mind_is_a_conflict(kube, field):
    kube.create(kube.maps, {"metadata": {"name": "c"}})

    code, status = kube.delete(f"{kube.maps}/c", {"preconditions": {field: "1"}})

    assert (code, status["reason"]) == (409, "Conflict")
    assert kube.is_there(f"{kube.maps}/c")


def test_a_deletion_with_the_right_one_in_mind_is_done(kube):
    made = kube.create(kube.maps, {"metadata": {"name": "c"}})
    meant = {field: made["metadata"][field] for field in ("uid", "resourceVersion")}

    code, _ = kube.delete(f"{kube.maps}/c", {"preconditions": meant})

    assert (code, kube.is_there(f"{kube.maps}/c")) == (200, False)


def test_what_is_gone_cannot_be_deleted_again(kube):
    code, status = kube.delete(f"{kube.maps}/none")

    assert (code, status["reason"]) == (404, "NotFound")


def test_a_collection_is_deleted_by_label(kube):
    for name, team in (("a", "x"), ("b", "y")):
        kube.create(kube.maps, {"metadata": {"name": name, "labels": {"team": team}}})

    kube.delete(kube.maps, labelSelector="team=x")

    assert (kube.is_there(f"{kube.maps}/a"), kube.is_there(f"{kube.maps}/b")) == (False, True)


def test_a_namespace_that_ends_takes_its_pods_along_and_lets_none_in(kube, pod):
    manifest = pod(gated=True)
    manifest["metadata"]["finalizers"] = ["example.org/keep"]
    kube.create(kube.pods, manifest)

    kube.delete(kube.home)
    ending = kube.get(kube.home)["status"]["phase"]
    code, status = kube.ask("POST", kube.pods, pod("b"))
    kube.until(lambda: "deletionTimestamp" in kube.pod()["metadata"])
    kube.patch(f"{kube.pods}/a", {"metadata": {"finalizers": None}}, kind="merge")

    assert (ending, code, status["reason"]) == ("Terminating", 403, "Forbidden")
    kube.until_gone(kube.home)


def test_pods_of_a_node_that_is_gone_are_told_to_end(kube, pod):
    name = f"{kube.namespace}-node"
    room = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    node = {"metadata": {"name": name}, "status": {"capacity": room, "allocatable": room}}
    kube.create("/api/v1/nodes", node)
    kube.create(kube.pods, pod(nodeName=name))

    code, _ = kube.delete(f"/api/v1/nodes/{name}")

    assert (code, kube.is_there(f"/api/v1/nodes/{name}")) == (200, False)
    assert kube.pod()["spec"]["nodeName"] == name  # for about a minute
    kube.delete(f"{kube.pods}/a", {"gracePeriodSeconds": 0})
