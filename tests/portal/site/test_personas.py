"""The demo's door without a password: there in the demo, and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone

from portal.core.models import AuditEvent
from portal.site.personas import PERSONAS
from portal.site.seed import LEAD, seed
from tenants.models import Role, User
from tests.factories import ClusterFactory, UserFactory

pytestmark = pytest.mark.django_db

ACT_AS = "/demo/act-as/"


@pytest.fixture
def demo(settings):
    settings.IS_DEMO = True
    seed(Path("kubeconfig"), at=timezone.now())


def become(client, persona, **more):
    return client.post(ACT_AS, {"persona": persona}, **more)


def who(client):
    return client.get("/").context["user"].get_username()


@pytest.mark.parametrize("persona", PERSONAS, ids=lambda persona: persona.key)
def test_one_click_signs_in_as_each_of_them(client, demo, persona):
    page = client.get("/sign-in/").content.decode()
    assert f'value="{persona.key}"' in page

    answer = become(client, persona.key)

    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert who(client) == persona.username
    event = AuditEvent.objects.get(action="act_as_persona")
    assert event.actor.username == persona.username


def test_home_offers_the_others(client, demo):
    become(client, "lead")

    page = client.get("/").content.decode()
    become(client, "operator")

    assert 'value="lead" disabled' in page
    assert 'value="operator">' in page
    assert who(client) == "demo-operator"


def test_each_of_them_sees_what_their_role_does(demo):
    roles = {
        persona.key: {
            (own.tenant.slug, own.role)
            for own in User.objects.get(username=persona.username).memberships.all()
        }
        for persona in PERSONAS
    }

    assert roles == {
        "operator": set(),
        "lead": {("nlp", Role.LEAD)},
        "researcher": {("nlp", Role.RESEARCHER)},
        "pi": {("nlp", Role.VIEWER), ("vision", Role.VIEWER)},
    }


def is_closed(client, **more):
    pages = client.get("/sign-in/", **more), client.get("/", follow=True, **more)
    assert not any(b'id="personas"' in page.content for page in pages)
    answers = {become(client, persona.key, **more).status_code for persona in PERSONAS}
    return answers | {client.get(ACT_AS, **more).status_code} == {404}


def test_where_it_is_no_demo_there_is_no_such_door(client, demo, settings):
    settings.IS_DEMO = False

    assert is_closed(client)


def test_a_cluster_that_is_real_closes_it(client, demo):
    ClusterFactory(is_simulated=False)

    assert is_closed(client)


@pytest.mark.parametrize(
    "more", [{"REMOTE_ADDR": "10.0.0.7"}, {"HTTP_X_FORWARDED_FOR": "10.0.0.7"}]
)
def test_it_is_closed_to_other_machines(client, demo, more):
    assert is_closed(client, **more)


def test_who_came_from_another_machine_as_one_of_them_may_be_the_others(client, demo):
    client.force_login(User.objects.get(username="demo-operator"))

    assert become(client, "lead", REMOTE_ADDR="10.0.0.7").status_code == 302
    assert who(client) == LEAD


def test_others_from_another_machine_may_not(client, demo):
    client.force_login(UserFactory())

    assert become(client, "operator", REMOTE_ADDR="10.0.0.7").status_code == 404


@pytest.mark.parametrize("change", ["password", "inactive"])
def test_who_has_a_password_or_has_left_is_nobody_to_be(client, demo, change):
    user = User.objects.get(username="demo-operator")
    if change == "password":
        user.set_password("their own secret")
    else:
        user.is_active = False
    user.save()

    assert become(client, "operator").status_code == 404
    assert become(client, "lead").status_code == 302


def test_nobody_else_is_offered(client, demo):
    assert become(client, "aisha-bello").status_code == 404
    assert client.get(ACT_AS).status_code == 405


def test_what_a_real_deployment_is_told_never_opens_it():
    """Its settings take no word of the environment for it."""
    told = {
        "MUSTER_SIMCLUSTER_URL": "http://127.0.0.1:6443",
        "MUSTER_SECRET_KEY": "x" * 60,
        "MUSTER_IS_DEMO": "true",
    }
    asked = "from portal.settings import dev, prod; print(dev.IS_DEMO, prod.IS_DEMO)"

    said = subprocess.run(
        [sys.executable, "-c", asked],
        env=os.environ | told,
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout.split() == ["True", "False"]
