import pytest

from portal.core.errors import NotAllowed, Refused
from portal.core.models import AuditEvent
from tenants.models import Quota
from tenants.services.quota import QuotaAmounts, set_quota
from tests.factories import FlavorFactory


@pytest.fixture
def flavor(db):
    return FlavorFactory(name="h100")


def amounts(nominal, borrowing_limit=None):
    return {
        "flavor": "h100",
        "nominal": nominal,
        "borrowing_limit": borrowing_limit,
        "lending_limit": None,
        "granted": 0,
        "granted_borrowing": 0,
    }


def test_a_quota_is_set_and_set_anew_and_a_cycle_asked_for(
    member, operator, flavor, sent, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        for request in (QuotaAmounts(8), QuotaAmounts(16, borrowing_limit=4)):
            set_quota(request, tenant=member.tenant, flavor=flavor, by=operator)
        set_quota(QuotaAmounts(16, 4), tenant=member.tenant, flavor=flavor, by=operator)

    quotas = Quota.objects.values_list("tenant__slug", "nominal", "borrowing_limit")
    audited = AuditEvent.objects.order_by("pk").values_list("action", "before", "after")
    assert list(quotas) == [("vision", 16, 4)]
    assert list(audited) == [
        ("set_quota", {}, amounts(8)),
        ("set_quota", amounts(8), amounts(16, 4)),
    ]
    kept = {"tenant_id": member.tenant.pk, "cluster_id": flavor.cluster_id}
    asked = ("scheduling.run_cycle", {"cluster_id": flavor.cluster_id})
    assert sent == [asked, ("tenants.keep_tenancy", kept)] * 2


def test_only_an_operator_sets_quota(member, flavor):
    with pytest.raises(NotAllowed):
        set_quota(QuotaAmounts(8), tenant=member.tenant, flavor=flavor, by=member.user)

    assert not Quota.objects.exists()


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (QuotaAmounts(-1), "nominal"),
        (QuotaAmounts(8, borrowing_limit=-1), "borrowing_limit"),
        (QuotaAmounts(8, lending_limit=9), "lending_limit"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(member, operator, flavor, request_, field):
    with pytest.raises(Refused) as refused:
        set_quota(request_, tenant=member.tenant, flavor=flavor, by=operator)

    assert refused.value.field == field
