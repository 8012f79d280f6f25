from django.contrib import admin
from django.urls import include, path

from portal.site import errors

urlpatterns = [
    path("backoffice/", admin.site.urls),
    path("", include("portal.site.urls")),
    path("", include("tenants.web.urls")),
    path("", include("scheduling.web.urls")),
    path("api/", include("portal.api_urls")),
    path("", include("portal.site.health_urls")),
]

handler400 = errors.bad_request
handler403 = errors.permission_denied
handler404 = errors.not_found
handler500 = errors.server_error
