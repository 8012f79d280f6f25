"""Webhooks: kept by people and leads, tried by hand, and told what happens.

A webhook that fails is tried again later and later, and after MOST_FAILURES in a row is given up:
its owners are told, nothing more is kept for it, and a button brings it back.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.acting import refuse_while_acting
from portal.core.errors import Conflict, NotAllowed, Refused
from portal.core.queueing import send_again, send_on_commit
from tenants.access import require_role
from tenants.models import (
    Membership,
    NotificationKind,
    Role,
    Tenant,
    User,
    Webhook,
    WebhookNotice,
)
from tenants.services import webhook_wire
from tenants.services.notices import told
from tenants.services.notifications import KEPT, Notice, notify
from tenants.services.webhook_words import Saying, letter_of

MOST_FAILURES = 8  # in a row: about a day and a half of trying
FIRST_PAUSE = timedelta(seconds=30)  # four times as long after each failure
LONGEST_PAUSE = timedelta(hours=12)
LEASE = timedelta(minutes=5)  # a worker that died while it sent is waited for
MOST_AT_ONCE = 20  # notices of one webhook before the others get their turn
MOST_EACH = 10  # webhooks of one person or tenant
SIGNED = frozenset({Webhook.Style.FEISHU, Webhook.Style.DINGTALK})  # by a secret of the chat's


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookWish:
    """secret: of the chat, where it asks for a signature."""

    name: str
    style: Webhook.Style
    url: str
    kinds: tuple[NotificationKind, ...]
    secret: str = ""


@transaction.atomic
def add_webhook(wish: WebhookWish, *, tenant: Tenant | None, by: User) -> Webhook:
    """A webhook of `tenant`, or of the person who adds it; its `secret` is to be shown now.

    Raises NotAllowed for all but leads of the tenant, Refused.
    """
    refuse_while_acting()
    if tenant is not None:
        require_role(by, tenant, Role.LEAD)
    _check(wish)
    owner = {"user": by} if tenant is None else {"tenant": tenant}
    if Webhook.objects.filter(**owner).count() >= MOST_EACH:
        raise Refused(_("There are ten webhooks already; take one away first."))
    row = Webhook(**owner, made_by=by, name=wish.name.strip(), style=wish.style, url=wish.url)
    row.kinds = sorted(wish.kinds)
    row.secret = secrets.token_urlsafe(32) if wish.style == Webhook.Style.GENERIC else wish.secret
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise Refused(_("There is a webhook of that name."), field="name") from None
    audit.record("add_webhook", row, by=by, after=_plain(row))
    return row


@transaction.atomic
def remove_webhook(webhook: Webhook, *, by: User) -> None:
    """It is told nothing more. Raises NotAllowed, Conflict where it is gone."""
    locked = _locked(webhook, by)
    audit.record("remove_webhook", locked, by=by, before=_plain(locked))
    locked.delete()


@transaction.atomic
def revive_webhook(webhook: Webhook, *, by: User) -> None:
    """One that was given up is told again what happens from now on. Raises as remove_webhook."""
    locked = _locked(webhook, by)
    before = _plain(locked)
    locked.notices.filter(sent_at__isnull=True).delete()  # what came between is no news now
    locked.dead_at, locked.next_at, locked.failures = None, None, 0
    locked.save(update_fields=["dead_at", "next_at", "failures"])
    audit.record("revive_webhook", locked, by=by, before=before, after=_plain(locked))


def try_webhook(webhook: Webhook, *, by: User, at: datetime) -> None:
    """Send a few words at once. at: wall clock.

    Raises NotAllowed, and Refused with the reason where they were not taken.
    """
    _require(webhook, by)
    saying = Saying(
        key="test",
        kind="test",
        says=_("A test of Muster's webhook %(name)s: it arrives.") % {"name": webhook.name},
        link=_base(),
        happened_at=at,
        tenant=webhook.tenant.slug if webhook.tenant else "",
    )
    letter = letter_of(webhook, saying, at=at)
    try:
        webhook_wire.post(letter.url, letter.body, letter.headers)
    except webhook_wire.NotTaken as error:
        raise Refused(_("It was not taken: %(error)s") % {"error": error}) from None
    audit.record("try_webhook", webhook, by=by)


def queue_due_webhooks(*, at: datetime) -> None:
    """Have every webhook told that has something to be told. at: wall clock."""
    waiting = Webhook.objects.filter(_due(at), dead_at__isnull=True)
    keys = waiting.filter(notices__isnull=False, notices__sent_at__isnull=True).distinct()
    for pk in keys.order_by("pk").values_list("pk", flat=True):
        send_again("tenants.tell_webhook", webhook_id=pk)


def tell_webhook(pk: int, *, at: datetime) -> int:
    """Tell one webhook what it is to be told, oldest first; how much was taken. at: wall clock.

    Of two workers at once one does. A worker that dies before it has noted what it sent leaves
    that to be sent again, with the same key.
    """
    webhook = _claim(pk, at)
    if webhook is None:
        return 0
    rows = webhook.notices.filter(sent_at__isnull=True).order_by("pk")
    batch = list(rows[:MOST_AT_ONCE])
    for taken, row in enumerate(batch):
        letter = letter_of(webhook, _saying(webhook, row), at=at)
        try:
            webhook_wire.post(letter.url, letter.body, letter.headers)
        except webhook_wire.NotTaken as error:
            _failed(webhook, str(error), at)
            return taken
        WebhookNotice.objects.filter(pk=row.pk).update(sent_at=at)
    Webhook.objects.filter(pk=pk).update(failures=0, last_error="", next_at=None, answered_at=at)
    if len(batch) == MOST_AT_ONCE:
        send_on_commit("tenants.tell_webhook", webhook_id=pk)
    return len(batch)


def forget_old_notices(*, at: datetime) -> None:
    """What was told long ago is removed. at: wall clock."""
    WebhookNotice.objects.filter(made_at__lt=at - KEPT).delete()


@transaction.atomic
def _claim(pk: int, at: datetime) -> Webhook | None:
    """The webhook, which nobody else tells anything until the lease ends; None where one does."""
    rows = Webhook.objects.select_for_update(skip_locked=True, of=("self",))
    row = rows.filter(_due(at), pk=pk, dead_at__isnull=True).first()
    if row is not None:
        Webhook.objects.filter(pk=pk).update(next_at=at + LEASE)
    return row


@transaction.atomic
def _failed(webhook: Webhook, error: str, at: datetime) -> None:
    """Try again later, or give it up."""
    row = Webhook.objects.select_for_update(of=("self",)).filter(pk=webhook.pk).first()
    if row is None:
        return
    row.failures += 1
    row.last_error = error[:200]
    row.next_at = at + min(FIRST_PAUSE * 4 ** (row.failures - 1), LONGEST_PAUSE)
    if row.failures >= MOST_FAILURES:
        _give_up(row, at)
    row.save(update_fields=["failures", "last_error", "next_at", "dead_at"])


def _give_up(row: Webhook, at: datetime) -> None:
    row.dead_at = at
    row.notices.filter(sent_at__isnull=True).delete()
    audit.record("give_up_webhook", row, by=None, after=_plain(row), reason=row.last_error)
    if row.tenant is None:
        owners, link = [row.user], reverse("webhooks")
    else:
        leads = Membership.objects.filter(tenant=row.tenant, role=Role.LEAD).select_related("user")
        owners = [membership.user for membership in leads]
        link = reverse("tenant-webhooks", args=[row.tenant.slug])
    notices = [
        Notice(
            user=owner,
            kind=NotificationKind.WEBHOOK_DEAD,
            key=f"webhook:{row.pk}:{int(at.timestamp())}",
            link=link,
            happened_at=at,
            facts={"webhook": row.name},
        )
        for owner in owners
    ]
    notify(notices, at=at)


def _due(at: datetime) -> Q:
    return Q(next_at__isnull=True) | Q(next_at__lte=at)


def _saying(webhook: Webhook, row: WebhookNotice) -> Saying:
    reader = webhook.user or webhook.made_by
    with translation.override(reader.language or settings.LANGUAGE_CODE):
        return Saying(
            key=row.key,
            kind=row.kind,
            says=told(row).says,
            link=_base() + row.link,
            happened_at=row.happened_at,
            tenant=webhook.tenant.slug if webhook.tenant else "",
        )


def _base() -> str:
    return settings.BASE_URL.rstrip("/")


def _check(wish: WebhookWish) -> None:
    if not wish.name.strip():
        raise Refused(_("Give it a name."), field="name")
    if not wish.kinds:
        raise Refused(_("Choose at least one thing that it is told of."), field="kinds")
    webhook_wire.look_at(wish.url)


def _require(webhook: Webhook, by: User) -> None:
    if webhook.tenant is not None:
        require_role(by, webhook.tenant, Role.LEAD)
    elif webhook.user_id != by.pk:
        raise NotAllowed(_("This webhook is somebody else's."))


def _locked(webhook: Webhook, by: User) -> Webhook:
    _require(webhook, by)
    rows = Webhook.objects.select_for_update(of=("self",)).select_related("tenant")
    row = rows.filter(pk=webhook.pk).first()
    if row is None:
        raise Conflict(_("This webhook is gone."))
    return row


def _plain(row: Webhook) -> dict[str, object]:
    """What the audit keeps: neither the address nor the secret."""
    return {
        "name": row.name,
        "style": row.style,
        "kinds": list(row.kinds),
        "is_dead": row.dead_at is not None,
    }
