"""The chart, and that kustomize's manifests are the same: Helm and kubectl are the real ones."""

import itertools
import subprocess
import sys

import pytest

from tests.kube.install.rendering import CHART, DEPLOY, NAMES, objects

pytestmark = pytest.mark.kube

PROGRAMS = ("web", "worker", "beat", "watcher")


@pytest.mark.parametrize("name", NAMES)
def test_helm_finds_nothing_to_complain_of(helm, name):
    done = helm.run("lint", CHART, "--strict", "--values", CHART / "ci" / f"{name}-values.yaml")

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_the_chart_and_the_overlay_of_one_name_are_the_same(helm, kustomize, name):
    by_kustomize = by_name(kustomize(name))
    namespace = by_kustomize.pop(("Namespace", "muster"))

    assert in_order(by_name(helm.rendered(name))) == in_order(by_kustomize)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def by_name(found):
    named = {(obj["kind"], obj["metadata"]["name"]): obj for obj in found}
    assert len(named) == len(found)
    return named


def in_order(value):
    """The same with lists of named things sorted: kustomize puts what it adds first."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in value.items()}
    if isinstance(value, list):
        found = [in_order(each) for each in value]
        is_named = all(isinstance(each, dict) and "name" in each for each in found)
        return sorted(found, key=lambda each: each["name"]) if is_named else found
    return value


def test_what_is_generated_is_as_it_would_be_made_now(helm, tmp_path):
    tool = DEPLOY.parent / "tools" / "manifests"
    subprocess.run(
        [sys.executable, tool, "--helm", helm.program, "--to", tmp_path],
        check=True,
        capture_output=True,
        timeout=120,
    )

    assert files_in(tmp_path) == {
        path: text for path, text in files_in(DEPLOY).items() if path in files_in(tmp_path)
    }
    assert {path.parent for path in files_in(DEPLOY)} > {path.parent for path in files_in(tmp_path)}


def files_in(folder):
    return {path.relative_to(folder): path.read_text() for path in folder.rglob("*.yaml")}


@pytest.mark.parametrize(
    ("folder", "before"),
    [("base", "namespace.yaml"), ("overlays/webhooks", "../../base")],
)
def test_every_file_that_is_generated_is_listed(folder, before):
    home = DEPLOY / "kustomize" / folder
    [listed] = objects((home / "kustomization.yaml").read_text())
    generated = sorted(f"chart/{path.name}" for path in (home / "chart").iterdir())

    assert listed["resources"] == [before, *generated]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ("access=everything", "/access"),
        ("replicas=3", "replicas"),
        ("web.replicas=0", "/web/replicas"),
        ("secrets.database.key=", "/secrets/database/key"),
        ("image.digest=latest", "/image/digest"),
        ("admission=webhooks", "webhooks.caBundle"),
    ],
)
def test_values_that_mean_nothing_are_refused(helm, values, complaint):
    done = helm.run("template", "muster", CHART, "--set", values)

    assert done.returncode != 0
    assert complaint in done.stderr


def test_another_name_and_namespace_are_said_everywhere(helm):
    found = helm.template(release="blue", namespace="gpus")

    spaces = {obj["metadata"].get("namespace", "gpus") for obj in found}
    subjects = [s for obj in found for s in obj.get("subjects", [])]
    policies = [obj["spec"] for obj in found if obj["kind"] == "ValidatingAdmissionPolicy"]
    ours = [
        v["expression"] for spec in policies for v in spec["variables"] if v["name"] == "isMuster"
    ]
    assert spaces == {"gpus"}
    assert {subject["namespace"] for subject in subjects} == {"gpus"}
    assert set(ours) == {"request.userInfo.username in ['system:serviceaccount:gpus:blue-worker']"}
    assert len(ours) == len(policies) - 1  # that of the agents asks for agents only


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_is_made_and_each_is_only_referred_to(helm, name):
    found = helm.rendered(name)

    assert [obj for obj in found if obj["kind"] == "Secret"] == []
    for container in containers_of(found, but=("agent", "admission")):
        said = {env["name"]: env for env in container["env"]}
        for variable in ("MUSTER_SECRET_KEY", "DATABASE_URL", "REDIS_URL"):
            assert list(said[variable]["valueFrom"]) == ["secretKeyRef"]


def templates_of(found):
    """The pods of each workload, by its component."""
    return {
        obj["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: obj["spec"][
            "template"
        ]["spec"]
        for obj in found
        if "template" in obj.get("spec", {})
    }


def containers_of(found, *, but=()):
    pods = [pod for name, pod in templates_of(found).items() if name not in but]
    return list(
        itertools.chain(*(pod["containers"] + pod.get("initContainers", []) for pod in pods))
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_container_has_nothing_that_it_does_not_need(helm, name):
    found = helm.rendered(name)

    for container in containers_of(found):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
    for pod in templates_of(found).values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert [v for v in pod["volumes"] if "hostPath" in v] == []


def test_only_who_speaks_to_the_cluster_has_a_token(helm):
    pods = templates_of(helm.rendered("full"))

    tokens = {name for name, pod in pods.items() if pod["automountServiceAccountToken"]}
    assert tokens == {"web", "worker", "watcher", "agent"}


def test_there_is_one_beat_and_never_two(helm):
    [beat] = [
        obj
        for obj in helm.template("--set", "worker.replicas=9")
        if obj["kind"] == "Deployment" and obj["metadata"]["name"] == "muster-beat"
    ]

    assert beat["spec"]["replicas"] == 1
    assert beat["spec"]["strategy"] == {"type": "Recreate"}


def test_tables_are_changed_before_the_roll_out_and_others_wait_for_it(helm):
    found = helm.rendered("full")
    [job] = [obj for obj in found if obj["kind"] == "Job"]
    pods = templates_of(found)

    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    waiting = {name: pods[name]["initContainers"][0]["command"][1:] for name in PROGRAMS[1:]}
    assert set(map(tuple, waiting.values())) == {("manage.py", "migrate", "--check")}
    assert pods["web"]["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_every_program_of_the_portal_is_probed(helm):
    pods = templates_of(helm.rendered("full"))

    assert [name for name in PROGRAMS if "livenessProbe" not in pods[name]["containers"][0]] == []


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ("access=none", {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}),
        ("admission=none", {"PriorityClass", "ValidatingAdmissionPolicy"}),
        ("access=none,agent.enabled=false", set()),
    ],
)
def test_what_is_made_for_the_cluster_is_as_little_as_asked_for(helm, values, kinds):
    found = helm.template("--set", values)
    policies = [obj for obj in found if obj["kind"] == "ValidatingAdmissionPolicy"]

    cluster_wide = {obj["kind"] for obj in found if "namespace" not in obj["metadata"]}
    assert cluster_wide - {"ClusterRole", "ClusterRoleBinding"} >= kinds
    assert [obj["metadata"]["name"] for obj in policies] in ([], ["muster-agents"])


def test_webhooks_lead_to_the_process_that_answers_them(helm):
    found = helm.template("--set", "admission=webhooks,webhooks.caBundle=Q0E=", release="blue")
    configurations = [obj for obj in found if obj["kind"].endswith("WebhookConfiguration")]
    [service] = [
        obj
        for obj in found
        if obj["kind"] == "Service" and obj["metadata"]["name"] == "blue-admission"
    ]

    webhooks = [webhook for obj in configurations for webhook in obj["webhooks"]]
    ways = [dict(webhook["clientConfig"]) for webhook in webhooks]
    assert {way.pop("caBundle") for way in ways} == {"Q0E="}
    assert {(way["service"]["name"], way["service"]["namespace"]) for way in ways} == {
        ("blue-admission", "muster")
    }
    assert [port["port"] for port in service["spec"]["ports"]] == [443]
    assert {webhook["failurePolicy"] for webhook in webhooks} == {"Fail"}
    everywhere = [webhook for webhook in webhooks if "namespaceSelector" not in webhook]
    assert {webhook["rules"][0]["resources"][0] for webhook in everywhere} == {
        "namespaces",
    }
