"""Two at once, on a real PostgreSQL: who comes second waits, looks again, and is told."""

from datetime import UTC, datetime
from threading import Barrier, Thread

import pytest
from django.db import connection

from portal.core.errors import Conflict, PortalError
from tenants.models import Quota, QuotaRequest, QuotaRequestEvent
from tenants.services.grant_clock import advance_grants
from tenants.services.quota_approval import OverCommitted
from tenants.services.quota_decisions import (
    Decider,
    Offer,
    approve_request,
    approve_together,
    reject_request,
)
from tenants.services.quota_requests import (
    QuotaWish,
    draft_request,
    hand_back,
    withdraw_request,
)
from tenants.states import RequestState
from tests.factories import (
    MembershipFactory,
    NodeFactory,
    QuotaGrantFactory,
    QuotaRequestFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


@pytest.fixture
def operators(db):
    return [UserFactory(username=name, is_operator=True) for name in ("anna", "boris")]


@pytest.fixture
def node(db):
    """Eight GPUs: one request of the factory's size."""
    return NodeFactory(flavor__name="h100")


def at_once(*works):
    """What each of `works` came to, all begun in the same instant: None, or what was refused."""
    start, came_to = Barrier(len(works)), [None] * len(works)

    def run(place, work):
        start.wait()
        try:
            work()
        except PortalError as refusal:
            came_to[place] = refusal
        finally:
            connection.close()

    threads = [Thread(target=run, args=pair) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return came_to


def offer(request):
    return Offer(
        flavor=request.flavor, gpus=8, starts_on=request.starts_on, ends_on=request.ends_on
    )


def approve(request, by):
    approve_request(request, offer(request), Decider(by=by, at=NOW, note="yes"))


@pytest.mark.parametrize("round_", range(5))
def test_of_two_deciders_one_decides(node, operators, round_):
    request = QuotaRequestFactory(flavor=node.flavor, state=RequestState.SUBMITTED)
    anna, boris = operators

    came_to = at_once(
        lambda: approve(request, anna),
        lambda: reject_request(request, Decider(by=boris, at=NOW, note="no")),
    )

    request.refresh_from_db()
    refused = [error for error in came_to if error is not None]
    assert [isinstance(error, Conflict) for error in refused] == [True]
    decided = QuotaRequestEvent.objects.filter(action__in=["approve", "reject"])
    assert decided.count() == 1
    assert (request.state == RequestState.ACTIVE) == Quota.objects.exists()


def test_two_approvals_of_one_request_grant_it_once(node, operators):
    request = QuotaRequestFactory(flavor=node.flavor, state=RequestState.SUBMITTED)

    came_to = at_once(*(lambda by=by: approve(request, by) for by in operators))

    assert sorted(error is None for error in came_to) == [False, True]
    assert list(Quota.objects.values_list("nominal", flat=True)) == [8]


@pytest.mark.parametrize("round_", range(5))
def test_two_requests_cannot_both_get_the_last_gpus(node, operators, round_):
    requests = [
        QuotaRequestFactory(flavor=node.flavor, state=RequestState.SUBMITTED) for _each in range(2)
    ]
    pairs = zip(requests, operators, strict=True)

    came_to = at_once(*(lambda pair=pair: approve(*pair) for pair in pairs))

    assert [type(error) for error in came_to if error is not None] == [OverCommitted]
    assert list(Quota.objects.values_list("nominal", flat=True)) == [8]


@pytest.mark.parametrize("round_", range(5))
def test_of_two_who_approve_the_same_together_one_does_all_of_it(node, operators, round_):
    requests = [
        QuotaRequestFactory(flavor=node.flavor, state=RequestState.SUBMITTED, gpus=4)
        for _each in range(2)
    ]
    chosen = [(request, request.version) for request in requests]

    came_to = at_once(
        lambda: approve_together(chosen, by=operators[0], at=NOW),
        lambda: approve_together(chosen[::-1], by=operators[1], at=NOW),
    )

    assert [type(error) for error in came_to if error is not None] == [Conflict]
    assert list(Quota.objects.values_list("nominal", flat=True)) == [4, 4]
    approved = QuotaRequestEvent.objects.filter(action="approve")
    assert len(set(approved.values_list("actor", flat=True))) == 1
    assert approved.count() == 2


@pytest.mark.parametrize("round_", range(5))
def test_one_of_many_is_decided_alone_or_with_the_others_and_never_both(node, operators, round_):
    requests = [
        QuotaRequestFactory(flavor=node.flavor, state=RequestState.SUBMITTED, gpus=4)
        for _each in range(2)
    ]
    chosen = [(request, request.version) for request in requests]

    came_to = at_once(
        lambda: approve_together(chosen, by=operators[0], at=NOW),
        lambda: reject_request(requests[1], Decider(by=operators[1], at=NOW, note="no")),
    )

    states = sorted(QuotaRequest.objects.values_list("state", flat=True))
    assert [isinstance(error, Conflict) for error in came_to if error is not None] == [True]
    assert states in (["active", "active"], ["rejected", "submitted"])


def test_a_request_is_withdrawn_or_approved_and_never_both(node, operators):
    lead = MembershipFactory(role=3)
    request = QuotaRequestFactory(
        tenant=lead.tenant, flavor=node.flavor, state=RequestState.SUBMITTED
    )

    came_to = at_once(
        lambda: approve(request, operators[0]),
        lambda: withdraw_request(request, by=lead.user, at=NOW),
    )

    assert [isinstance(error, Conflict) for error in came_to if error is not None] == [True]


def test_two_beats_at_once_move_a_grant_once(node):
    request = QuotaRequestFactory(flavor=node.flavor, state=RequestState.SCHEDULED)
    QuotaGrantFactory(request=request)

    at_once(*[lambda: advance_grants(at=NOW)] * 3)

    events = QuotaRequestEvent.objects.values_list("action", flat=True)
    assert list(events) == ["start"]
    assert list(Quota.objects.values_list("nominal", flat=True)) == [8]


def test_a_change_and_a_hand_back_of_what_it_replaces_do_not_wait_for_each_other(node, operators):
    """Both hold the old request and the flavor: in one order, or they would never end."""
    lead = MembershipFactory(role=3)
    for _round in range(5):
        old = QuotaRequestFactory(tenant=lead.tenant, flavor=node.flavor, state=RequestState.ACTIVE)
        QuotaGrantFactory(request=old)
        new = QuotaRequestFactory(
            tenant=lead.tenant, flavor=node.flavor, state=RequestState.SUBMITTED, replaces=old
        )

        at_once(
            lambda new=new: approve(new, operators[0]),
            lambda old=old: hand_back(old, 2, by=lead.user, at=NOW),
        )

        new.refresh_from_db()
        assert new.state == RequestState.ACTIVE
        assert Quota.objects.get().nominal == 8
        QuotaRequest.objects.filter(pk=new.pk).update(state=RequestState.CLOSED)
        Quota.objects.all().delete()


def test_a_form_that_comes_twice_at_once_is_one_request(node):
    lead = MembershipFactory(role=3)
    wish = QuotaWish(
        purpose=QuotaRequest.Purpose.TRAINING,
        cluster=node.cluster,
        flavor=node.flavor,
        gpus=1,
        starts_on=NOW.date(),
        ends_on=NOW.date(),
        justification="x" * 40,
        form_key="sent-twice",
    )

    came_to = at_once(*[lambda: draft_request(wish, tenant=lead.tenant, by=lead.user, at=NOW)] * 3)

    assert came_to == [None, None, None]
    assert QuotaRequest.objects.count() == 1
