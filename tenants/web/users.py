"""Accounts for operators: the list, the form of one, and a link that lets somebody in."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.core.errors import Conflict, Refused
from portal.core.web import Slice, blame, signed_in
from tenants.access import require_operator
from tenants.models import User
from tenants.services.users import (
    UserWish,
    activate_user,
    change_user,
    create_user,
    deactivate_user,
    reset_by_link,
)

UNPROCESSABLE = 422
PAGE_SIZE = 50
GROUPS = {"": Q(), "operators": Q(is_operator=True), "closed": Q(is_active=False)}


class UserForm(forms.Form):
    username = forms.CharField(
        label=gettext_lazy("User name"),
        max_length=150,
        help_text=gettext_lazy("What they sign in with; it is never changed."),
    )
    first_name = forms.CharField(label=gettext_lazy("First name"), max_length=150, required=False)
    last_name = forms.CharField(label=gettext_lazy("Last name"), max_length=150, required=False)
    email = forms.EmailField(label=gettext_lazy("Mail address"), required=False)
    is_operator = forms.BooleanField(
        label=gettext_lazy("An operator: may do everything, in every tenant"), required=False
    )

    def wish(self) -> UserWish:
        return UserWish(**self.cleaned_data)


@require_safe
@signed_in
def users(request: HttpRequest) -> HttpResponse:
    """Accounts by name, a page of them; `?q=` and `?group=` choose."""
    require_operator(request.user)
    text = request.GET.get("q", "").replace("\0", "").strip()[:80]
    group = request.GET.get("group", "")
    rows = User.objects.filter(GROUPS.get(group, Q()))
    if text:
        named = (Q(**{f"{name}__icontains": text}) for name in ("first_name", "last_name", "email"))
        found = Q(username__icontains=text)
        for other in named:
            found |= other
        rows = rows.filter(found)
    page = Slice.asked_for(request, size=PAGE_SIZE, total=rows.count())
    shown = {
        "rows": rows.annotate(tenants=Count("memberships")).order_by("username")[
            page.start : page.start + PAGE_SIZE
        ],
        "page": page,
        "text": text,
        "group": group if group in GROUPS else "",
    }
    return render(request, "tenants/users.html", shown)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest) -> HttpResponse:
    require_operator(request.user)
    form = UserForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            user = create_user(form.wish(), by=request.user)
        except (Conflict, Refused) as refusal:
            blame(form, refusal)
        else:
            messages.success(request, _("The account is there. Give its owner a link to come in."))
            return redirect("user", user.username)
    status = UNPROCESSABLE if form.errors else 200
    return render(request, "tenants/user_new.html", {"form": form}, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def user_page(request: HttpRequest, account: str) -> HttpResponse:
    """One account; a POST changes it."""
    require_operator(request.user)
    person = _found(account)
    form = _form(request.POST if request.method == "POST" else None, person)
    if form.is_bound and form.is_valid():
        try:
            change_user(
                person, UserWish(username=person.username, **form.cleaned_data), by=request.user
            )
        except Refused as refusal:
            blame(form, refusal)
        else:
            messages.success(request, _("The account of %(user)s is changed.") % {"user": person})
            return redirect("user", person.username)
    return _page(request, person, form)


@never_cache  # a secret stands in it
@require_POST
@signed_in
def user_link(request: HttpRequest, account: str) -> HttpResponse:
    """Voids the password, and shows once a link by which its owner chooses another."""
    require_operator(request.user)
    person = _found(account)
    try:
        link = reset_by_link(person, by=request.user, at=timezone.now(), base_url=settings.BASE_URL)
    except Refused as refusal:
        messages.error(request, str(refusal))
        return redirect("user", person.username)
    return _page(request, person, _form(None, person), link=link)


@require_POST
@signed_in
def user_active(request: HttpRequest, account: str) -> HttpResponse:
    """Closes an account, or with `open` opens it again."""
    require_operator(request.user)
    person = _found(account)
    try:
        if "open" in request.POST:
            activate_user(person, by=request.user)
            said = _("The account of %(user)s is open.")
        else:
            deactivate_user(person, by=request.user)
            said = _("The account of %(user)s is closed; jobs run on.")
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, said % {"user": person})
    return redirect("user", person.username)


def _found(account: str) -> User:
    return get_object_or_404(User, username=account.replace("\0", ""))


def _form(data: Any, person: User) -> UserForm:
    names = ("first_name", "last_name", "email", "is_operator")
    form = UserForm(data, initial={name: getattr(person, name) for name in names})
    del form.fields["username"]
    return form


def _page(request: HttpRequest, person: User, form: UserForm, link: str = "") -> HttpResponse:
    shown = {
        "person": person,
        "form": form,
        "link": link,
        "memberships": person.memberships.select_related("tenant").order_by("tenant__slug"),
    }
    status = UNPROCESSABLE if form.errors else 200
    return render(request, "tenants/user.html", shown, status=status)
