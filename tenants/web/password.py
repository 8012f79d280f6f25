"""The reader's own password."""

from django import forms
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from portal.core.errors import Refused
from portal.core.web import blame, signed_in
from tenants.services.users import choose_password

UNPROCESSABLE = 422


class PasswordForm(forms.Form):
    """Asks for the present password, if there is one."""

    old = forms.CharField(
        label=gettext_lazy("Present password"),
        strip=False,
        widget=forms.PasswordInput({"autocomplete": "current-password"}),
    )
    password = forms.CharField(
        label=gettext_lazy("New password"),
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        help_text=gettext_lazy("Eight characters or more; a few words in a row do well."),
    )
    again = forms.CharField(
        label=gettext_lazy("New password, once more"),
        strip=False,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
    )


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def password(request: HttpRequest) -> HttpResponse:
    """Chooses a password; other browsers of the reader are signed out by it."""
    form = PasswordForm(request.POST if request.method == "POST" else None)
    has_one = request.user.has_usable_password()
    if not has_one:
        del form.fields["old"]
    if form.is_bound and form.is_valid() and _choose(form, request):
        return redirect("home")
    status = UNPROCESSABLE if form.errors else 200
    return render(
        request, "tenants/password.html", {"form": form, "has_one": has_one}, status=status
    )


def _choose(form: PasswordForm, request: HttpRequest) -> bool:
    said = form.cleaned_data
    if "old" in said and not request.user.check_password(said["old"]):
        form.add_error("old", _("That is not your present password."))
        return False
    if said["password"] != said["again"]:
        form.add_error("again", _("The two are not the same."))
        return False
    try:
        choose_password(request.user, said["password"])
    except Refused as refusal:
        blame(form, refusal)
        return False
    update_session_auth_hash(request, request.user)
    messages.success(request, _("Your password is set."))
    return True
