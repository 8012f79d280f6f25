"""Every route, a stranger: what belongs to another tenant is not there, whatever is asked of it.

The routes are read from the URLconf, so a new one is tested from its first day: one that takes an
id nobody has told this module about fails by its name.
"""

from itertools import product

import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver
from django.utils.regex_helper import normalize

from tests.factories import (
    ApiTokenFactory,
    FlavorFactory,
    InvitationFactory,
    JobArrayFactory,
    JobFactory,
    MembershipFactory,
    NodeFactory,
    NotificationFactory,
    QuotaFactory,
    QuotaRequestFactory,
    SavedViewFactory,
    TenantFactory,
    UserFactory,
    WebhookFactory,
)

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
API = "api/v1"
BACKOFFICE = "backoffice/"

# Ids of things that belong to one tenant or one person: by parameter, and by route where two
# things share a parameter's name.
THEIRS = {
    "public_id",
    "slug",
    "prefix",
    "pk",
    "number",
    "username",
    "request_id",
    "array_id",
    "notification",
    "view",
    "webhook",
    "hook",
    "invited",
}
# Parameters that name what everybody may know of, or nothing at all.
EVERYBODYS = {
    "cluster": "main",
    "name": "node-a",
    "secret": "guessed",
    "error_code": "not-found",
    "entry": 1,
    "priority": "high",
    "cohort": "research",
    "layout": "halves",
    "rollout": 1,
    "announcement": 1,
    "account": "nobody-there",
}
# Routes that answer to people who have not signed in.
OPEN = {
    "help/errors",
    "help/errors/%(error_code)s",
    "healthz",
    "readyz",
    "metrics",
    "sign-in/",
    "sign-in/link/%(secret)s/",
    "invitation/%(secret)s/",
    "sign-out/",
    "preferences/theme/",
    "preferences/language/",
    "api/docs/",
    "api/v1/openapi.json",
}


def _walk(patterns, prefix=("",)):
    for pattern in patterns:
        forms = [form for form, _names in normalize(pattern.pattern.regex.pattern)]
        here = ["".join(parts) for parts in product(prefix, forms)]
        if isinstance(pattern, URLPattern):
            names = frozenset(pattern.pattern.regex.groupindex)
            yield from ((form, names | _named_in(form)) for form in here)
        else:
            yield from _walk(pattern.url_patterns, here)


def _named_in(form):
    return frozenset(part.split(")")[0] for part in form.split("%(")[1:])


ROUTES = {
    form: names
    for form, names in _walk(get_resolver().url_patterns)
    if not form.startswith(BACKOFFICE)
}
OF_ONE_TENANT = sorted(form for form, names in ROUTES.items() if names & THEIRS)
OF_NOBODY = sorted(form for form, names in ROUTES.items() if not names)


@pytest.fixture
def theirs(db):
    """A job, a tenant, a quota and a token of people whom the stranger has nothing to do with."""
    member = MembershipFactory(tenant=TenantFactory(slug="their-tenant"))
    flavor = FlavorFactory(cluster__slug="main")
    job = JobFactory(tenant=member.tenant, cluster=flavor.cluster, name="their-job")
    NodeFactory(cluster=flavor.cluster, name="node-a", flavor=flavor)
    request = QuotaRequestFactory(tenant=member.tenant, flavor=flavor)
    return {
        "public_id": job.public_id,
        "slug": member.tenant.slug,
        "prefix": ApiTokenFactory(user=member.user).prefix,
        "pk": QuotaFactory(tenant=member.tenant, flavor=flavor).pk,
        "number": request.pk,
        "request_id": request.public_id,
        "array_id": JobArrayFactory(tenant=member.tenant, cluster=flavor.cluster).public_id,
        "username": member.user.username,
        "view": SavedViewFactory(user=member.user).pk,
        "invited": InvitationFactory(tenant=member.tenant, invited_by=member.user).pk,
        "notification": NotificationFactory(user=member.user).pk,
        "webhook": WebhookFactory(user=member.user).pk,
        "hook": WebhookFactory(user=None, tenant=member.tenant).pk,
    }


@pytest.fixture
def stranger(db):
    client = Client()
    client.force_login(MembershipFactory(tenant=TenantFactory(slug="own-tenant")).user)
    return client


@pytest.fixture
def operator(db):
    client = Client()
    client.force_login(UserFactory(is_operator=True))
    return client


def ask(client, method, form, ids):
    return getattr(client, method)("/" + form % (EVERYBODYS | ids))


@pytest.mark.parametrize("form", sorted(ROUTES))
def test_every_parameter_of_a_route_is_known_to_this_test(form):
    unknown = ROUTES[form] - THEIRS - EVERYBODYS.keys()

    assert not unknown, f"say in this module whose {unknown} of {form} is"


def test_the_routes_that_we_know_of_are_walked():
    assert {
        "jobs/%(public_id)s/",
        "jobs/%(public_id)s/cancel/",
        "jobs/%(public_id)s/change/",
        "jobs/%(public_id)s/extend/",
        "tenants/%(slug)s/",
        "tenants/%(slug)s/memberships/",
        "tenants/%(slug)s/memberships/%(username)s/remove/",
        "quota/requests/%(number)s/",
        "quota/requests/%(number)s/act/",
        "quota/requests/%(number)s/edit/",
        "api/v1/jobs/%(public_id)s",
        "api/v1/jobs/%(public_id)s/cancel",
        "api/v1/jobs/%(public_id)s/extend",
        "api/v1/jobs/%(public_id)s/events",
        "api/v1/jobs/%(public_id)s/explanation",
        "api/v1/tenants/%(slug)s",
        "api/v1/quotas/%(pk)s",
        "api/v1/quotas/%(pk)s/hand-back",
        "api/v1/quota-requests/%(request_id)s",
        "api/v1/quota-requests/%(request_id)s/approve",
        "api/v1/tenants/%(slug)s/memberships",
        "api/v1/tenants/%(slug)s/memberships/%(username)s",
        "api/v1/tokens/%(prefix)s",
    } <= set(OF_ONE_TENANT)
    assert set(ROUTES) >= OPEN


@pytest.mark.parametrize("form", OF_ONE_TENANT)
def test_what_is_anothers_is_not_there(stranger, theirs, form):
    statuses = {method: ask(stranger, method, form, theirs).status_code for method in METHODS}

    assert statuses == dict.fromkeys(METHODS, 404)


@pytest.mark.parametrize("form", [form for form in OF_ONE_TENANT if form.startswith(API)])
def test_what_is_anothers_answers_as_what_never_was(stranger, theirs, form):
    never = {
        "public_id": "j-zzzzzz",
        "slug": "nobodys",
        "prefix": "zzzzzzzz",
        "pk": 10**9,
        "number": 10**9,
        "request_id": "Q-1000000000",
        "array_id": "a-zzzzzz",
        "username": "nobody",
        "invited": 10**9,
    }

    told, silent = (
        {method: _lasting(ask(stranger, method, form, ids)) for method in METHODS}
        for ids in (theirs, never)
    )

    assert told == silent


def _lasting(answer):
    """An answer without what differs from one request to the next, and without its path."""
    body = answer.json() if answer.content else {}
    return {name: value for name, value in body.items() if name not in {"instance", "request_id"}}


OF_ONE_PERSON = ("token", "inbox", "views", "profile/webhooks")


@pytest.mark.parametrize(
    "form", [form for form in OF_ONE_TENANT if not any(word in form for word in OF_ONE_PERSON)]
)
def test_an_operator_finds_what_the_stranger_does_not(operator, theirs, form):
    """So that the 404 above is the tenant's boundary and not a path that leads nowhere."""
    assert ask(operator, "options", form, theirs).status_code in {200, 405}


@pytest.mark.parametrize("form", [form for form in OF_NOBODY if form not in OPEN])
def test_lists_and_pages_say_nothing_of_anothers_job(stranger, theirs, form):
    text = ask(stranger, "get", form, {}).content.decode()

    assert theirs["public_id"] not in text
    assert "their-job" not in text
    assert theirs["prefix"] not in text


@pytest.mark.parametrize("form", sorted(set(ROUTES) - OPEN))
def test_who_has_not_signed_in_gets_nothing(client, theirs, form):
    answers = {method: ask(client, method, form, theirs) for method in METHODS}

    if form.startswith(API):
        assert {method: _turned_away(answer) for method, answer in answers.items()} == (
            dict.fromkeys(METHODS, (401, "Bearer"))
        )
    else:
        offered = [answer for answer in answers.values() if answer.status_code != 405]
        assert {_turned_away(answer) for answer in offered} <= {(302, "/sign-in/"), (404, "")}


def _turned_away(answer):
    where = answer.get("WWW-Authenticate") or answer.get("Location", "").split("?")[0]
    return answer.status_code, where


@pytest.mark.parametrize("path", ["", "scheduling/job/", "tenants/user/1/change/"])
def test_the_back_office_is_closed_to_all_but_its_staff(operator, path):
    answer = operator.get(f"/{BACKOFFICE}{path}")

    assert (answer.status_code, answer["Location"].split("?")[0]) == (
        302,
        f"/{BACKOFFICE}login/",
    )
