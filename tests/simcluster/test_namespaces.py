"""Namespaces, owners and finalizers."""

NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/namespaces/team/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


def found(kube, path):
    return kube.ask("GET", path)[0] == 200


def test_a_namespace_comes_with_its_service_account(kube):
    kube.create(NAMESPACES, {"metadata": {"name": "team"}})

    assert kube.get(f"{NAMESPACES}/team")["status"] == {"phase": "Active"}
    assert found(kube, f"{NAMESPACES}/team/serviceaccounts/default")


def test_a_namespace_goes_when_its_pods_have_gone(kube, pod):
    kube.create(NAMESPACES, {"metadata": {"name": "team"}})
    kube.create(PODS, pod())
    kube.step(3)

    kube.ask("DELETE", f"{NAMESPACES}/team")
    ending = kube.get(f"{NAMESPACES}/team")["status"]["phase"]
    refused = kube.ask("POST", PODS, pod("b"))[0]
    kube.step(2)

    assert (ending, refused) == ("Terminating", 403)
    assert not found(kube, f"{NAMESPACES}/team")


def test_an_object_goes_when_the_last_finalizer_is_taken(kube):
    kube.create(MAPS, {"metadata": {"name": "c", "finalizers": ["example.org/keep"]}})

    kube.ask("DELETE", f"{MAPS}/c")
    waiting = found(kube, f"{MAPS}/c")
    kube.patch(f"{MAPS}/c", {"metadata": {"finalizers": []}}, kind="merge")

    assert (waiting, found(kube, f"{MAPS}/c")) == (True, False)


def test_a_dependent_without_any_owner_left_is_collected(kube):
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "nobody"}]

    kube.create(MAPS, {"metadata": {"name": "c", "ownerReferences": owners}})

    assert not found(kube, f"{MAPS}/c")


def test_a_deletion_with_another_uid_in_mind_is_a_conflict(kube):
    kube.create(MAPS, {"metadata": {"name": "c"}})

    code, status = kube.ask("DELETE", f"{MAPS}/c", {"preconditions": {"uid": "other"}})

    assert (code, status["reason"]) == (409, "Conflict")
    assert found(kube, f"{MAPS}/c")


def test_a_collection_is_deleted_by_label(kube):
    for name, team in (("a", "x"), ("b", "y")):
        kube.create(MAPS, {"metadata": {"name": name, "labels": {"team": team}}})

    kube.ask("DELETE", f"{MAPS}?labelSelector=team=x")

    assert (found(kube, f"{MAPS}/a"), found(kube, f"{MAPS}/b")) == (False, True)
