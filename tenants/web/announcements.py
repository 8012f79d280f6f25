"""Announcements: the list and the form for operators, the banner for everybody."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.core.errors import Conflict, PortalError, Refused
from portal.core.web import blame, signed_in
from tenants.access import require_operator
from tenants.models import Announcement, AnnouncementLevel
from tenants.services.announcements import (
    AnnouncementWish,
    change_announcement,
    end_announcement,
    make_announcement,
)

UNPROCESSABLE = 422
USUAL = timedelta(days=7)
SHOWN = 50  # of those that are over
DISMISSED = "announcements_dismissed"  # in the session: [key, version] of each
MOST_DISMISSED = 50
WRITTEN = "%Y-%m-%dT%H:%M"
LARGEST = 2**63 - 1  # of a key


class AnnouncementForm(forms.Form):
    text = forms.CharField(
        label=gettext_lazy("In English"), max_length=500, widget=forms.Textarea({"rows": 2})
    )
    text_zh = forms.CharField(
        label=gettext_lazy("In Chinese"),
        max_length=500,
        required=False,
        widget=forms.Textarea({"rows": 2, "lang": "zh-Hans"}),
        help_text=gettext_lazy("Without it everybody reads the English text."),
    )
    level = forms.ChoiceField(label=gettext_lazy("How urgent"), choices=AnnouncementLevel.choices)
    from_at = forms.DateTimeField(
        label=gettext_lazy("From"),
        widget=forms.DateTimeInput({"type": "datetime-local"}, format=WRITTEN),
    )
    until_at = forms.DateTimeField(
        label=gettext_lazy("Until"),
        widget=forms.DateTimeInput({"type": "datetime-local"}, format=WRITTEN),
    )

    def wish(self) -> AnnouncementWish:
        level = AnnouncementLevel(self.cleaned_data["level"])
        return AnnouncementWish(**self.cleaned_data | {"level": level})


@require_safe
@signed_in
def announcements(request: HttpRequest) -> HttpResponse:
    """What is shown now, what will be, and what was."""
    require_operator(request.user)
    now = timezone.now()
    rows = Announcement.objects.select_related("made_by")
    shown = {
        "now": now,
        "current": rows.filter(until_at__gt=now).order_by("from_at", "pk"),
        "past": rows.filter(until_at__lte=now).order_by("-until_at", "-pk")[:SHOWN],
    }
    return render(request, "tenants/announcements.html", shown)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest) -> HttpResponse:
    require_operator(request.user)
    now = timezone.now().replace(second=0, microsecond=0)
    proposed = {"level": AnnouncementLevel.INFO, "from_at": now, "until_at": now + USUAL}
    form = AnnouncementForm(request.POST if request.method == "POST" else None, initial=proposed)
    if form.is_bound and form.is_valid():
        try:
            row = make_announcement(form.wish(), by=request.user)
        except Refused as refusal:
            blame(form, refusal)
        else:
            messages.success(request, _said(row, timezone.now()))
            return redirect("announcements")
    return _form_page(request, form)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def edit(request: HttpRequest, announcement: int) -> HttpResponse:
    require_operator(request.user)
    row = _found(announcement)
    form = AnnouncementForm(
        request.POST if request.method == "POST" else None, initial=_stored(row)
    )
    if not form.is_bound or not form.is_valid():
        return _form_page(request, form, row)
    try:
        change_announcement(row, form.wish(), by=request.user, seen=_seen(request))
    except Conflict as conflict:
        row.refresh_from_db()
        return _form_page(request, AnnouncementForm(initial=_stored(row)), row, conflict)
    except Refused as refusal:
        blame(form, refusal)
        return _form_page(request, form, row)
    messages.success(request, _("The announcement is changed."))
    return redirect("announcements")


@require_POST
@signed_in
def end(request: HttpRequest, announcement: int) -> HttpResponse:
    """Show it no longer."""
    require_operator(request.user)
    row = _found(announcement)
    try:
        end_announcement(row, by=request.user, at=timezone.now())
    except PortalError as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, _("It is shown no longer."))
    return redirect("announcements")


@require_POST
@signed_in
def dismiss(request: HttpRequest, announcement: int) -> HttpResponse:
    """Leave it out of the reader's pages until it says something else, or they sign in again."""
    row = get_object_or_404(Announcement.objects.shown_at(timezone.now()), pk=_key(announcement))
    kept = [own for own in request.session.get(DISMISSED, []) if own[0] != row.pk]
    request.session[DISMISSED] = [*kept, [row.pk, row.version]][-MOST_DISMISSED:]
    here = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(here, allowed_hosts={request.get_host()})
    return redirect(here if safe else "home")


def banners(request: HttpRequest) -> list[dict[str, Any]]:
    """What every page of a reader shows on top: key, level and text in their language. One query.

    The most urgent first.
    """
    dismissed = {tuple(own) for own in request.session.get(DISMISSED, [])}
    rows = [
        row
        for row in Announcement.objects.shown_at(timezone.now())
        if (row.pk, row.version) not in dismissed
    ]
    rank = list(AnnouncementLevel)[::-1].index
    rows.sort(key=lambda row: (rank(AnnouncementLevel(row.level)), row.from_at, row.pk))
    is_chinese = (get_language() or "").startswith("zh")
    return [
        {
            "pk": row.pk,
            "level": row.level,
            "text": row.text_zh if is_chinese and row.text_zh else row.text,
            "lang": "" if not is_chinese or row.text_zh else "en",
        }
        for row in rows
    ]


def _found(announcement: int) -> Announcement:
    return get_object_or_404(Announcement, pk=_key(announcement))


def _key(announcement: int) -> int:
    return min(announcement, LARGEST)


def _seen(request: HttpRequest) -> int:
    said = request.POST.get("seen", "")
    return int(said) if said.isdecimal() and len(said) < 9 else -1  # noqa: PLR2004 - no version has more digits


def _stored(row: Announcement) -> dict[str, Any]:
    return {name: getattr(row, name) for name in AnnouncementForm.base_fields}


def _said(row: Announcement, now: datetime) -> str:
    if row.from_at <= now:
        return _("Everybody reads it from now on.")
    return _("It is kept, and shown in its time.")


def _form_page(
    request: HttpRequest,
    form: AnnouncementForm,
    row: Announcement | None = None,
    refusal: PortalError | None = None,
) -> HttpResponse:
    status = refusal.status if refusal else UNPROCESSABLE if form.errors else 200
    shown = {"form": form, "row": row, "refusal": refusal}
    return render(request, "tenants/announcement_form.html", shown, status=status)
