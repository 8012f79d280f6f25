"""The same `Idempotency-Key` gets the same answer, so that a client may ask again in doubt.

A key is claimed before the work and its answer is kept in the transaction of the work itself:
either both are in the database or neither is. Only the answer of a request that changed something
is kept; one that was refused changed nothing, and its key is free for the next try.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from portal.core.errors import Conflict, IdempotencyKeyReused
from portal.core.models import IdempotencyKey

KEPT_FOR = timedelta(hours=24)
ABANDONED_AFTER = timedelta(minutes=2)  # longer than any request may run
LONGEST_KEY = 255
_REPLAYED_HEADERS = ("Location", "ETag")
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="Up to 255 characters; the same key gets the same answer for 24 hours.",
)


class StillRunning(Conflict):
    """The first request with this key has not been answered yet."""

    code = "still_running"
    retry_after_seconds = 1


@dataclass(frozen=True, slots=True)
class Claim:
    """A key that this request holds. claimed_at: tells our claim from one that took it over."""

    row: IdempotencyKey
    claimed_at: datetime


def once(request: Request, work: Callable[[], Response]) -> Response:
    """The answer of `work`, which runs at most once for each of the caller's keys in a day.

    Without a key it simply runs. Raises IdempotencyKeyReused when the key came with another
    request before, StillRunning while the first one is at it.
    """
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return work()
    claimed = _claim(request, _checked(key), at=timezone.now())
    if isinstance(claimed, Response):
        return claimed
    try:
        with transaction.atomic():
            response = work()
            _keep(claimed, response)
    except BaseException:
        _mine(claimed).delete()
        raise
    return response


def _checked(key: str) -> str:
    if not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        message = _("A key has 1 to %d printable characters.") % LONGEST_KEY
        raise ValidationError({"Idempotency-Key": [ErrorDetail(message, code="invalid")]})
    return key


def _claim(request: Request, key: str, *, at: datetime) -> Claim | Response:
    """A claim on `key`, or the answer that it got before."""
    digest = _digest(request)
    user: Any = request.user
    mine = IdempotencyKey.objects.filter(user=user)
    mine.filter(created_at__lt=at - KEPT_FOR).delete()
    row, is_new = mine.get_or_create(
        key=key,
        defaults={"user": user, "request_digest": digest, "created_at": at},
    )
    if is_new:
        return Claim(row, at)
    if row.request_digest != digest:
        raise IdempotencyKeyReused(_("This key came with another request before; use a new one."))
    if row.status is not None:
        return _replay(row)
    return _take_over(row, at=at)


def _take_over(row: IdempotencyKey, *, at: datetime) -> Claim:
    """The claim of a request that died half-way, its work undone; StillRunning if it lives."""
    if at - row.created_at >= ABANDONED_AFTER:
        abandoned = IdempotencyKey.objects.filter(pk=row.pk, status=None, created_at=row.created_at)
        if abandoned.update(created_at=at):
            return Claim(row, at)
    raise StillRunning(_("The first request with this key is still running; ask again."))


def _keep(claim: Claim, response: Response) -> None:
    headers = {name: response[name] for name in _REPLAYED_HEADERS if name in response}
    body = {"data": json.loads(JSONRenderer().render(response.data)), "headers": headers}
    if not _mine(claim).update(status=response.status_code, body=body):
        raise StillRunning(_("Another request took this key over; ask again."))


def _mine(claim: Claim) -> Any:
    return IdempotencyKey.objects.filter(pk=claim.row.pk, status=None, created_at=claim.claimed_at)


def _replay(row: IdempotencyKey) -> Response:
    kept = row.body or {}
    headers = {**kept["headers"], "Idempotent-Replayed": "true"}
    return Response(kept["data"], status=row.status, headers=headers)


def _digest(request: Request) -> str:
    asked = [request.method, request.path, request.data]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
