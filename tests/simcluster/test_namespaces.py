"""Namespaces come with what pods need, and go when these have gone."""

NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/namespaces/team/pods"


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
