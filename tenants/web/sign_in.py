from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from portal.core.errors import PortalError
from tenants.services.sign_in import use_sign_in_link

GONE = 410

DEMO = {"is_demo": bool(settings.SIMCLUSTER_URL)}  # whose people have no passwords

sign_in = LoginView.as_view(
    template_name="tenants/sign_in.html", redirect_authenticated_user=True, extra_context=DEMO
)
sign_out = LogoutView.as_view()


@never_cache
@require_GET
def sign_in_by_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Signs its bearer in, once; who has no password then chooses one. A spent link says so."""
    try:
        user = use_sign_in_link(secret, at=timezone.now())
    except PortalError:
        return render(request, "tenants/link_used.html", DEMO, status=GONE)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    if DEMO["is_demo"] or user.has_usable_password():
        return redirect("home")
    return redirect("password")
