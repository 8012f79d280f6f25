"""Home by role, signing in and out, preferences, pages for errors, and rules for all pages."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.test import Client
from django.utils import timezone

from tenants.models import Role
from tenants.services.sign_in import make_sign_in_link
from tenants.web.sign_in import DEMO
from tests.factories import (
    ClusterFactory,
    JobFactory,
    LayoutVersionFactory,
    MembershipFactory,
    NodeChangeFactory,
    UserFactory,
)
from tests.scene import PASSWORD, add_requests, make_scene
from topology.models import Cluster
from topology.states import Step

ROOT = Path(settings.BASE_DIR)
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))


@pytest.fixture
def scene(db):
    return make_scene()


def says(response, name):
    """The text of the element with that id."""
    found = re.search(rf'id="{name}"[^>]*>(.*?)</p>', response.content.decode(), re.DOTALL)
    return re.sub(r"<[^>]+>", "", found.group(1)).strip()


def test_home_tells_a_researcher_how_their_jobs_stand(client, scene):
    client.force_login(scene.omar)

    response = client.get("/")

    assert says(response, "home-says") == "On GPUs: 2 of your jobs. Waiting: 3."


def test_home_tells_a_lead_which_tenant_is_theirs(client, scene):
    client.force_login(scene.mei)

    page = client.get("/").content

    assert b"You lead Language." in page
    assert b'href="/quota/requests/new/?tenant=nlp"' in page


def test_home_tells_an_operator_how_the_cluster_is(client, scene):
    client.force_login(scene.root)

    response = client.get("/")

    assert says(response, "home-says") == (
        "63 of 80 GPUs are serving. Out of service: 17. 4 jobs wait."
    )


def todo(response):
    """What the operator's home lights, and where its first link leads."""
    page = response.content.decode()
    cards = re.findall(r'data-todo="(\w+)">.*?<a class="name" href="([^"]+)"', page, re.DOTALL)
    return dict(cards)


def test_home_lights_for_an_operator_what_needs_them(client, scene):
    requests = add_requests(scene)
    version = LayoutVersionFactory(
        layout__cluster=scene.cluster, layout__gpu_model="A100-80GB", cuts=[{"3g.40gb": 2}] * 8
    )
    NodeChangeFactory(rollout__version=version, node=scene.nodes[4], step=Step.VERIFIED)
    client.force_login(scene.root)

    lit = todo(client.get("/"))

    first = requests["submitted"].pk
    assert lit["request"] == f"/quota/requests/{first}/"
    assert lit["layout"] == f"/cluster/nodes/{scene.nodes[4].name}/"
    head = client.get("/").context["head"][0]
    assert lit["job"] == f"/jobs/{head.row.job.public_id}/"


@pytest.mark.django_db
def test_home_lights_nothing_where_nothing_needs_an_operator(client):
    client.force_login(UserFactory(is_operator=True))

    assert b'id="todo"' not in client.get("/").content


def test_home_tells_a_newcomer_what_to_do(client, scene):
    client.force_login(scene.newcomer)

    response = client.get("/")

    assert says(response, "home-says") == (
        "You are not in a tenant yet. Ask a lead or an operator to add you."
    )


@pytest.mark.django_db
@pytest.mark.parametrize("count", [1, 3])
def test_home_costs_the_same_for_any_number_of_jobs_and_tenants(
    client, count, django_assert_num_queries
):
    member = MembershipFactory()
    MembershipFactory.create_batch(count, user=member.user)
    JobFactory.create_batch(count, tenant=member.tenant, owner=member.user)
    client.force_login(member.user)

    # session, user, two of the frame; tenants, roles; counts, jobs, groups; used, quotas; flavors,
    # jobs, and the two ends of the one instant that all of it is read at
    with django_assert_num_queries(15):
        client.get("/")


def test_a_password_signs_in_and_a_post_signs_out(client, scene):
    wrong = client.post("/sign-in/", {"username": "omar", "password": "not it"})
    right = client.post("/sign-in/", {"username": "omar", "password": PASSWORD})
    inside = client.get("/")
    by_link = client.get("/sign-out/")
    out = client.post("/sign-out/")

    assert (wrong.status_code, b'id="form-errors"' in wrong.content) == (200, True)
    assert (right.status_code, right["Location"], inside.status_code) == (302, "/", 200)
    assert by_link.status_code == 405
    assert (out["Location"], client.get("/").status_code) == ("/sign-in/", 302)


def test_signing_in_leads_back_to_the_page_asked_for(client, scene):
    asked = client.get("/queue/?owner=me")

    landed = client.post(asked["Location"], {"username": "omar", "password": PASSWORD})

    assert landed["Location"] == "/queue/?owner=me"


def test_a_link_signs_in_once(client, scene):
    url = make_sign_in_link(scene.omar, at=timezone.now(), base_url="http://testserver")

    first = client.get(url)
    inside = client.get("/").status_code
    second = Client().get(url)

    assert (first.status_code, first["Location"], inside) == (302, "/", 200)
    assert second.status_code == 410
    assert b"no longer works" in second.content


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/sign-in/", "/sign-in/link/used-before/"])
def test_the_demo_tells_who_cannot_get_in_how_to_get_a_link(client, monkeypatch, path):
    before = client.get(path).content
    monkeypatch.setitem(DEMO, "is_demo", value=True)

    said = client.get(path).content

    assert (b"bin/manage sign_in_link" in before, b"bin/manage sign_in_link" in said) == (
        False,
        True,
    )


def test_an_old_link_says_what_to_do(client, scene):
    long_ago = timezone.now() - timedelta(days=1)
    url = make_sign_in_link(scene.omar, at=long_ago, base_url="http://testserver")

    assert client.get(url).status_code == 410


def test_a_language_is_kept_for_the_person(client, scene):
    client.force_login(scene.omar)

    client.post("/preferences/language/", {"language": "zh-hans", "next": "/jobs/"})
    other_device = Client()
    other_device.force_login(scene.omar)
    page = other_device.get("/jobs/").content.decode()

    assert '<html lang="zh-Hans"' in page


def test_a_theme_is_kept_in_the_browser(client):
    client.post("/preferences/theme/", {"theme": "dark", "next": "/sign-in/"})

    page = client.get("/sign-in/").content.decode()

    assert 'data-bs-theme="dark"' in page


@pytest.mark.parametrize("kind", ["theme", "language"])
def test_a_preference_never_leads_to_another_site(client, kind):
    chosen = {"theme": "dark", "language": "en", "next": "https://elsewhere.example/"}

    response = client.post(f"/preferences/{kind}/", chosen)

    assert response["Location"] == "/"


def test_times_are_in_the_zone_of_the_browser(client, scene):
    client.force_login(scene.omar)
    client.cookies["zone"] = "Asia/Shanghai"
    job = scene.jobs["sft-instruct-v3"]

    page = client.get(f"/jobs/{job.public_id}/").content.decode()

    # submitted at 08:00 UTC
    assert '<time datetime="2026-03-02T08:00:00+00:00" title="2026-03-02 16:00:00 CST">' in page


@pytest.mark.parametrize("zone", ["Nowhere/At_all", "../../etc/passwd", "/etc/passwd", "\0"])
def test_a_zone_that_does_not_exist_is_no_error(client, zone):
    assert client.get("/sign-in/", headers={"Cookie": f"zone={zone}"}).status_code == 200


def test_what_does_not_exist_has_a_page_with_a_reference(client, scene):
    client.force_login(scene.omar)

    response = client.get("/nothing/here/")

    assert response.status_code == 404
    assert response["X-Request-Id"] in response.content.decode()


def test_a_stale_form_says_that_nothing_was_changed(scene):
    strict = Client(enforce_csrf_checks=True)

    response = strict.post("/sign-in/", {"username": "omar", "password": PASSWORD})

    assert response.status_code == 403
    assert b"This form was open for too long" in response.content


def test_our_own_fault_has_a_page_with_a_reference(client, scene, monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr("portal.site.home._for_member", broken)
    client.force_login(scene.omar)
    client.raise_request_exception = False

    response = client.get("/")

    assert response.status_code == 500
    assert response["X-Request-Id"] in response.content.decode()


@pytest.mark.parametrize("away", [OperationalError, InterfaceError])
def test_without_the_database_a_page_says_so_and_when_to_try_again(
    client, scene, monkeypatch, away
):
    def unreachable(*args, **kwargs):
        raise away("connection refused")

    client.force_login(scene.omar)
    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", unreachable)
    client.raise_request_exception = False

    response = client.get("/jobs/")

    assert response.status_code == 503
    assert response["Retry-After"] == "5"
    assert b"The portal cannot reach its database" in response.content
    assert response["X-Request-Id"] in response.content.decode()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_inline_script_or_style(path):
    text = path.read_text()

    assert re.findall(r"\sstyle=|<style|\son[a-z]+=|hx-on|javascript:|hx-boost", text) == []
    assert re.findall(r"<script(?![^>]*\ssrc=)", text) == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_partial_says_what_it_needs(path):
    if not path.name.startswith("_"):
        return

    assert path.read_text().lstrip().startswith("{% comment %}")


PAGES = ["/", "/jobs/", "/jobs/new/", "/queue/", "/quota/", "/tenants/nlp/", "/cluster/"]


@pytest.mark.parametrize("url", [*PAGES, "/cluster/nodes/h100-01/", "/nothing/"])
def test_every_page_has_one_heading_a_skip_link_and_captions(client, scene, url):
    client.force_login(scene.mei)

    page = client.get(url).content.decode()

    assert page.count("<h1") == 1
    assert '<a class="skip-link" href="#main">' in page
    assert page.count("<table") == page.count("<caption")
    assert re.findall(r"\sstyle=", page) == []


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/jobs/%00/", 404),
        ("/jobs/j-%00/cancel/", 404),
        ("/cluster/nodes/%00/", 404),
        ("/jobs/?tenant=%00&q=%00&state=%00", 200),
        ("/jobs/new/?tenant=%00&cluster=%00", 200),
        ("/quota/requests/new/?tenant=%00&flavor=%00", 200),
        ("/queue/?page=%00&cluster=%00", 200),
    ],
)
def test_a_nul_in_an_address_names_nothing(client, db, address, status):
    ClusterFactory()
    client.force_login(MembershipFactory(role=Role.LEAD).user)

    assert client.get(address).status_code == status


def test_operators_are_told_at_home_that_the_scheduler_is_not_at_work(client, scene):
    client.force_login(scene.root)
    seen = timezone.now() - timedelta(minutes=2)
    Cluster.objects.update(clock_wall_at=seen)

    assert 'id="stalled"' in client.get("/").content.decode()


@pytest.mark.parametrize("address", ["/healthz", "/sign-in/", "/api/v1/me"])
def test_a_cookie_that_the_database_cannot_look_for_is_none(client, db, address):
    known = client.get(address).status_code

    odd = client.get(address, headers={"Cookie": r'sessionid="\000aaaaaaaa"'})

    assert odd.status_code == known


@pytest.mark.parametrize("said", ["home", "x", "-1"])
def test_a_form_that_says_no_address_to_go_back_to_goes_somewhere(client, said):
    response = client.post("/preferences/theme/", {"theme": "dark", "next": said})

    assert (response.status_code, response["Location"]) == (302, said)
