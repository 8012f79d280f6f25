"""Many requests at once: all of them are granted, or none."""

from datetime import UTC, date, datetime

import pytest

from portal.core.errors import Conflict, NotAllowed, Refused
from portal.core.models import AuditEvent
from tenants.models import Quota, QuotaRequest
from tenants.services.quota_approval import OverCommitted
from tenants.services.quota_decisions import approve_together, foresee_together
from tenants.states import RequestState
from tests.factories import (
    MembershipFactory,
    NodeFactory,
    QuotaFactory,
    QuotaGrantFactory,
    QuotaRequestFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


@pytest.fixture
def root():
    return UserFactory(username="root", is_operator=True)


@pytest.fixture
def flavor():
    """Of which there are eight GPUs."""
    return NodeFactory(flavor__name="h100").flavor


def ask(flavor, gpus, **given):
    state = {"state": RequestState.SUBMITTED}
    return QuotaRequestFactory(flavor=flavor, gpus=gpus, **state | given)


def approve(requests, by):
    approve_together([(each, each.version) for each in requests], by=by, at=NOW, note="Good.")


def states():
    return list(QuotaRequest.objects.order_by("pk").values_list("state", flat=True))


def test_all_that_fit_are_granted_each_with_its_line(flavor, root):
    requests = [ask(flavor, 5), ask(flavor, 3)]

    approve(requests, root)

    assert states() == ["active", "active"]
    assert sorted(Quota.objects.values_list("nominal", flat=True)) == [3, 5]
    lines = AuditEvent.objects.filter(action="approve_quota_request")
    assert sorted(lines.values_list("object_id", "reason")) == sorted(
        (each.public_id, "Good.") for each in requests
    )


def test_each_fits_alone_but_not_together_so_none_is_granted(flavor, root):
    requests = [ask(flavor, 5), ask(flavor, 4)]

    with pytest.raises(OverCommitted, match="on 2026-01-05 1 h100 are too few"):
        approve(requests, root)

    assert states() == ["submitted", "submitted"]
    assert not Quota.objects.exists()
    assert not AuditEvent.objects.exists()


def test_days_that_do_not_meet_share_the_same_gpus(flavor, root):
    early = ask(flavor, 8, ends_on=date(2026, 1, 31))
    late = ask(flavor, 8, starts_on=date(2026, 2, 1))

    approve([late, early], root)

    assert states() == ["active", "scheduled"]


def test_what_one_gives_back_another_may_take_in_whatever_order(flavor, root):
    old = QuotaRequestFactory(flavor=flavor, gpus=8, state=RequestState.ACTIVE)
    QuotaGrantFactory(request=old)
    QuotaFactory(
        tenant=old.tenant,
        flavor=flavor,
        nominal=8,
        granted=8,
        borrowing_limit=0,
        is_of_grants=True,
    )
    takes = ask(flavor, 6)
    less = ask(flavor, 2, tenant=old.tenant, replaces=old)

    approve([takes, less], root)

    assert states() == ["closed", "active", "active"]
    assert sorted(Quota.objects.values_list("nominal", flat=True)) == [2, 6]


def test_one_that_leaves_the_kind_of_gpu_open_is_for_its_own_page(flavor, root):
    requests = [ask(flavor, 1), ask(None, 1, cluster=flavor.cluster, gpu_memory_mib=40_960)]

    with pytest.raises(Refused, match="leaves the kind of GPU open"):
        approve(requests, root)

    assert states() == ["submitted", "submitted"]


def test_one_that_was_decided_meanwhile_keeps_all_from_it(flavor, root):
    requests = [ask(flavor, 1), ask(flavor, 1)]
    QuotaRequest.objects.filter(pk=requests[1].pk).update(version=9)

    with pytest.raises(Conflict):
        approve(requests, root)

    assert states() == ["submitted", "submitted"]


def test_only_operators_do_it(flavor):
    lead = MembershipFactory(role=3)

    with pytest.raises(NotAllowed):
        approve([ask(flavor, 1, tenant=lead.tenant)], lead.user)


def test_what_is_foreseen_is_not_kept(flavor, root):
    fits, more = [(ask(flavor, 5), 0)], [(ask(flavor, 4), 0)]

    assert foresee_together(fits, by=root, at=NOW) is None
    assert isinstance(foresee_together(fits + more, by=root, at=NOW), OverCommitted)
    assert states() == ["submitted", "submitted"]
    assert not Quota.objects.exists()
