"""Everything under /api/: the resources of the apps, their description, and 404 for the rest."""

from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularJSONAPIView

from portal.core.api.nowhere import NowhereDoor
from portal.site.api_docs import ApiDocsView

app_name = "api"

urlpatterns = [
    path("docs/", ApiDocsView.as_view(), name="docs"),
    path("v1/openapi.json", SpectacularJSONAPIView.as_view(), name="schema"),
    path("v1/", include("scheduling.api.urls")),
    path("v1/", include("tenants.api.urls")),
    path("v1/", include("topology.api.urls")),
    path("v1", NowhereDoor.as_view({"get": "nowhere"})),
    re_path(r"^v1/.*$", NowhereDoor.as_view({"get": "nowhere"})),
]
