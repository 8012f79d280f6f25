"""What is granted on request is what the next cycle plans with."""

from datetime import UTC, date, datetime

import pytest

from scheduling import snapshots
from scheduling.engine.snapshot import PARTS_PER_GPU
from tenants.services.grant_clock import advance_grants
from tenants.states import RequestState
from tests.factories import NodeFactory, QuotaGrantFactory, QuotaRequestFactory

JANUARY = datetime(2026, 1, 15, tzinfo=UTC)


@pytest.fixture
def grant(db):
    """Eight GPUs, and four to borrow, for the first quarter of 2026."""
    node = NodeFactory(flavor__name="h100")
    request = QuotaRequestFactory(
        flavor=node.flavor, state=RequestState.SCHEDULED, borrowing_gpus=4
    )
    return QuotaGrantFactory(request=request)


def quota_read(grant, at):
    """(guaranteed, borrowing limit) of the tenant and flavor, in GPUs, as a snapshot has it."""
    quotas = snapshots.take(grant.request.cluster, at=at).quotas
    return int(quotas.nominal[0, 0]) // PARTS_PER_GPU, int(quotas.borrowing_limit[0, 0]) // (
        PARTS_PER_GPU
    )


def test_a_snapshot_has_a_grant_from_its_first_day_to_its_last(grant):
    advance_grants(at=JANUARY)
    during = quota_read(grant, JANUARY)
    april = JANUARY.replace(month=4, day=2)
    advance_grants(at=april)

    assert during == (8, 4)
    assert quota_read(grant, april) == (0, 12)
    assert date(2026, 3, 31) == grant.ends_on
