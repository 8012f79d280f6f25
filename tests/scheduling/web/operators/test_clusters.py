"""Connecting a cluster in the browser: to look only, then to be managed, and back."""

import re
from datetime import timedelta
from functools import partial

import pytest
import yaml

from portal.core.models import AuditEvent
from scheduling.services.connecting import ClusterWish, connect_cluster
from scheduling.states import JobState
from simcluster.kubeconfig import kubeconfig
from simcluster.testing import running_cluster
from tests.factories import ClusterCheckFactory, ClusterFactory, JobFactory, UserFactory
from tests.factories.topology import T0
from tests.scheduling.web.operators.test_policy import text_of
from tests.tenants.services.test_quota_races import at_once
from topology.models import Cluster

PAGE = "/admin/clusters/"
LAB = PAGE + "of/lab/"


@pytest.fixture(scope="module")
def running():
    with running_cluster("2xH100-SXM:8", frozen=True) as cluster:
        yield cluster


@pytest.fixture
def said(running, settings, tmp_path):
    """What the wizard's form sends for the running cluster, its kubeconfig pasted."""
    settings.DATA_DIR = tmp_path
    pasted = kubeconfig(running.url, running.token)
    return {"slug": "lab", "name": "The lab", "way": "pasted", "kubeconfig": pasted, "path": ""}


def version_of(running):
    return running.call("GET", "/api/v1/nodes")["metadata"]["resourceVersion"]


def test_the_wizard_shows_the_role_that_it_needs(as_root):
    page = as_root.get(PAGE + "connect/")

    role = next(yaml.safe_load_all(page.context["role"]))
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert "kind: ClusterRole" in text_of(page)


def test_a_pasted_kubeconfig_connects_to_look_only_and_writes_nothing(as_root, said, running):
    before = version_of(running)

    answer = as_root.post(PAGE + "connect/", said)

    row = Cluster.objects.get(slug="lab")
    page = as_root.get(LAB)
    assert (answer.status_code, answer["Location"]) == (302, LAB)
    assert (row.is_writable, row.check_seen.gpu_nodes, version_of(running)) == (False, 2, before)
    assert "connected to look only" in text_of(page)
    assert 'data-part="device_plugin" data-state="there"' in page.content.decode()


def test_a_token_that_cannot_be_sent_is_quoted_nowhere(as_root, said, running, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig(running.url, "hush-hush\r\nX-Other: 1"))

    answer = as_root.post(PAGE + "connect/", {**said, "way": "file", "path": str(path)})

    assert answer.status_code == 422
    assert "cannot be sent to a cluster" in text_of(answer)
    assert "hush-hush" not in text_of(answer)


@pytest.mark.django_db(transaction=True)
def test_of_two_forms_sent_at_once_one_connects_the_cluster(said):
    root = UserFactory(is_operator=True)
    connect = partial(connect_cluster, ClusterWish(**said), by=root, at=T0)

    came_to = at_once(connect, connect)

    assert [str(own) for own in came_to if own is not None] == ["Another cluster has that name."]
    assert Cluster.objects.get(slug="lab").check_seen.gpu_nodes == 2


def test_the_secret_is_in_no_row_no_page_and_no_audit_line(as_root, said, running, tmp_path):
    as_root.post(PAGE + "connect/", said)

    row = Cluster.objects.get(slug="lab")
    event = AuditEvent.objects.get(action="connect_cluster")
    pages = [as_root.get(path).content.decode() for path in (LAB, LAB + "renew/")]
    assert running.token in (tmp_path / "kubeconfigs" / "lab.json").read_text()
    assert row.kubeconfig_path == str(tmp_path / "kubeconfigs" / "lab.json")
    assert event.after == {
        "slug": "lab",
        "name": "The lab",
        "way": "pasted",
        "access": "look",
    }
    assert not any(running.token in page for page in pages)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"slug": "demo"}, "Another cluster has that name."),
        ({"slug": "Lab"}, "a letter first"),
        ({"kubeconfig": "nonsense: 1"}, "no context for its current"),
        ({"kubeconfig": kubeconfig("http://127.0.0.1:9", "t")}, "does not answer"),
        ({"way": "file", "path": "kube/config"}, "Give the whole path"),
        ({"way": "file", "path": "/nowhere/config"}, "cannot be read"),
        ({"way": "inside"}, "no way into the cluster"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_kept(as_root, said, tmp_path, changed, words):
    answer = as_root.post(PAGE + "connect/", said | changed)

    page = answer.content.decode()
    assert (answer.status_code, Cluster.objects.count()) == (422, 1)
    assert words in text_of(answer)
    assert "paste it again" in page
    assert said["kubeconfig"].strip() not in page
    assert [*tmp_path.rglob("*.json"), *tmp_path.rglob("*.draft")] == []


def test_a_wrong_token_is_refused_in_the_clusters_words(as_root, said, running):
    pasted = kubeconfig(running.url, "wrong")

    answer = as_root.post(PAGE + "connect/", said | {"kubeconfig": pasted})

    assert answer.status_code == 422
    assert "Unauthorized" in text_of(answer)


def test_a_cluster_that_hides_its_nodes_is_not_connected(as_root, said, running):
    running.fault("error", method="GET", path="^/api/v1/nodes", status=403, next=1)

    answer = as_root.post(PAGE + "connect/", said)

    assert (answer.status_code, Cluster.objects.filter(slug="lab").count()) == (422, 0)
    assert "It does not let us see its nodes" in text_of(answer)


def test_the_cluster_around_us_is_asked_by_a_worker(
    as_root, said, settings, sent, django_capture_on_commit_callbacks
):
    settings.IS_IN_A_CLUSTER = True

    with django_capture_on_commit_callbacks(execute=True):
        as_root.post(PAGE + "connect/", said | {"way": "inside", "kubeconfig": ""})

    row = Cluster.objects.get(slug="lab")
    assert (row.kubeconfig_path, row.is_writable) == ("", False)
    assert sent == [("topology.check_cluster", {"cluster_id": row.pk})]
    assert "has not been asked yet" in text_of(as_root.get(LAB))


def test_a_file_that_lies_on_the_machine_will_do(as_root, said, running, tmp_path):
    path = running.write_kubeconfig(tmp_path / "mounted")

    as_root.post(PAGE + "connect/", said | {"way": "file", "path": str(path), "kubeconfig": ""})

    row = Cluster.objects.get(slug="lab")
    assert row.kubeconfig_path == str(path)
    assert "was not pasted" in text_of(as_root.post(LAB + "renew/", said))


def test_a_kubeconfig_is_renewed_only_by_one_that_works(as_root, said, tmp_path, running):
    as_root.post(PAGE + "connect/", said)
    kept = tmp_path / "kubeconfigs" / "lab.json"
    before = kept.stat().st_ino

    failed = as_root.post(LAB + "renew/", {"kubeconfig": kubeconfig(running.url, "wrong")})
    unchanged = kept.stat().st_ino
    renewed = as_root.post(LAB + "renew/", {"kubeconfig": said["kubeconfig"]})

    assert (failed.status_code, unchanged) == (422, before)
    assert (renewed.status_code, kept.stat().st_ino == before) == (302, False)
    assert [event.action for event in AuditEvent.objects.order_by("-pk")] == [
        "renew_kubeconfig",
        "connect_cluster",
    ]


@pytest.fixture
def lab(scene):
    cluster = ClusterFactory(slug="lab", name="The lab", is_writable=False)
    ClusterCheckFactory(cluster=cluster)
    return cluster


def manage(client, **said):
    client.post(LAB + "access/", said)
    return Cluster.objects.get(slug="lab").is_writable


def test_a_cluster_that_grants_all_rights_is_managed_and_given_back(as_root, lab):
    managed, given_back = manage(as_root), manage(as_root, look="1")

    assert (managed, given_back) == (True, False)
    assert [event.action for event in AuditEvent.objects.order_by("pk")] == [
        "manage_cluster",
        "only_look_at",
    ]
    assert "Had it only looked at" in text_of(as_root.get(LAB))


def test_doing_it_twice_is_no_change(as_root, lab):
    manage(as_root)
    manage(as_root)

    assert AuditEvent.objects.count() == 1


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ({"lacks_to_manage": ["patch pods"]}, "1 right is missing: patch pods"),
        ({"lacks_to_look": ["list nodes"]}, "1 right is missing: list nodes"),
        ({"trouble": "the token has expired"}, "has not answered"),
    ],
)
def test_a_cluster_that_lacks_something_is_not_managed(as_root, lab, check, words):
    for name, value in check.items():
        setattr(lab.check_seen, name, value)
    lab.check_seen.save()

    answer = as_root.post(LAB + "access/", follow=True)

    assert words in text_of(answer)
    assert not Cluster.objects.get(slug="lab").is_writable


def test_the_missing_rights_and_the_role_stand_on_the_page(as_root, lab):
    lab.check_seen.lacks_to_manage = ["patch pods", "create jobs.batch"]
    lab.check_seen.save()

    page = text_of(as_root.get(LAB))

    assert "has to grant 2 rights more: patch pods create jobs.batch" in page
    assert "muster-manages" in page


def test_a_cluster_with_jobs_stays_managed(as_root, lab, scene):
    manage(as_root)
    JobFactory(cluster=lab, tenant=scene.language)

    answer = as_root.post(LAB + "access/", {"look": "1"}, follow=True)

    assert "1 job waits or runs there" in text_of(answer)
    assert Cluster.objects.get(slug="lab").is_writable


def test_jobs_that_are_over_are_no_reason(as_root, lab, scene):
    manage(as_root)
    JobFactory(cluster=lab, tenant=scene.language, state=JobState.SUCCEEDED)

    assert not manage(as_root, look="1")


def test_looking_again_asks_by_a_task(as_root, lab, sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        as_root.post(LAB + "look/")

    assert sent == [("topology.check_cluster", {"cluster_id": lab.pk})]


def test_the_page_is_fetched_again_only_when_it_has_changed(as_root, lab):
    first = as_root.get(LAB, headers={"HX-Request": "true"})
    asked = {"HX-Request": "true", "If-None-Match": first["ETag"]}
    same = as_root.get(LAB, headers=asked)
    lab.check_seen.checked_at += timedelta(hours=1)
    lab.check_seen.save()

    assert (same.status_code, as_root.get(LAB, headers=asked).status_code) == (304, 200)


@pytest.mark.parametrize("count", [1, 3])
def test_the_list_costs_the_same_for_any_number(as_root, scene, count, django_assert_num_queries):
    ClusterFactory.create_batch(count)

    with django_assert_num_queries(5):  # session, user, frame (2), the rows
        page = as_root.get(PAGE)

    demo = next(row for row in page.context["rows"] if row.slug == "demo")
    assert (demo.node_count, demo.gpu_count) == (12, 80)
    assert len(page.context["rows"]) == count + 1


@pytest.mark.parametrize("path", ["", "connect/", "of/lab/", "of/lab/renew/", "of/lab/helm/"])
def test_only_operators_come_here(as_person, lab, path):
    assert as_person("mei").get(PAGE + path).status_code == 403


@pytest.mark.parametrize("path", ["connect/", "of/lab/renew/", "of/lab/look/", "of/lab/access/"])
def test_only_operators_act_here(as_person, lab, path):
    assert as_person("mei").post(PAGE + path, {}).status_code == 403
    assert not Cluster.objects.get(slug="lab").is_writable


@pytest.fixture
def team(lab):
    """A namespace of a managed cluster in which a pod waits at the gate."""
    work = [{"kind": "pod", "name": "train", "state": "held", "gpus": 2}]
    check = lab.check_seen
    check.namespaces = [{"name": "team-a", "tenant": "", "kept": False, "work": work}]
    check.save()
    lab.is_writable = True
    lab.save()
    return LAB + "namespaces/team-a/"


def test_a_namespace_is_looked_at_taken_over_and_given_back(as_root, team, sent, scene):
    before = text_of(as_root.get(team))
    taken = text_of(as_root.post(team, {"tenant": "nlp"}, follow=True))
    listed = text_of(as_root.get(LAB))
    given_back = text_of(as_root.post(team + "return/", follow=True))

    assert "pod/train held at the gate 2" in before
    assert "is being taken over for Language" in taken
    assert "team-a Language 0 0 1" in listed
    assert "It is being given back by Language" in given_back


def test_a_namespace_is_not_taken_over_without_a_tenant_or_twice(as_root, team, scene):
    nobody = as_root.post(team, {"tenant": "none"})
    as_root.post(team, {"tenant": "nlp"})
    again = as_root.post(team, {"tenant": "vision"})

    assert (nobody.status_code, again.status_code) == (422, 422)
    assert "It has a tenant already" in text_of(again)


def test_in_a_cluster_to_look_at_nothing_is_taken_over(as_root, team):
    Cluster.objects.filter(slug="lab").update(is_writable=False)

    page = as_root.get(team)

    assert 'id="adopt"' not in page.content.decode()
    assert as_root.post(team, {"tenant": "nlp"}).status_code == 422


def test_what_is_no_namespace_is_not_there(as_root, team):
    assert as_root.get(LAB + "namespaces/other/").status_code == 404
    assert as_root.post(team + "return/").status_code == 404


@pytest.mark.parametrize("path", ["", "return/"])
def test_only_operators_see_and_change_namespaces(as_person, team, path):
    assert as_person("mei").post(team + path, {"tenant": "nlp"}).status_code == 403


def test_the_operators_values_fit_what_is_there(as_root, lab):
    lab.check_seen.parts = [
        {"key": "driver", "is_there": True, "versions": [], "nodes": 2},
        {"key": "toolkit", "is_there": False, "versions": [], "nodes": None},
    ]
    lab.check_seen.save()

    values = yaml.safe_load(as_root.get(LAB + "helm/").context["values"])

    assert (values["driver"]["enabled"], values["toolkit"]["enabled"]) == (False, True)
    assert values["mig"] == {"strategy": "mixed"}


def test_the_values_are_what_was_ticked_and_come_as_a_file(as_root, lab):
    asked = {"toolkit": "on", "rdma": "on", "mig_strategy": "none", "mig_default": "", "file": "1"}

    answer = as_root.get(LAB + "helm/", asked)

    values = yaml.safe_load(answer.content)
    assert answer["Content-Disposition"] == 'attachment; filename="gpu-operator-values.yaml"'
    assert values["driver"] == {
        "enabled": False,
        "rdma": {"enabled": True, "useHostMofed": False},
    }
    assert (values["toolkit"], values["migManager"]) == ({"enabled": True}, {"enabled": False})


@pytest.mark.parametrize(
    "wrong", [{"mig_strategy": "all"}, {"mig_strategy": "none", "mig_config_map": "a b\nc: d"}]
)
def test_values_that_cannot_be_are_not_written(as_root, lab, wrong):
    answer = as_root.get(LAB + "helm/", wrong)

    assert (answer.status_code, answer.context["values"]) == (422, "")
    assert re.search("thing to mend", text_of(answer))
