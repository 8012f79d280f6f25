"""What a tenant has in a cluster, against simcluster."""

import pytest
import yaml
from django.core.management import CommandError, call_command

from portal.core.models import AuditEvent
from simcluster.testing import running_cluster
from tenants import tasks
from tenants.models import Tenancy
from tenants.services.quota import QuotaAmounts, set_quota
from tenants.services.tenancy import (
    keep_tenancies,
    keep_tenancy,
    prepare_tenancy,
    tenancy_spec,
)
from tests.factories import (
    ClusterFactory,
    FlavorFactory,
    QuotaFactory,
    TenancyFactory,
    TenantFactory,
    UserFactory,
)
from topology.kube.gateway import RefusedByCluster
from topology.kube.live import connect
from topology.kube.wire import MERGE_PATCH, Request

pytestmark = pytest.mark.django_db

QUOTA = "/api/v1/namespaces/muster-nlp/resourcequotas/muster"
NETWORK = "/apis/networking.k8s.io/v1/namespaces/muster-nlp/networkpolicies/muster-closed"
HARD = "requests.nvidia.com/gpu"


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with running_cluster("1xH100-SXM:8", frozen=True) as simulated:
        yield str(simulated.write_kubeconfig(tmp_path_factory.mktemp("sim") / "kubeconfig"))


@pytest.fixture
def cluster(kubeconfig):
    return ClusterFactory(kubeconfig_path=kubeconfig)


@pytest.fixture
def gateway(cluster):
    """To the cluster, in which tenant nlp has nothing when the test begins."""
    gateway = connect(cluster.kubeconfig_path)
    yield gateway
    gateway.wire.ask(Request(method="DELETE", path="/api/v1/namespaces/muster-nlp"))


@pytest.fixture
def tenant(cluster):
    tenant = TenantFactory(slug="nlp")
    QuotaFactory(tenant=tenant, flavor=FlavorFactory(cluster=cluster), nominal=8, borrowing_limit=4)
    return tenant


def ask(gateway, method, path, body=None):
    return gateway.wire.ask(Request(method=method, path=path, body=body, kind=MERGE_PATCH))


def hard(gateway):
    return ask(gateway, "GET", QUOTA)["spec"]["hard"]


def raise_quota(gateway):
    ask(gateway, "PATCH", QUOTA, {"spec": {"hard": {HARD: "99"}}})


def test_what_is_made_for_the_first_time_has_not_drifted(tenant, cluster, gateway):
    tenancy = keep_tenancy(tenant, cluster, gateway)

    assert (tenancy.drift, tenancy.mended, tenancy.refusal) == ([], [], "")
    assert hard(gateway) == {HARD: "12"}
    assert gateway.tenancy_drift(tenancy_spec(tenant, cluster)) == ()


def test_doing_it_twice_changes_nothing(tenant, cluster, gateway):
    keep_tenancy(tenant, cluster, gateway)
    before = ask(gateway, "GET", QUOTA)["metadata"]["resourceVersion"]

    keep_tenancy(tenant, cluster, gateway)

    assert ask(gateway, "GET", QUOTA)["metadata"]["resourceVersion"] == before
    assert Tenancy.objects.count() == 1
    assert AuditEvent.objects.filter(action="keep_tenancy").count() == 1


def test_what_somebody_changed_is_put_right_and_noted(tenant, cluster, gateway):
    keep_tenancy(tenant, cluster, gateway)
    raise_quota(gateway)
    ask(gateway, "DELETE", NETWORK)

    tenancy = keep_tenancy(tenant, cluster, gateway)

    assert tenancy.mended == [f"ResourceQuota muster: spec.hard.{HARD}", _MISSING]
    assert tenancy.mended_at == tenancy.checked_at
    assert (tenancy.drift, hard(gateway)) == ([], {HARD: "12"})
    assert AuditEvent.objects.last().before == {"drift": tenancy.mended}


_MISSING = "NetworkPolicy muster-closed: missing"


def test_what_was_put_right_stays_on_record(tenant, cluster, gateway):
    keep_tenancy(tenant, cluster, gateway)
    ask(gateway, "DELETE", NETWORK)
    mended = keep_tenancy(tenant, cluster, gateway)

    later = keep_tenancy(tenant, cluster, gateway)

    assert (later.mended, later.mended_at) == ([_MISSING], mended.mended_at)


def test_what_others_add_stays(tenant, cluster, gateway):
    keep_tenancy(tenant, cluster, gateway)
    label = {"metadata": {"labels": {"billing": "7"}}}
    ask(gateway, "PATCH", "/api/v1/namespaces/muster-nlp", label)

    assert keep_tenancy(tenant, cluster, gateway).drift == []

    labels = ask(gateway, "GET", "/api/v1/namespaces/muster-nlp")["metadata"]["labels"]
    assert labels["billing"] == "7"


def test_a_cluster_to_look_at_is_only_looked_at(tenant, cluster, gateway):
    keep_tenancy(tenant, cluster, gateway)
    raise_quota(gateway)
    cluster.is_writable = False

    tenancy = keep_tenancy(tenant, cluster, gateway)

    assert (tenancy.drift, tenancy.mended, tenancy.refusal) == ([], [], "")
    assert ("muster-gate" in tenancy.unguarded, hard(gateway)) == (True, {HARD: "99"})


def test_policies_that_the_cluster_lacks_are_named(tenant, cluster, gateway):
    before = keep_tenancy(tenant, cluster, gateway).unguarded
    call_command("cluster_objects", "--account", "muster", "--apply", cluster.slug)
    after = keep_tenancy(tenant, cluster, gateway).unguarded

    assert ("muster-gate" in before, after) == (True, [])


def test_the_wall_is_what_all_models_together_allow(tenant, cluster):
    more = QuotaFactory(
        tenant=tenant, flavor=FlavorFactory(cluster=cluster), nominal=2, borrowing_limit=0
    )
    limited = tenancy_spec(tenant, cluster).gpus
    more.borrowing_limit = None
    more.save()

    assert (limited, tenancy_spec(tenant, cluster).gpus) == (14, None)


def test_of_a_model_without_quota_a_tenant_may_borrow(tenant, cluster):
    FlavorFactory(cluster=cluster)

    assert tenancy_spec(tenant, cluster).gpus is None


def test_a_wall_that_goes_is_taken_out_of_the_cluster(tenant, cluster, gateway):
    keep_tenancy(tenant, cluster, gateway)
    FlavorFactory(cluster=cluster)

    keep_tenancy(tenant, cluster, gateway)

    assert hard(gateway) == {}


def test_every_tenant_with_access_is_looked_after_and_no_other(tenant, cluster, gateway):
    TenantFactory(slug="stranger")
    elsewhere = TenancyFactory().tenant

    keep_tenancies(cluster, gateway)

    assert [t.tenant for t in Tenancy.objects.filter(cluster=cluster)] == [tenant]
    assert elsewhere.tenancies.count() == 1


def test_a_cluster_that_is_ready_for_a_tenant_is_left_alone(tenant, cluster, gateway):
    prepare_tenancy(tenant, cluster, gateway)
    raise_quota(gateway)

    prepare_tenancy(tenant, cluster, gateway)

    assert hard(gateway) == {HARD: "99"}


class Refusing:
    """A gateway that may not make namespaces."""

    def __init__(self, gateway):
        self._gateway = gateway

    def __getattr__(self, name):
        return getattr(self._gateway, name)

    def keep_tenancy(self, spec):
        raise RefusedByCluster("Namespace muster-nlp: forbidden")


def test_what_the_cluster_refuses_is_said(tenant, cluster, gateway):
    keep_tenancy(tenant, cluster, gateway)
    ask(gateway, "DELETE", NETWORK)

    tenancy = keep_tenancy(tenant, cluster, Refusing(gateway))

    assert (tenancy.drift, tenancy.refusal) == ([_MISSING], "Namespace muster-nlp: forbidden")


def test_a_tenant_that_cannot_be_made_room_for_runs_nothing(tenant, cluster, gateway):
    gateway.keep_tenancy(tenancy_spec(tenant, cluster))
    ask(gateway, "PATCH", "/api/v1/namespaces/muster-nlp", _UNKEPT)

    with pytest.raises(RefusedByCluster, match="forbidden"):
        prepare_tenancy(tenant, cluster, Refusing(gateway))


_UNKEPT = {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}


def test_quota_gives_access(tenant, cluster, gateway, sent, django_capture_on_commit_callbacks):
    flavor = tenant.quotas.get().flavor
    with django_capture_on_commit_callbacks(execute=True):
        set_quota(QuotaAmounts(3, 0), tenant=tenant, flavor=flavor, by=_operator())
    [arguments] = [arguments for name, arguments in sent if name == "tenants.keep_tenancy"]

    tasks.keep_tenancy(**arguments)

    assert hard(gateway) == {HARD: "3"}


def test_the_beat_puts_right_what_drifted(tenant, cluster, gateway):
    tasks.keep_tenancies()
    raise_quota(gateway)
    tasks.keep_tenancies()

    assert hard(gateway) == {HARD: "12"}


def test_a_cluster_that_is_away_is_kept_later(tenant, cluster):
    cluster.kubeconfig_path = "/nowhere"
    cluster.save()

    tasks.keep_tenancy(tenant_id=tenant.pk, cluster_id=cluster.pk)
    tasks.keep_tenancies()

    assert Tenancy.objects.count() == 0


def _operator():
    return UserFactory(is_operator=True)


def printed(capsys, *command):
    call_command(*command)
    return [(obj["kind"], obj["metadata"]["name"]) for obj in yaml.safe_load_all(_out(capsys))]


def _out(capsys):
    return capsys.readouterr().out


def test_a_tenants_objects_are_printed(tenant, cluster, capsys):
    assert printed(capsys, "tenant_objects", cluster.slug) == [
        ("Namespace", "muster-nlp"),
        ("ResourceQuota", "muster"),
        ("LimitRange", "muster"),
        ("NetworkPolicy", "muster-closed"),
        ("NetworkPolicy", "muster-gangs"),
        ("ServiceAccount", "muster-tenant"),
        ("RoleBinding", "muster-tenant"),
    ]


def test_what_all_tenants_share_is_printed(capsys):
    found = printed(capsys, "cluster_objects", "--account", "muster")

    assert found[:6] == [
        ("PriorityClass", "muster-member"),
        ("PriorityClass", "muster-standby"),
        ("PriorityClass", "muster-part"),
        ("ClusterRole", "muster-tenant"),
        ("MutatingAdmissionPolicy", "muster-gate"),
        ("MutatingAdmissionPolicyBinding", "muster-gate"),
    ]


def test_webhooks_are_printed_for_a_cluster_without_policies(capsys, tmp_path):
    ca = tmp_path / "ca.crt"
    ca.write_text("a certificate")
    asked = ("--account", "muster", "--webhooks", "muster/answers", "--ca", str(ca))

    found = printed(capsys, "cluster_objects", *asked)

    assert found[4:6] == [
        ("MutatingWebhookConfiguration", "muster-gate"),
        ("ValidatingWebhookConfiguration", "muster-pods"),
    ]
    assert len(found) == 16


ASKED = ("cluster_objects", "--account", "a")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("tenant_objects", "none"), "there is no cluster none"),
        ((*ASKED, "--apply", "none"), "there is no cluster none"),
        ((*ASKED, "--webhooks", "muster/answers"), "with --ca"),
        ((*ASKED, "--webhooks", "answers", "--ca", "/dev/null"), "say NAMESPACE/SERVICE"),
        ((*ASKED, "--webhooks", "a/b", "--ca", "/dev/null/none"), "cannot be read"),
    ],
)
def test_what_cannot_be_installed_says_why(command, said):
    with pytest.raises(CommandError, match=said):
        call_command(*command)
