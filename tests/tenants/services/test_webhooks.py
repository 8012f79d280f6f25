"""Webhooks: who keeps them, what they are told, what becomes of one that does not answer."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from portal.core.errors import Conflict, NotAllowed, Refused
from portal.core.models import AuditEvent
from tenants.models import Notification, NotificationKind, Role, Webhook, WebhookNotice
from tenants.services import webhook_wire
from tenants.services.notifications import Notice, notify
from tenants.services.webhook_wire import NotTaken
from tenants.services.webhook_words import Saying, letter_of
from tenants.services.webhooks import (
    MOST_EACH,
    MOST_FAILURES,
    WebhookWish,
    add_webhook,
    queue_due_webhooks,
    remove_webhook,
    revive_webhook,
    tell_webhook,
    try_webhook,
)
from tests.factories import (
    MembershipFactory,
    UserFactory,
    WebhookFactory,
    WebhookNoticeFactory,
)
from tests.tenants.services.test_quota_races import at_once

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
URL = "https://hook.example.org/x"
FAILED, ENDED = NotificationKind.JOB_FAILED, NotificationKind.JOB_ENDED


@pytest.fixture
def wire(monkeypatch):
    """What was posted; with `refuse` set, what each attempt is refused for."""

    class Wire(list):
        refuse = ""

    posted = Wire()

    def post(url, body, headers):
        posted.append((url, json.loads(body), headers))
        if posted.refuse:
            raise NotTaken(posted.refuse)

    monkeypatch.setattr(webhook_wire, "post", post)
    monkeypatch.setattr(webhook_wire, "look_at", lambda _url: None)
    return posted


@pytest.fixture
def lead():
    return MembershipFactory(role=Role.LEAD)


def wish(**given):
    usual = {"name": "chat", "style": Webhook.Style.SLACK, "url": URL, "kinds": (FAILED,)}
    return WebhookWish(**usual | given)


def notice(user, **given):
    usual = {
        "kind": FAILED,
        "key": "job-event:1",
        "link": "/jobs/j-1/",
        "happened_at": NOW,
        "facts": {"job": "train", "state": "failed", "who": ""},
    }
    return Notice(user=user, **usual | given)


def test_a_person_keeps_one_and_the_audit_knows_neither_address_nor_secret(wire):
    user = UserFactory()

    row = add_webhook(wish(secret="s3cret"), tenant=None, by=user)
    remove_webhook(row, by=user)

    assert (row.user, row.tenant) == (user, None)
    lines = list(AuditEvent.objects.order_by("pk").values_list("action", flat=True))
    assert lines == ["add_webhook", "remove_webhook"]
    kept = json.dumps(list(AuditEvent.objects.values("before", "after")))
    assert "s3cret" not in kept
    assert "example.org" not in kept


def test_a_tenants_are_its_leads(wire, lead):
    researcher = MembershipFactory(tenant=lead.tenant, role=Role.RESEARCHER).user
    row = add_webhook(wish(), tenant=lead.tenant, by=lead.user)

    with pytest.raises(NotAllowed):
        add_webhook(wish(name="two"), tenant=lead.tenant, by=researcher)
    for act in (remove_webhook, revive_webhook):
        with pytest.raises(NotAllowed):
            act(row, by=researcher)
    with pytest.raises(NotAllowed):
        try_webhook(row, by=researcher, at=NOW)

    assert Webhook.objects.get() == row


def test_a_persons_own_are_nobody_elses(wire):
    row = WebhookFactory()

    for by in (UserFactory(), UserFactory(is_operator=True)):
        with pytest.raises(NotAllowed):
            remove_webhook(row, by=by)


@pytest.mark.parametrize(
    ("given", "field"),
    [({"name": " "}, "name"), ({"kinds": ()}, "kinds"), ({"name": "old"}, "name")],
)
def test_what_cannot_be_kept_is_refused(wire, given, field):
    user = WebhookFactory(name="old").user

    with pytest.raises(Refused) as refused:
        add_webhook(wish(**given), tenant=None, by=user)

    assert refused.value.field == field


def test_an_address_inside_is_refused_when_it_is_kept():
    with pytest.raises(Refused) as refused:
        add_webhook(wish(url="https://127.0.0.1/"), tenant=None, by=UserFactory())

    assert refused.value.field == "url"
    assert not Webhook.objects.exists()


def test_nobody_keeps_more_than_ten(wire):
    user = UserFactory()
    WebhookFactory.create_batch(MOST_EACH, user=user)

    with pytest.raises(Refused, match="ten"):
        add_webhook(wish(), tenant=None, by=user)


def test_a_program_gets_a_secret_of_ours(wire):
    row = add_webhook(
        wish(style=Webhook.Style.GENERIC, secret="mine"), tenant=None, by=UserFactory()
    )

    assert len(row.secret) > 40


def test_a_notice_goes_to_the_persons_and_to_the_tenants_once_each(wire, lead):
    mine = WebhookFactory(user=lead.user, kinds=[FAILED])
    theirs = WebhookFactory(user=None, tenant=lead.tenant, kinds=[FAILED, ENDED])
    WebhookFactory(user=lead.user, kinds=[ENDED])
    WebhookFactory(kinds=[FAILED])
    WebhookFactory(user=lead.user, kinds=[FAILED], dead_at=NOW)
    other = MembershipFactory(tenant=lead.tenant).user
    told = [notice(who, tenant_id=lead.tenant_id) for who in (lead.user, other)]

    notify(told, at=NOW)
    notify(told, at=NOW)
    notify([notice(lead.user, key="short", may_mail=False)], at=NOW)

    rows = WebhookNotice.objects.order_by("webhook").values_list("webhook", "key")
    assert list(rows) == [(mine.pk, "job-event:1"), (theirs.pk, "job-event:1")]


def test_who_may_not_sign_in_any_more_is_told_nothing(wire):
    user = UserFactory(is_active=False)
    WebhookFactory(user=user, kinds=[FAILED])

    notify([notice(user)], at=NOW)

    assert not WebhookNotice.objects.exists()


def test_what_is_due_is_queued_when_the_transaction_is_in_the_database(
    wire, django_capture_on_commit_callbacks
):
    user = UserFactory()
    WebhookFactory(user=user, kinds=[FAILED])

    with django_capture_on_commit_callbacks() as calls:
        notify([notice(user)], at=NOW)

    assert wire == []
    assert any("tenants.send_webhooks" in call.args for call in calls)


def test_a_webhook_is_told_in_order_and_once_in_the_words_of_its_reader(wire, settings):
    settings.BASE_URL = "https://muster.example.org/"
    hook = WebhookFactory(user__language="zh-hans", url=URL)
    for number in (1, 2):
        facts = {"job": f"train-{number}", "state": "failed", "who": ""}
        WebhookNoticeFactory(webhook=hook, key=f"k{number}", facts=facts)

    assert (tell_webhook(hook.pk, at=NOW), tell_webhook(hook.pk, at=NOW)) == (2, 0)

    assert [body["text"].splitlines()[1] for _url, body, _headers in wire] == [
        "https://muster.example.org/jobs/"
    ] * 2
    assert [body["text"].split("train-")[1][0] for _url, body, _headers in wire] == ["1", "2"]
    assert "失败" in wire[0][1]["text"]
    hook.refresh_from_db()
    assert (hook.failures, hook.answered_at, hook.next_at) == (0, NOW, None)


def test_one_that_fails_is_tried_again_later_and_later_and_nothing_is_lost(wire):
    hook = WebhookFactory()
    WebhookNoticeFactory.create_batch(2, webhook=hook)
    wire.refuse = "It answered with the status 500."

    tell_webhook(hook.pk, at=NOW)
    hook.refresh_from_db()
    first = hook.next_at
    assert (len(wire), hook.failures, first) == (1, 1, NOW + timedelta(seconds=30))
    tell_webhook(hook.pk, at=NOW + timedelta(seconds=29))
    assert len(wire) == 1
    tell_webhook(hook.pk, at=first)
    hook.refresh_from_db()
    assert (hook.failures, hook.next_at) == (2, first + timedelta(minutes=2))
    assert hook.last_error == "It answered with the status 500."

    wire.refuse = ""
    assert tell_webhook(hook.pk, at=hook.next_at) == 2
    hook.refresh_from_db()
    assert (hook.failures, hook.last_error) == (0, "")


def fail_until_dead(hook):
    at = NOW
    for _try in range(MOST_FAILURES):
        tell_webhook(hook.pk, at=at)
        hook.refresh_from_db()
        at = hook.next_at
    return at


def test_after_eight_failures_it_is_given_up_and_its_owners_are_told(wire, lead):
    second = MembershipFactory(tenant=lead.tenant, role=Role.LEAD)
    MembershipFactory(tenant=lead.tenant, role=Role.RESEARCHER)
    hook = WebhookFactory(user=None, tenant=lead.tenant, name="ops chat")
    WebhookNoticeFactory(webhook=hook)
    wire.refuse = "It did not answer in time."

    at = fail_until_dead(hook)
    tell_webhook(hook.pk, at=at)

    assert len(wire) == MOST_FAILURES
    assert hook.dead_at is not None
    assert not hook.notices.filter(sent_at__isnull=True).exists()
    told = Notification.objects.filter(kind="webhook_dead")
    assert set(told.values_list("user", flat=True)) == {lead.user_id, second.user_id}
    assert set(told.values_list("link", flat=True)) == {f"/tenants/{lead.tenant.slug}/webhooks/"}
    line = AuditEvent.objects.get(action="give_up_webhook")
    assert (line.actor, line.reason) == (None, "It did not answer in time.")


def test_one_that_is_brought_back_is_told_only_what_happens_from_then_on(wire):
    hook = WebhookFactory(kinds=[FAILED], dead_at=NOW, failures=8, next_at=NOW + timedelta(days=1))
    WebhookNoticeFactory(webhook=hook, key="meanwhile")

    revive_webhook(hook, by=hook.user)
    notify([notice(hook.user, key="new")], at=NOW)
    tell_webhook(hook.pk, at=NOW)

    assert list(hook.notices.values_list("key", flat=True)) == ["new"]
    assert len(wire) == 1


def test_only_those_with_something_to_be_told_are_queued(wire, monkeypatch):
    queued = []
    monkeypatch.setattr(
        "tenants.services.webhooks.send_again", lambda name, **ids: queued.append((name, ids))
    )
    due = WebhookNoticeFactory().webhook
    WebhookFactory()
    WebhookNoticeFactory(sent_at=NOW)
    WebhookNoticeFactory(webhook__dead_at=NOW)
    WebhookNoticeFactory(webhook__next_at=NOW + timedelta(hours=1))

    queue_due_webhooks(at=NOW)

    assert queued == [("tenants.tell_webhook", {"webhook_id": due.pk})]


def test_a_test_says_why_it_was_not_taken(wire):
    hook = WebhookFactory()

    try_webhook(hook, by=hook.user, at=NOW)
    wire.refuse = "It answered with the status 404."
    with pytest.raises(Refused, match="status 404"):
        try_webhook(hook, by=hook.user, at=NOW)

    assert list(AuditEvent.objects.values_list("action", flat=True)) == ["try_webhook"]


def test_what_is_gone_is_said(wire):
    hook = WebhookFactory()
    Webhook.objects.all().delete()

    with pytest.raises(Conflict):
        remove_webhook(hook, by=hook.user)
    assert tell_webhook(hook.pk, at=NOW) == 0


def letter(style, **given):
    saying = Saying(
        key="job-event:1",
        kind="job_failed",
        says="<at user_id=all> @all has failed.",
        link="https://m/jobs/j-1/",
        happened_at=NOW,
        tenant="nlp",
    )
    return letter_of(Webhook(style=style, url=URL, **given), saying, at=NOW)


@pytest.mark.parametrize(
    ("style", "where"),
    [
        ("slack", ["text"]),
        ("feishu", ["content", "text"]),
        ("dingtalk", ["text", "content"]),
        ("wecom", ["text", "content"]),
    ],
)
def test_each_chat_gets_its_own_form_and_no_name_calls_everybody(style, where):
    text = json.loads(letter(style).body)
    for name in where:
        text = text[name]

    assert text.endswith("has failed.\nhttps://m/jobs/j-1/")
    assert "<" not in text
    assert "@all" not in text


def test_a_program_can_tell_that_it_is_from_us():
    wire = letter("generic", secret="shared")

    stamp = wire.headers["X-Muster-Timestamp"]
    mark = hmac.new(b"shared", stamp.encode() + b"." + wire.body, hashlib.sha256).hexdigest()
    assert wire.headers["X-Muster-Signature"] == f"sha256={mark}"
    body = json.loads(wire.body)
    assert (body["id"], body["kind"], body["tenant"]) == ("job-event:1", "job_failed", "nlp")


def test_the_signatures_of_feishu_and_dingtalk_are_over_time_and_secret():
    feishu = json.loads(letter("feishu", secret="s").body)
    dingtalk = parse_qs(urlsplit(letter("dingtalk", secret="s").url).query)

    stamp = feishu["timestamp"]
    mark = hmac.new(f"{stamp}\ns".encode(), b"", hashlib.sha256).digest()
    assert feishu["sign"] == base64.b64encode(mark).decode()
    millis = dingtalk["timestamp"][0]
    mark = hmac.new(b"s", f"{millis}\ns".encode(), hashlib.sha256).digest()
    assert dingtalk["sign"] == [base64.b64encode(mark).decode()]
    assert int(millis) == int(stamp) * 1000


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("round_", range(3))
def test_two_workers_at_once_tell_it_once(wire, round_):
    hook = WebhookFactory()
    WebhookNoticeFactory.create_batch(3, webhook=hook)

    at_once(*[lambda: tell_webhook(hook.pk, at=NOW)] * 2)

    assert len(wire) == 3
