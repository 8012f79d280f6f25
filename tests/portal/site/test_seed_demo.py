import json
import stat
from collections import Counter

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Sum
from django.utils import timezone

from portal.site.seed import FLAVORS, TENANTS
from scheduling.services import demo
from scheduling.simulation.trace import TraceFormat, read_trace
from tenants.models import (
    Cohort,
    Membership,
    PriorityClass,
    Quota,
    QuotaRequest,
    Role,
    Tenant,
    User,
)
from tenants.services.quota_decisions import Decider, Offer, approve_request
from tenants.states import RequestState
from tests.factories import NodeFactory
from topology.models import Cluster, ResourceFlavor

pytestmark = pytest.mark.django_db


@pytest.fixture
def data(settings, tmp_path):
    settings.DATA_DIR = tmp_path / "data"
    settings.SIMCLUSTER_URL = "http://127.0.0.1:6443"
    settings.SIMCLUSTER_TOKEN = "secret"
    return settings.DATA_DIR


def everything():
    people = (Tenant, Cohort, User, Membership, PriorityClass, Quota, QuotaRequest)
    models = (Cluster, ResourceFlavor, *people)
    return {model.__name__: list(model.objects.order_by("pk").values()) for model in models}


def test_seeding_twice_changes_nothing(data):
    call_command("seed_demo")
    before = everything()

    call_command("seed_demo")

    assert everything() == before
    assert {name: len(rows) for name, rows in before.items()} == {
        "Cluster": 1,
        "ResourceFlavor": 3,
        "Tenant": 4,
        "Cohort": 1,
        "User": 13,
        "Membership": 13,
        "PriorityClass": 4,
        "Quota": 7,
        "QuotaRequest": 1,
    }


def test_the_way_into_the_cluster_is_for_its_owner_alone_and_moves_with_it(data, settings):
    call_command("seed_demo")
    settings.SIMCLUSTER_URL = "http://127.0.0.1:7443"
    call_command("seed_demo")

    cluster = Cluster.objects.get()
    file = data / "simcluster.kubeconfig"
    said = json.loads(file.read_text())
    assert (cluster.slug, cluster.is_simulated, cluster.kubeconfig_path) == (
        "demo",
        True,
        str(file),
    )
    server = "http://muster:secret@127.0.0.1:7443"  # kubectl sends no other token over plain HTTP
    assert said["clusters"] == [{"name": "demo", "cluster": {"server": server}}]
    assert said["users"] == [{"name": "muster", "user": {"token": "secret"}}]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_nobody_has_a_password_and_one_person_is_operator(data):
    call_command("seed_demo")

    assert [user.username for user in User.objects.filter(is_operator=True)] == ["demo-operator"]
    assert not any(user.has_usable_password() for user in User.objects.all())


def test_every_tenant_of_the_trace_is_there_with_a_lead_and_room_for_its_widest_job(data):
    call_command("seed_demo")

    jobs = read_trace(demo.TRACE, TraceFormat.PHILLY).jobs
    for name, slug in demo.TENANTS.items():
        tenant = Tenant.objects.get(slug=slug)
        widest = max(job.gpus for job in jobs if job.tenant == name)
        assert tenant.memberships.filter(role=Role.LEAD).count() == 1
        assert max(tenant.quotas.values_list("nominal", flat=True)) >= widest
    assert set(demo.TENANTS.values()) == {tenant.slug for tenant in TENANTS}


def test_the_tenants_share_out_the_cluster_but_for_some_gpus_to_ask_for(data):
    call_command("seed_demo")

    guaranteed = Quota.objects.values("flavor__name").annotate(gpus=Sum("nominal"))

    assert Counter({row["flavor__name"]: row["gpus"] for row in guaranteed}) == {
        "H100-SXM": 6 * 8,
        "A100-80GB": 3 * 8,
        "L40S": 2 * 8 - 4,
    }
    assert set(Quota.objects.values_list("borrowing_limit", "lending_limit")) == {(None, None)}


def test_an_operator_finds_a_request_that_fits_what_is_left(data):
    call_command("seed_demo")
    flavor = ResourceFlavor.objects.get(name="L40S")
    NodeFactory.create_batch(2, cluster=flavor.cluster, flavor=flavor)
    asked = QuotaRequest.objects.get()
    decider = Decider(by=User.objects.get(is_operator=True), at=timezone.now())
    days = {"starts_on": asked.starts_on, "ends_on": asked.ends_on}

    approve_request(asked, Offer(flavor=flavor, gpus=asked.gpus, **days), decider)

    asked.refresh_from_db()
    assert asked.state == RequestState.ACTIVE
    assert Quota.objects.get(tenant__slug="speech", flavor=flavor).nominal == 4 + 4


def test_a_flavor_that_the_first_node_brought_is_used_under_its_own_name(data):
    call_command("seed_demo")
    Quota.objects.all().delete()
    ResourceFlavor.objects.filter(name="L40S").update(name="nvidia-l40s")

    call_command("seed_demo")

    assert ResourceFlavor.objects.count() == len(FLAVORS)
    assert Quota.objects.filter(flavor__name="nvidia-l40s").count() == 2


def test_what_an_operator_changed_stays_changed(data):
    call_command("seed_demo")
    Quota.objects.filter(tenant__slug="nlp", flavor__name="H100-SXM").update(nominal=40)
    Cluster.objects.update(name="Ours")

    call_command("seed_demo")

    assert Quota.objects.get(tenant__slug="nlp", flavor__name="H100-SXM").nominal == 40
    assert Cluster.objects.get().name == "Ours"


def test_without_a_simulated_cluster_it_says_what_is_missing(settings):
    settings.SIMCLUSTER_URL = ""

    with pytest.raises(CommandError, match="Set MUSTER_SIMCLUSTER_URL"):
        call_command("seed_demo")
