"""What the reader was told, and how they want to be told."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.core.web import Slice, found, polled, signed_in, tag_of
from tenants.models import MailTimes, Notification, NotificationKind
from tenants.services.notices import told
from tenants.services.notifications import Ways, choose, mark_read, usual_ways, ways_of

PAGE_SIZE = 30
LOOK_EVERY = 15.0  # seconds
UNPROCESSABLE = 422
OPERATORS = {NotificationKind.REQUEST_WAITING}
FIXED = {NotificationKind.INVITED}  # the address is mailed, whoever has it: nothing to choose
HOURS = [("", "–"), *((hour, f"{hour:02}:00") for hour in range(24))]


@require_safe
@signed_in
def inbox(request: HttpRequest) -> HttpResponse:
    """What the reader was told, the newest first."""
    rows = Notification.objects.shown_to(request.user)
    page = Slice.asked_for(request, size=PAGE_SIZE, total=rows.count())
    shown = list(rows[page.start : page.start + page.size])
    return polled(
        request,
        ("tenants/inbox.html", "tenants/partials/_inbox.html"),
        lambda: {
            "page": page,
            "notices": [told(row) for row in shown],
            "unread": request.user.unread,
        },
        tag=tag_of(request, page, [(row.pk, row.read_at) for row in shown]),
        every=LOOK_EVERY,
    )


@require_POST
@signed_in
def read_all(request: HttpRequest) -> HttpResponse:
    mark_read(request.user, at=timezone.now())
    return redirect("inbox")


def own_notification(request: HttpRequest, notification: int) -> Notification:
    return get_object_or_404(Notification.objects.shown_to(request.user), pk=notification)


@found(own_notification, "GET", "HEAD")
def follow(request: HttpRequest, notification: Notification) -> HttpResponse:
    """To what the notification is about, which has been read then."""
    mark_read(request.user, at=timezone.now(), pk=notification.pk)
    return redirect(notification.link)


def _hour(label: str) -> forms.TypedChoiceField:
    return forms.TypedChoiceField(
        label=label, choices=HOURS, coerce=int, empty_value=None, required=False
    )


class TimesForm(forms.Form):
    daily_at = _hour(gettext_lazy("One mail a day, at"))
    quiet_from = _hour(gettext_lazy("No mail from"))
    quiet_until = _hour(gettext_lazy("until"))

    def clean(self) -> dict[str, int | None]:
        said = super().clean() or {}
        if (said.get("quiet_from") is None) != (said.get("quiet_until") is None):
            self.add_error(
                "quiet_until", _("Say both when quiet begins and when it ends, or neither.")
            )
        return said


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def choices(request: HttpRequest) -> HttpResponse:
    """How the reader is told of each kind of thing, and when mail may come."""
    left_out = FIXED if request.user.is_operator else FIXED | OPERATORS
    kinds = [kind for kind in NotificationKind if kind not in left_out]
    times = MailTimes.objects.filter(user=request.user).first()
    form = TimesForm(request.POST or None, initial=vars(times) if times else None)
    if request.method == "POST" and form.is_valid():
        choose(request.user, _said(request, kinds), **form.cleaned_data)
        messages.success(request, _("Kept."))
        return redirect("notification-choices")
    chosen = ways_of([request.user])
    shown = {
        "form": form,
        "rows": [(kind, chosen.get((request.user.pk, kind), usual_ways(kind))) for kind in kinds],
        "sends_mail": settings.SENDS_MAIL,
    }
    status = UNPROCESSABLE if form.errors else 200
    return render(request, "tenants/notification_choices.html", shown, status=status)


def _said(request: HttpRequest, kinds: list[NotificationKind]) -> dict[NotificationKind, Ways]:
    inbox, mail = request.POST.getlist("inbox"), request.POST.getlist("mail")
    return {kind: Ways(kind.value in inbox, kind.value in mail) for kind in kinds}
