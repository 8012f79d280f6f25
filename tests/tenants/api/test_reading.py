import pytest
from rest_framework.test import APIClient

from tests.factories import (
    ApiTokenFactory,
    CohortFactory,
    FlavorFactory,
    MembershipFactory,
    PriorityClassFactory,
    QuotaFactory,
    TenantFactory,
)


@pytest.fixture
def api(member):
    client = APIClient()
    client.force_login(member.user)
    return client


def page(*items):
    return {"items": list(items), "next": None, "count": {"value": len(items), "exact": True}}


def test_me_is_who_asks_with_their_tenants(api, member):
    MembershipFactory(user=member.user, tenant__slug="speech", role=3)

    body = api.get("/api/v1/me").json()

    assert body == {
        "username": "ada",
        "name": "",
        "email": "ada@example.org",
        "is_operator": False,
        "language": "",
        "time_zone": "",
        "memberships": [
            {"tenant": "speech", "role": "lead"},
            {"tenant": "vision", "role": "researcher"},
        ],
        "scopes": None,
    }


@pytest.mark.parametrize("count", [1, 3])
def test_me_costs_the_same_for_any_number_of_tenants(api, member, count, django_assert_num_queries):
    MembershipFactory.create_batch(count, user=member.user)

    with django_assert_num_queries(3):  # session, user, memberships
        api.get("/api/v1/me")


def test_tenants_are_the_callers(api, member):
    member.tenant.cohort = CohortFactory(name="science")
    member.tenant.highest_priority = PriorityClassFactory(name="high")
    member.tenant.save()
    TenantFactory(slug="speech")
    vision = {
        "slug": "vision",
        "name": "Vision",
        "description": "",
        "cohort": "science",
        "weight": 1,
        "is_strict": False,
        "highest_priority": "high",
        "archived_at": None,
    }

    assert api.get("/api/v1/tenants").json() == page(vision)
    assert api.get("/api/v1/tenants/vision").json() == vision
    assert api.get("/api/v1/tenants/speech").status_code == 404


def test_quotas_are_the_callers_tenants(api, member):
    flavor = FlavorFactory(name="h100", cluster__slug="main")
    quota = QuotaFactory(tenant=member.tenant, flavor=flavor, nominal=16, borrowing_limit=8)
    theirs = QuotaFactory(flavor=flavor)
    of_cohort = QuotaFactory(flavor=flavor, tenant=None, cohort=CohortFactory())
    mine = {
        "id": quota.pk,
        "tenant": "vision",
        "cohort": None,
        "cluster": "main",
        "flavor": "h100",
        "nominal_gpus": 16,
        "borrowing_limit_gpus": 8,
        "lending_limit_gpus": None,
        "granted_gpus": 0,
    }

    assert api.get("/api/v1/quotas").json() == page(mine)
    assert api.get(f"/api/v1/quotas/{quota.pk}").json() == mine
    for hidden in (theirs, of_cohort):
        assert api.get(f"/api/v1/quotas/{hidden.pk}").status_code == 404


def test_an_operator_sees_every_tenants_quota(operator):
    flavor = FlavorFactory()
    first, second = QuotaFactory(flavor=flavor), QuotaFactory(flavor=flavor)
    client = APIClient()
    client.force_login(operator)

    everything = client.get("/api/v1/quotas", {"fields": "id"}).json()
    narrowed = client.get("/api/v1/quotas", {"fields": "id", "tenant": second.tenant.slug}).json()

    assert everything == page({"id": first.pk}, {"id": second.pk})
    assert narrowed == page({"id": second.pk})


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("path", ["tenants", "quotas", "tokens"])
def test_lists_cost_the_same_for_any_number(api, member, path, count, django_assert_num_queries):
    for tenant in TenantFactory.create_batch(count, cohort=CohortFactory()):
        MembershipFactory(user=member.user, tenant=tenant)
        QuotaFactory(tenant=tenant)
        ApiTokenFactory(user=member.user)

    with django_assert_num_queries(4):  # session, user, count, rows
        body = api.get(f"/api/v1/{path}").json()

    assert len(body["items"]) == count + (path == "tenants")


@pytest.mark.parametrize("number", ["9" * 18, "0"])
def test_a_number_that_no_quota_has_is_not_found(api, number):
    assert api.get(f"/api/v1/quotas/{number}").status_code == 404


@pytest.mark.parametrize("path", ["tenants", "quotas", "tokens", "tenants/vision/memberships"])
def test_lists_go_on_where_a_page_ends(api, member, path):
    for _number in range(2):
        other = MembershipFactory(user=member.user)
        QuotaFactory(tenant=other.tenant)
        ApiTokenFactory(user=member.user)
        MembershipFactory(tenant=member.tenant)
    whole = api.get(f"/api/v1/{path}").json()

    first = api.get(f"/api/v1/{path}?limit=1").json()
    rest = api.get(f"/api/v1/{path}", {"cursor": first["next"]}).json()

    assert len(whole["items"]) >= 2
    assert first["items"] + rest["items"] == whole["items"]
