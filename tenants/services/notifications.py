"""Who is told what, by which way and when: each thing at most once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import transaction
from django.db.models import Count, IntegerField, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from portal.core.queueing import send_on_commit
from tenants.models import (
    MailTimes,
    Notification,
    NotificationChoice,
    NotificationKind,
    User,
    Webhook,
    WebhookNotice,
)
from tenants.models.notification import MAILED

KEPT = timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One person and what they are to be told. key: of what happened.

    may_mail: whether it is worth a mail to those who want mail of its kind. happened_at: by the
    clock of the thing. tenant_id: whose webhooks are told of it, too.
    """

    user: User
    kind: NotificationKind
    key: str
    link: str
    happened_at: datetime
    facts: Mapping[str, Any] = field(default_factory=dict)
    may_mail: bool = True
    tenant_id: int | None = None


@dataclass(frozen=True, slots=True)
class Ways:
    in_inbox: bool
    by_mail: bool


def usual_ways(kind: NotificationKind) -> Ways:
    """How people are told of this kind who did not choose."""
    return Ways(in_inbox=True, by_mail=kind in MAILED)


def ways_of(users: Iterable[User]) -> dict[tuple[int, str], Ways]:
    """What people chose, by person and kind. One query."""
    chosen = NotificationChoice.objects.filter(user__in=list(users))
    return {(one.user_id, one.kind): Ways(one.in_inbox, one.by_mail) for one in chosen}


@transaction.atomic
def notify(notices: Sequence[Notice], *, at: datetime) -> None:
    """Tell people; who was told already is not told again. at: wall clock."""
    if not notices:
        return
    users = {notice.user.pk: notice.user for notice in notices}
    chosen = ways_of(users.values())
    times = {one.user_id: one for one in MailTimes.objects.filter(user__in=users)}
    rows = [_row(notice, chosen, times, at) for notice in notices]
    Notification.objects.bulk_create([row for row in rows if row], ignore_conflicts=True)
    count_unread(users)
    _tell_webhooks(notices)
    if any(row and row.mail_due_at == at for row in rows):
        send_on_commit("tenants.send_mail")


def _tell_webhooks(notices: Sequence[Notice]) -> None:
    """What is worth a mail goes to the webhooks of the person, and of the tenant, once each."""
    worth = [notice for notice in notices if notice.may_mail]
    of_people = Q(user__in={notice.user.pk for notice in worth}, user__is_active=True)
    of_tenants = Q(tenant__in={notice.tenant_id for notice in worth} - {None})
    hooks = Webhook.objects.filter(of_people | of_tenants, dead_at__isnull=True)
    rows = [
        WebhookNotice(
            webhook=hook,
            kind=notice.kind,
            key=notice.key,
            facts=dict(notice.facts),
            link=notice.link,
            happened_at=notice.happened_at,
        )
        for hook in hooks
        for notice in worth
        if notice.kind in hook.kinds and _concerns(notice, hook)
    ]
    if rows:
        WebhookNotice.objects.bulk_create(rows, ignore_conflicts=True)
        send_on_commit("tenants.send_webhooks")


def _concerns(notice: Notice, hook: Webhook) -> bool:
    if hook.tenant_id is None:
        return hook.user_id == notice.user.pk
    return hook.tenant_id == notice.tenant_id


def _row(
    notice: Notice,
    chosen: Mapping[tuple[int, str], Ways],
    times: Mapping[int, MailTimes],
    at: datetime,
) -> Notification | None:
    ways = chosen.get((notice.user.pk, notice.kind), usual_ways(notice.kind))
    mails = ways.by_mail and notice.may_mail and bool(notice.user.email)
    if not (ways.in_inbox or mails):
        return None
    return Notification(
        user=notice.user,
        kind=notice.kind,
        key=notice.key,
        facts=dict(notice.facts),
        link=notice.link,
        happened_at=notice.happened_at,
        in_inbox=ways.in_inbox,
        mail_due_at=mail_at(notice.user, times.get(notice.user.pk), at) if mails else None,
    )


def mail_at(user: User, times: MailTimes | None, at: datetime) -> datetime:
    """When a mail of `at` is to leave, as the person's times say."""
    if times is None:
        return at
    local = at.astimezone(zone_of(user))
    if times.daily_at is not None:
        local = _next(local, times.daily_at)
    if times.quiet_from is not None and _is_quiet(local.hour, times):
        local = _next(local, times.quiet_until or 0)
    return local.astimezone(UTC) if local != at else at


def zone_of(user: User) -> ZoneInfo:
    try:
        return ZoneInfo(user.time_zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def _next(local: datetime, hour: int) -> datetime:
    """The next time that the clock shows this full hour."""
    then = local.replace(hour=hour, minute=0, second=0, microsecond=0)
    return then if then >= local else then + timedelta(days=1)


def _is_quiet(hour: int, times: MailTimes) -> bool:
    start, end = times.quiet_from or 0, times.quiet_until or 0
    return start <= hour < end if start <= end else hour >= start or hour < end


def count_unread(user_ids: Iterable[int]) -> None:
    """Keep the number in the header of these people's pages right."""
    unread = Notification.objects.unread().filter(user=OuterRef("pk")).order_by()
    counted = unread.values("user").annotate(n=Count("pk")).values("n")
    User.objects.filter(pk__in=list(user_ids)).update(
        unread=Coalesce(Subquery(counted, output_field=IntegerField()), 0)
    )


@transaction.atomic
def mark_read(user: User, *, at: datetime, pk: int | None = None) -> None:
    """One notification of `user`, or all of them, have been read. at: wall clock."""
    unread = Notification.objects.unread().filter(user=user)
    (unread if pk is None else unread.filter(pk=pk)).update(read_at=at)
    count_unread([user.pk])


@transaction.atomic
def choose(user: User, ways: Mapping[NotificationKind, Ways], **times: int | None) -> None:
    """How `user` wants to be told of each kind, and when mail may come: columns of MailTimes."""
    for kind, way in ways.items():
        NotificationChoice.objects.update_or_create(
            user=user,
            kind=kind,
            defaults={"in_inbox": way.in_inbox, "by_mail": way.by_mail},
        )
    MailTimes.objects.update_or_create(user=user, defaults=times)


def forget_old(*, at: datetime) -> None:
    """What was told long ago is removed. at: wall clock."""
    old = Notification.objects.filter(made_at__lt=at - KEPT)
    users = set(old.unread().values_list("user", flat=True))
    old.delete()
    count_unread(users)
