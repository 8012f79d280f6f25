import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from portal.core.models import AuditEvent
from tenants.models import Cohort, Membership, Quota, Role, StarterRule, Tenant
from tests.factories import (
    ApiTokenFactory,
    CohortFactory,
    CycleFactory,
    FlavorFactory,
    JobEventFactory,
    MemberFactory,
    MembershipFactory,
    NodeFactory,
    QuotaRequestFactory,
    StarterRuleFactory,
    TenantFactory,
    UserFactory,
)

MODELS = [model for model in admin.site._registry if model.__module__ != "django"]  # noqa: SLF001 - Django's own name


@pytest.fixture
def office(db):
    client = Client()
    client.force_login(
        UserFactory(username="op", is_operator=True, is_staff=True, is_superuser=True)
    )
    return client


def page(model, name, *args):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=args)  # noqa: SLF001 - Django's own name


@pytest.fixture
def something_of_all(db):
    """At least one row of most models."""
    MemberFactory(placement__node=NodeFactory(gpus=1))
    JobEventFactory()
    CycleFactory()
    ApiTokenFactory(digest="d" * 64)
    QuotaRequestFactory()
    StarterRuleFactory()
    MembershipFactory(role=Role.LEAD)
    AuditEvent.objects.create(action="x", object_kind="job", object_id="j-1")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_list_and_row_can_be_looked_at(office, something_of_all, model):
    listed = office.get(page(model, "changelist"))
    row = model.objects.first()

    assert listed.status_code == 200
    if row is not None:
        shown = office.get(page(model, "change", row.pk))
        assert (shown.status_code, "d" * 64 in shown.content.decode()) == (200, False)


@pytest.mark.parametrize(
    "name",
    ["Job", "Node", "Placement", "Cycle", "AuditEvent", "ApiToken", "QuotaRequest"],
)
def test_what_services_write_is_for_looking_only(office, something_of_all, name):
    model = next(model for model in MODELS if model.__name__ == name)
    row = model.objects.first()

    statuses = [
        office.post(page(model, "add")).status_code,
        office.post(page(model, "change", row.pk)).status_code,
        office.post(page(model, "delete", row.pk), {"post": "yes"}).status_code,
    ]

    assert statuses == [403, 403, 403]
    assert model.objects.filter(pk=row.pk).exists()


def test_a_membership_is_changed_through_its_service(office):
    tenant, bob = TenantFactory(), UserFactory(username="bob")
    lead = MembershipFactory(tenant=tenant, role=Role.LEAD)

    office.post(page(Membership, "add"), {"tenant": tenant.pk, "user": bob.pk, "role": 1})
    added = Membership.objects.get(user=bob)
    office.post(page(Membership, "change", added.pk), {"role": 2})
    office.post(page(Membership, "change", lead.pk), {"role": 1})
    office.post(page(Membership, "delete", added.pk), {"post": "yes"})

    assert list(tenant.memberships.values_list("pk", "role")) == [(lead.pk, Role.LEAD)]
    assert list(AuditEvent.objects.order_by("pk").values_list("action", "actor__username")) == [
        ("add_member", "op"),
        ("set_role", "op"),
        ("remove_member", "op"),
    ]


def test_a_quota_is_set_through_its_service(office):
    tenant, flavor = TenantFactory(slug="vision"), FlavorFactory()

    office.post(page(Quota, "add"), {"tenant": tenant.pk, "flavor": flavor.pk, "nominal": 8})
    office.post(page(Quota, "change", Quota.objects.get().pk), {"nominal": 16})

    assert list(Quota.objects.values_list("tenant__slug", "nominal")) == [("vision", 16)]
    assert list(AuditEvent.objects.values_list("action", flat=True)) == ["set_quota"] * 2


def test_the_tree_of_cohorts_is_for_looking_and_its_limits_go_through_their_service(office):
    cohort, flavor = CohortFactory(), FlavorFactory()

    statuses = [
        office.post(page(Cohort, "add"), {"name": "x", "weight": 1}).status_code,
        office.post(page(Cohort, "change", cohort.pk), {"parent": cohort.pk}).status_code,
    ]
    office.post(page(Quota, "add"), {"cohort": cohort.pk, "flavor": flavor.pk, "nominal": 8})

    assert statuses == [403, 403]
    assert list(Quota.objects.values_list("cohort", "nominal")) == [(cohort.pk, 8)]
    assert list(AuditEvent.objects.values_list("action", flat=True)) == ["set_cohort_quota"]


def test_a_tenant_stays_in_its_cohort_when_its_row_is_changed(office):
    cohort = CohortFactory()
    tenant = TenantFactory(slug="vision", name="Vision", cohort=cohort)

    form = {"slug": "vision", "name": "Seeing", "weight": 1, "cohort": ""}
    office.post(page(Tenant, "change", tenant.pk), form)

    assert list(Tenant.objects.values_list("name", "cohort")) == [("Seeing", cohort.pk)]


def test_a_tenant_is_changed_with_an_audit_line_and_never_deleted(office):
    form = {"slug": "vision", "name": "Vision", "weight": 2}

    office.post(page(Tenant, "add"), form)
    tenant = Tenant.objects.get()
    office.post(page(Tenant, "change", tenant.pk), form | {"weight": 3})
    deletion = office.post(page(Tenant, "delete", tenant.pk), {"post": "yes"})

    audited = AuditEvent.objects.order_by("pk").values_list("action", "before", "after")
    assert (deletion.status_code, Tenant.objects.get().weight) == (403, 3)
    assert list(audited) == [
        ("create_tenant", {}, {"slug": "vision", "name": "Vision", "weight": "2"}),
        ("change_tenant", {"weight": "2"}, {"weight": "3"}),
    ]


def test_a_starter_rule_is_ended_with_an_audit_line(office):
    rule = StarterRuleFactory()

    office.post(page(StarterRule, "delete", rule.pk), {"post": "yes"})

    assert not StarterRule.objects.exists()
    assert list(AuditEvent.objects.values_list("action", flat=True)) == ["delete_starter_rule"]
