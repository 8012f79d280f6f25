"""The mails of invitations: each leaves at most once for each time that it was asked for."""

import logging
from datetime import datetime
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import transaction
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import gettext as _

from tenants.models import Invitation, User
from tenants.services.invitations import path_of

logger = logging.getLogger(__name__)
BATCH = 200


def mail_invitations(*, at: datetime) -> int:
    """Mail the invitations that were asked for and have not left, a batch at most; how many.

    at: wall clock. As with other mail, a server that is away delays it; what it refuses is not
    tried again, but can be sent again by whoever invited.
    """
    waiting = Invitation.objects.filter(mailed_at=None, used_at=None, withdrawn_at=None)
    keys = list(
        waiting.filter(expires_at__gt=at).order_by("pk").values_list("pk", flat=True)[:BATCH]
    )
    if not keys or not settings.SENDS_MAIL:
        return 0
    connection = get_connection()
    try:
        connection.open()
        return sum(_mail(key, connection, at=at) for key in keys)
    except (OSError, SMTPException) as error:
        logger.warning("the mail server does not answer, invitations leave later: %s", error)
        return 0
    finally:
        connection.close()


def _mail(key: int, connection: BaseEmailBackend, *, at: datetime) -> bool:
    invitation = _claim(key, at=at)
    if invitation is None or _is_closed(invitation.email):
        return False
    message = _message(invitation)
    message.connection = connection
    try:
        message.send()
    except (OSError, SMTPException) as error:
        logger.warning("the mail of invitation %s was refused: %s", key, error)
        return False
    return True


@transaction.atomic
def _claim(key: int, *, at: datetime) -> Invitation | None:
    """It, which nobody else will mail from now on; None if somebody does."""
    rows = Invitation.objects.filter(pk=key, mailed_at=None, used_at=None, withdrawn_at=None)
    if not rows.update(mailed_at=at):
        return None
    return Invitation.objects.select_related("tenant", "invited_by").get(pk=key)


def _is_closed(email: str) -> bool:
    """Whether all accounts with this address are closed, which get no mail."""
    own = User.objects.filter(email__iexact=email).values_list("is_active", flat=True)
    found = list(own)
    return bool(found) and not any(found)


def _message(invitation: Invitation) -> EmailMessage:
    reader = User.objects.filter(email__iexact=invitation.email, is_active=True).first()
    language = (reader.language if reader else "") or invitation.invited_by.language
    with translation.override(language or settings.LANGUAGE_CODE):
        facts = {
            "invitation": invitation,
            "link": settings.BASE_URL.rstrip("/") + path_of(invitation),
        }
        return EmailMessage(
            subject=_("%(who)s invites you into %(tenant)s")
            % {"who": invitation.invited_by, "tenant": invitation.tenant.name},
            body=render_to_string("tenants/mail/invitation.txt", facts),
            to=[invitation.email],
        )
