"""What a real API server says of the manifests, asked to be strict."""

import pytest

from tests.kube.install.installed import HOME, namespaces
from tests.kube.install.rendering import DEPLOY, NAMES
from tests.kube.polling import eventually

pytestmark = pytest.mark.kube

TEXT = {"type": "string"}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "monitoring.coreos.com"


def thing(**properties):
    return {"type": "object", "properties": properties}


# What we use of the definition that Prometheus' operator brings.
LABELS = {"type": "object", "additionalProperties": TEXT}
ENDPOINT = thing(
    port=TEXT,
    path=TEXT,
    interval=TEXT,
    authorization=thing(credentials=thing(name=TEXT, key=TEXT)),
)
SPEC = thing(selector=thing(matchLabels=LABELS), endpoints={"type": "array", "items": ENDPOINT})
SERVICE_MONITORS = {
    "metadata": {"name": f"servicemonitors.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"kind": "ServiceMonitor", "plural": "servicemonitors"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": thing(spec=SPEC)},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def cluster(control_plane):
    """With Prometheus' operator, and the namespaces; nothing else is really made."""
    api = control_plane.api
    api.create(DEFINITIONS, SERVICE_MONITORS)
    monitors = f"/apis/{GROUP}/v1/servicemonitors"
    eventually(lambda: api.ask("GET", monitors)[0] == 200, within=60)
    told = ("api-resources", "--api-group", GROUP, "--output", "name", "--cached=false")
    eventually(lambda: "servicemonitors" in control_plane.kubectl(*told), within=60)
    with namespaces(control_plane):
        yield control_plane
    api.delete(f"{DEFINITIONS}/servicemonitors.{GROUP}")


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_the_manifests_is_known(cluster, kustomize, name):
    overlay = DEPLOY / "kustomize" / "overlays" / name

    said = cluster.kubectl(
        "apply", "--server-side", "--validate=strict", "--dry-run=server", "-k", str(overlay)
    )

    assert len(said.splitlines()) == len(kustomize(name))


def test_a_field_that_is_not_known_would_be_refused(cluster, kustomize):
    wrong = next(obj for obj in kustomize("full") if obj["kind"] == "ServiceMonitor")
    wrong["spec"]["endpoints"][0]["intervall"] = "30s"
    path = f"/apis/{GROUP}/v1/namespaces/muster/servicemonitors"

    code, said = cluster.api.ask("POST", path, wrong, dryRun="All", fieldValidation="Strict")

    assert (code, "intervall" in said["message"]) == (400, True)


@pytest.mark.parametrize("name", NAMES)
def test_pods_are_within_what_the_namespace_allows(cluster, kustomize, name):
    """That of the overlay enforces Kubernetes' strictest level."""
    found = kustomize(name)
    [restricted] = [obj for obj in found if obj["kind"] == "Namespace"]
    assert cluster.api.patch(HOME, restricted, kind="merge")[0] == 200
    pods = [obj["spec"]["template"] for obj in found if "template" in obj.get("spec", {})]

    for pod in pods:
        pod["spec"] |= {"restartPolicy": "Never", "serviceAccountName": "default"}
        pod["spec"].pop("runtimeClassName", "")  # is the cluster's to have
        named = {**pod, "metadata": {**pod["metadata"], "name": "a"}}
        cluster.api.create(f"{HOME}/pods", named, dryRun="All", fieldValidation="Strict")
    loose = {**named, "spec": {**named["spec"], "hostNetwork": True}}
    assert cluster.api.ask("POST", f"{HOME}/pods", loose, dryRun="All")[0] == 403
    assert len(pods) >= 5
