"""Mail: what is due for one person leaves as one mail, at most once."""

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
from django.utils.translation import ngettext

from portal.core import audit
from portal.core.errors import Refused
from tenants.access import require_operator
from tenants.models import Notification, User
from tenants.services.notices import told

logger = logging.getLogger(__name__)
MOST_IN_A_MAIL = 50


def send_due_mail(*, at: datetime) -> int:
    """Mail what is due to everybody whom it is due to; how many mails left. at: wall clock.

    Nothing is claimed before the mail server answers, so one that is away delays mail. What it then
    refuses is not tried again: it might come twice.
    """
    users = User.objects.filter(notifications__in=Notification.objects.to_mail(at)).distinct()
    waiting = list(users.order_by("pk"))
    if not waiting or not settings.SENDS_MAIL:
        return 0
    connection = get_connection()
    try:
        connection.open()
        return sum(_mail(user, connection, at=at) for user in waiting)
    except (OSError, SMTPException) as error:
        logger.warning("the mail server does not answer, mail leaves later: %s", error)
        return 0
    finally:
        connection.close()


def _mail(user: User, connection: BaseEmailBackend, *, at: datetime) -> bool:
    rows = _claim(user, at=at)
    if not rows or not user.email or not user.is_active:  # who left is not written to, even late
        return False
    message = _message(user, rows)
    message.connection = connection
    try:
        message.send()
    except (OSError, SMTPException) as error:
        logger.warning("mail to %s was refused: %s", user.username, error)
        return False
    return True


@transaction.atomic
def _claim(user: User, *, at: datetime) -> list[Notification]:
    """What is due, which nobody else will mail from now on."""
    due = Notification.objects.to_mail(at).filter(user=user).order_by("pk")
    rows = list(due.select_for_update(skip_locked=True))
    Notification.objects.filter(pk__in=[row.pk for row in rows]).update(mailed_at=at)
    return rows


def _message(user: User, rows: list[Notification]) -> EmailMessage:
    with translation.override(user.language or settings.LANGUAGE_CODE):
        notices = [told(row) for row in rows]
        subject = notices[0].says
        if len(notices) > 1:
            more = len(notices) - 1
            subject += " " + ngettext("(and %(more)d more)", "(and %(more)d more)", more) % {
                "more": more
            }
        facts = {
            "user": user,
            "notices": notices[:MOST_IN_A_MAIL],
            "more": len(notices[MOST_IN_A_MAIL:]),
            "base": settings.BASE_URL.rstrip("/"),
        }
        body = render_to_string("tenants/mail/notifications.txt", facts)
    return EmailMessage(subject=subject, body=body, to=[user.email])


def send_test_mail(*, by: User) -> None:
    """Mail `by` a few words at once, to see that mail arrives.

    Raises NotAllowed for all but operators; Refused, with what to do, where it cannot leave.
    """
    require_operator(by)
    if not settings.SENDS_MAIL:
        raise Refused(_("No mail server is named: set MUSTER_MAIL_URL and start the portal again."))
    if not by.email:
        raise Refused(_("Your account has no mail address: an operator can enter one."))
    message = EmailMessage(
        subject=_("A test of Muster's mail"),
        body=_("Mail from Muster reaches you. It was sent from %(base)s.")
        % {"base": settings.BASE_URL.rstrip("/")},
        to=[by.email],
    )
    try:
        message.send()
    except (OSError, SMTPException) as error:
        words = _("The mail server did not take it: %(error)s. Check MUSTER_MAIL_URL.")
        raise Refused(words % {"error": error}) from error
    audit.record("send_test_mail", by, by=by, after={"to": by.email})
