"""The life of a request, from the first line to the grant: who may do what, in which order."""

from datetime import UTC, date, datetime

import pytest

from portal.core.errors import Conflict, NotAllowed, Refused
from portal.core.models import AuditEvent
from tenants.models import Quota, QuotaRequest, Role
from tenants.services.quota_approval import OverCommitted
from tenants.services.quota_decisions import (
    Decider,
    Offer,
    approve_request,
    ask_question,
    counter_offer,
    reject_request,
    revoke_grant,
)
from tenants.services.quota_requests import (
    QuotaWish,
    accept_offer,
    answer_question,
    change_draft,
    decline_offer,
    draft_request,
    hand_back,
    submit_request,
    withdraw_request,
)
from tenants.states import TRANSITIONS, RequestState
from tests.factories import (
    MembershipFactory,
    NodeFactory,
    QuotaFactory,
    QuotaGrantFactory,
    QuotaRequestFactory,
    StarterRuleFactory,
    TenantFactory,
)

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
WHY = "Pre-training of the next language model, three runs of ten days."


@pytest.fixture
def lead(db):
    return MembershipFactory(tenant__slug="vision", user__username="mei", role=Role.LEAD)


@pytest.fixture
def node(db):
    """Sixteen GPUs of one flavor."""
    return NodeFactory(flavor__name="h100", gpus=16)


def wish(node, **said):
    asked = {
        "purpose": QuotaRequest.Purpose.TRAINING,
        "cluster": node.cluster,
        "flavor": node.flavor,
        "gpus": 8,
        "starts_on": date(2026, 1, 5),
        "ends_on": date(2026, 3, 31),
        "justification": WHY,
    }
    return QuotaWish(**asked | said)


def submitted(lead, node, **said):
    request = draft_request(wish(node, **said), tenant=lead.tenant, by=lead.user, at=NOW)
    return submit_request(request, by=lead.user, at=NOW)


def as_asked(request, **changes):
    terms = {
        name: getattr(request, name)
        for name in ("flavor", "gpus", "borrowing_gpus", "gpu_hours", "starts_on", "ends_on")
    }
    return Offer(**terms | changes)


def story(request):
    """(what was done, by whom, and where that led) of each event."""
    events = request.events.order_by("pk")
    return [(e.action, e.actor.username if e.actor else None, e.to_state) for e in events]


def quota_rows():
    rows = Quota.objects.order_by("pk")
    return [(row.nominal, row.borrowing_limit, row.granted, row.granted_borrowing) for row in rows]


def test_a_request_that_is_approved_as_asked_becomes_quota_at_once(lead, node, operator):
    request = submitted(lead, node, borrowing_gpus=4)

    approve_request(request, as_asked(request), Decider(by=operator, at=NOW, note="fine"))

    request.refresh_from_db()
    assert story(request) == [
        ("create", "mei", "draft"),
        ("submit", "mei", "submitted"),
        ("approve", "op", "approved"),
        ("start", None, "active"),
    ]
    assert quota_rows() == [(8, 4, 8, 4)]


def test_every_step_has_its_audit_line(lead, node, operator):
    request = submitted(lead, node)
    reject_request(request, Decider(by=operator, at=NOW, note="no room this year"))

    lines = AuditEvent.objects.filter(object_id=request.public_id).order_by("pk")
    assert [(x.action, x.after["state"], x.tenant_slug, x.reason) for x in lines] == [
        ("create_quota_request", "draft", "vision", ""),
        ("submit_quota_request", "submitted", "vision", ""),
        ("reject_quota_request", "rejected", "vision", "no room this year"),
    ]


def test_what_is_granted_for_later_waits_and_is_no_quota_yet(lead, node, operator):
    request = submitted(lead, node, starts_on=date(2026, 2, 1))

    approve_request(request, as_asked(request), Decider(by=operator, at=NOW))

    request.refresh_from_db()
    assert request.state == RequestState.SCHEDULED
    assert quota_rows() == []


def test_a_question_is_answered_and_the_request_decided(lead, node, operator):
    request = submitted(lead, node)

    ask_question(request, Decider(by=operator, at=NOW, note="Which model?"))
    with pytest.raises(Conflict):
        approve_request(request, as_asked(request), Decider(by=operator, at=NOW))
    answer_question(request, "One of 7 B.", by=lead.user, at=NOW)
    approve_request(request, as_asked(request), Decider(by=operator, at=NOW))

    assert [action for action, _who, _state in story(request)][2:] == [
        "ask",
        "answer",
        "approve",
        "start",
    ]


def test_a_counter_offer_that_is_accepted_is_what_is_granted(lead, node, operator):
    request = submitted(lead, node)

    counter_offer(request, as_asked(request, gpus=4), Decider(by=operator, at=NOW, note="half"))
    assert quota_rows() == []
    accept_offer(request, by=lead.user, at=NOW)

    request.refresh_from_db()
    assert (request.state, request.gpus, request.grant.gpus) == (RequestState.ACTIVE, 8, 4)
    assert quota_rows() == [(4, 0, 4, 0)]


def test_a_counter_offer_that_is_declined_ends_the_request(lead, node, operator):
    request = submitted(lead, node)
    counter_offer(request, as_asked(request, gpus=4), Decider(by=operator, at=NOW))

    decline_offer(request, "too few", by=lead.user, at=NOW)

    request.refresh_from_db()
    assert request.state == RequestState.DECLINED
    assert quota_rows() == []


def test_what_was_not_asked_for_is_not_approved_but_offered(lead, node, operator):
    request = submitted(lead, node)

    with pytest.raises(Refused, match="counter-offer"):
        approve_request(request, as_asked(request, gpus=4), Decider(by=operator, at=NOW))
    with pytest.raises(Refused, match="approve it"):
        counter_offer(request, as_asked(request), Decider(by=operator, at=NOW))


def test_where_any_model_will_do_the_operator_chooses_one_that_is_large_enough(
    lead, node, operator
):
    node.flavor.gpu_memory_mib = 81_920
    node.flavor.save()
    request = submitted(lead, node, flavor=None, gpu_memory_mib=40_960)
    small = NodeFactory(cluster=node.cluster, flavor__gpu_memory_mib=24_576).flavor

    with pytest.raises(Refused, match="less memory"):
        approve_request(request, as_asked(request, flavor=small), Decider(by=operator, at=NOW))
    approve_request(request, as_asked(request, flavor=node.flavor), Decider(by=operator, at=NOW))

    assert request.grant.flavor == node.flavor


def test_more_than_there_is_is_promised_only_on_purpose_and_with_words(lead, node, operator):
    QuotaFactory(flavor=node.flavor, nominal=10)
    request = submitted(lead, node)
    offer = as_asked(request)

    with pytest.raises(OverCommitted) as refused:
        approve_request(request, offer, Decider(by=operator, at=NOW))
    with pytest.raises(Refused, match="Say why"):
        approve_request(request, offer, Decider(by=operator, at=NOW), overcommit=True)
    on_purpose = Decider(by=operator, at=NOW, note="the lender is away")
    approve_request(request, offer, on_purpose, overcommit=True)

    assert refused.value.numbers == {"free": 6, "asked": 8}
    request.refresh_from_db()
    assert request.state == RequestState.ACTIVE


def test_only_days_that_overlap_compete(lead, node, operator):
    first = submitted(lead, node, gpus=16, ends_on=date(2026, 1, 31))
    approve_request(first, as_asked(first), Decider(by=operator, at=NOW))
    after = submitted(lead, node, gpus=16, starts_on=date(2026, 2, 1))
    across = submitted(lead, node, gpus=1, starts_on=date(2026, 1, 31))

    approve_request(after, as_asked(after), Decider(by=operator, at=NOW))
    with pytest.raises(OverCommitted):
        approve_request(across, as_asked(across), Decider(by=operator, at=NOW))


def test_a_broken_or_absent_gpu_is_not_promised(lead, node, operator):
    node.gpus.filter(index__lt=9).update(is_healthy=False)
    request = submitted(lead, node)

    with pytest.raises(OverCommitted):
        approve_request(request, as_asked(request), Decider(by=operator, at=NOW))


def test_a_change_ends_what_it_replaces_in_the_same_instant(lead, node, operator):
    old = submitted(lead, node)
    approve_request(old, as_asked(old), Decider(by=operator, at=NOW))
    old.refresh_from_db()

    more = submitted(lead, node, gpus=12, replaces=old)
    approve_request(more, as_asked(more), Decider(by=operator, at=NOW))

    old.refresh_from_db()
    more.refresh_from_db()
    assert (old.state, more.state) == (RequestState.CLOSED, RequestState.ACTIVE)
    assert story(old)[-1] == ("replace", None, "closed")
    assert quota_rows() == [(12, 0, 12, 0)]


def test_a_change_may_name_another_flavor(lead, node, operator):
    old = submitted(lead, node)
    approve_request(old, as_asked(old), Decider(by=operator, at=NOW))
    old.refresh_from_db()
    other = NodeFactory(cluster=node.cluster, flavor__name="a100", gpus=8)

    moved = submitted(lead, other, replaces=old)
    approve_request(moved, as_asked(moved), Decider(by=operator, at=NOW))

    rows = Quota.objects.values_list("flavor__name", "nominal")
    assert list(rows) == [("a100", 8)]


def test_one_change_is_under_way_at_a_time(lead, node, operator):
    old = submitted(lead, node)
    approve_request(old, as_asked(old), Decider(by=operator, at=NOW))
    old.refresh_from_db()
    submitted(lead, node, replaces=old)

    with pytest.raises(Conflict):
        submitted(lead, node, replaces=old)


def test_a_renewal_says_what_came_of_it(lead, node, operator):
    old = submitted(lead, node)
    approve_request(old, as_asked(old), Decider(by=operator, at=NOW))
    old.refresh_from_db()
    renewal = draft_request(
        wish(node, replaces=old, ends_on=date(2026, 6, 30)),
        tenant=lead.tenant,
        by=lead.user,
        at=NOW,
    )

    with pytest.raises(Refused) as refused:
        submit_request(renewal, by=lead.user, at=NOW)

    assert refused.value.field == "outcome"


def test_what_cannot_be_renewed_says_why(lead, node, operator):
    old = submitted(lead, node)
    offer = as_asked(old, not_renewable_because="the nodes leave in April")
    approve_request(old, offer, Decider(by=operator, at=NOW))
    old.refresh_from_db()

    with pytest.raises(Refused, match="the nodes leave in April"):
        submitted(lead, node, replaces=old, ends_on=date(2026, 6, 30))


def test_gpus_that_are_handed_back_are_quota_no_more(lead, node, operator):
    request = submitted(lead, node, borrowing_gpus=2)
    approve_request(request, as_asked(request), Decider(by=operator, at=NOW))

    hand_back(request, 3, by=lead.user, at=NOW)
    assert quota_rows() == [(5, 2, 5, 2)]
    with pytest.raises(Refused):
        hand_back(request, 6, by=lead.user, at=NOW)
    hand_back(request, 5, by=lead.user, at=NOW)

    request.refresh_from_db()
    assert request.state == RequestState.CLOSED
    assert quota_rows() == []


def test_what_an_operator_has_set_stays_when_grants_come_and_go(lead, node, operator):
    QuotaFactory(
        tenant=lead.tenant, flavor=node.flavor, nominal=4, borrowing_limit=None, lending_limit=2
    )
    request = submitted(lead, node)

    approve_request(request, as_asked(request), Decider(by=operator, at=NOW))
    assert quota_rows() == [(12, None, 8, 0)]
    request.refresh_from_db()
    revoke_grant(request, Decider(by=operator, at=NOW, note="abuse"))

    assert quota_rows() == [(4, None, 0, 0)]
    assert Quota.objects.get().lending_limit == 2


def test_a_small_request_is_approved_by_rule_once(lead, node):
    StarterRuleFactory(flavor=node.flavor, most_gpus=2, most_days=30)
    small = {"gpus": 2, "ends_on": date(2026, 2, 3)}

    first = submitted(lead, node, **small)
    second = submitted(lead, node, **small)

    assert (first.state, second.state) == (RequestState.ACTIVE, RequestState.SUBMITTED)
    assert story(first)[2:] == [
        ("approve_by_rule", None, "approved"),
        ("start", None, "active"),
    ]


@pytest.mark.parametrize(
    "too_much", [{"gpus": 3}, {"borrowing_gpus": 1}, {"ends_on": date(2026, 2, 4)}]
)
def test_a_rule_goes_no_further_than_it_says(lead, node, too_much):
    StarterRuleFactory(flavor=node.flavor, most_gpus=2, most_days=30)

    request = submitted(lead, node, **{"gpus": 2, "ends_on": date(2026, 2, 3)} | too_much)

    assert request.state == RequestState.SUBMITTED


def test_a_rule_promises_nothing_that_is_not_there(lead, node):
    StarterRuleFactory(flavor=node.flavor, most_gpus=2)
    QuotaFactory(flavor=node.flavor, nominal=15)

    request = submitted(lead, node, gpus=2, ends_on=date(2026, 1, 20))

    assert request.state == RequestState.SUBMITTED


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"gpus": 0}, "gpus"),
        ({"justification": "please"}, "justification"),
        ({"starts_on": date(2025, 1, 1), "ends_on": date(2025, 2, 1)}, "ends_on"),
        ({"ends_on": date(2030, 1, 1)}, "ends_on"),
    ],
)
def test_a_request_says_what_is_missing_when_it_is_submitted(lead, node, said, field):
    with pytest.raises(Refused) as refused:
        submitted(lead, node, **said)

    assert refused.value.field == field
    assert QuotaRequest.objects.get().state == RequestState.DRAFT


def test_a_draft_is_changed_until_it_is_submitted(lead, node):
    draft = draft_request(wish(node), tenant=lead.tenant, by=lead.user, at=NOW)

    change_draft(draft, wish(node, gpus=3), by=lead.user)
    submit_request(draft, by=lead.user, at=NOW)
    with pytest.raises(Conflict):
        change_draft(draft, wish(node, gpus=4), by=lead.user)

    draft.refresh_from_db()
    assert draft.gpus == 3


def test_who_decides_on_a_version_that_is_no_more_is_told_so(lead, node, operator):
    request = submitted(lead, node)
    looked_at = Decider(by=operator, at=NOW, seen=request.version, note="ok")
    ask_question(request, Decider(by=operator, at=NOW, note="Which?"))
    answer_question(request, "This one.", by=lead.user, at=NOW)

    with pytest.raises(Conflict, match="in review, by mei"):
        approve_request(request, as_asked(request), looked_at)


OF_LEADS = {
    "submit": lambda request, by: submit_request(request, by=by, at=NOW),
    "answer": lambda request, by: answer_question(request, "x", by=by, at=NOW),
    "accept": lambda request, by: accept_offer(request, by=by, at=NOW),
    "decline": lambda request, by: decline_offer(request, "x", by=by, at=NOW),
    "withdraw": lambda request, by: withdraw_request(request, by=by, at=NOW),
    "hand back": lambda request, by: hand_back(request, 1, by=by, at=NOW),
}
OF_OPERATORS = {
    "ask": ask_question,
    "reject": reject_request,
    "revoke": revoke_grant,
    "approve": lambda request, decider: approve_request(request, as_asked(request), decider),
    "counter": lambda request, decider: counter_offer(request, as_asked(request), decider),
}


@pytest.mark.parametrize("act", OF_LEADS.values(), ids=OF_LEADS)
def test_below_lead_nobody_acts_for_a_tenant(lead, act):
    researcher = MembershipFactory(tenant=lead.tenant, role=Role.RESEARCHER).user
    request = QuotaRequestFactory(tenant=lead.tenant)
    QuotaGrantFactory(request=request)

    with pytest.raises(NotAllowed):
        act(request, researcher)


@pytest.mark.parametrize("act", OF_OPERATORS.values(), ids=OF_OPERATORS)
def test_a_lead_decides_nothing(lead, act):
    request = QuotaRequestFactory(tenant=lead.tenant, state=RequestState.SUBMITTED)
    QuotaGrantFactory(request=request)

    with pytest.raises(NotAllowed):
        act(request, Decider(by=lead.user, at=NOW, note="yes"))


@pytest.mark.parametrize("act", [ask_question, reject_request])
def test_a_question_and_a_no_need_words(lead, operator, act):
    request = QuotaRequestFactory(tenant=lead.tenant, state=RequestState.SUBMITTED)

    with pytest.raises(Refused) as refused:
        act(request, Decider(by=operator, at=NOW, note=" "))

    assert refused.value.field == "note"


def test_another_tenants_grant_is_not_changed(lead, node):
    theirs = QuotaRequestFactory(tenant=TenantFactory(), flavor=node.flavor, state="active")
    QuotaGrantFactory(request=theirs)

    with pytest.raises(Refused):
        submitted(lead, node, replaces=theirs)


def test_every_state_is_reached_from_a_draft_and_leads_to_an_end():
    reached, front = set(), {RequestState.DRAFT}
    while front:
        reached |= front
        front = {after for state in front for after in TRANSITIONS[state]} - reached

    assert reached == set(RequestState) == set(TRANSITIONS)
    assert {state for state, after in TRANSITIONS.items() if not after} == {
        "closed",
        "rejected",
        "declined",
        "withdrawn",
        "revoked",
    }


def test_nothing_leaves_a_list_before_it_is_in_force_or_ended(db):
    for state in RequestState:
        QuotaRequestFactory(state=state)

    listed = set(QuotaRequest.objects.open().values_list("state", flat=True))

    ended = {"closed", "rejected", "declined", "withdrawn", "revoked"}
    assert listed == set(RequestState) - ended


@pytest.mark.parametrize("days", [{"starts_on": date.min}, {"ends_on": date.max}], ids=str)
def test_days_that_no_calendar_can_draw_are_not_even_drafted_or_offered(lead, node, operator, days):
    (field,) = days
    with pytest.raises(Refused) as drafted:
        draft_request(wish(node, **days), tenant=lead.tenant, by=lead.user, at=NOW)
    request = submitted(lead, node)
    with pytest.raises(Refused) as offered:
        counter_offer(request, as_asked(request, **days), Decider(by=operator, at=NOW))

    assert (drafted.value.field, offered.value.field) == (field, field)
    assert list(QuotaRequest.objects.all()) == [request]
