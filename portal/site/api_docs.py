from drf_spectacular.views import SpectacularSwaggerSplitView


class ApiDocsView(SpectacularSwaggerSplitView):
    """The API to try out in the browser: Swagger UI from our own files, no inline script."""

    url_name = "api:schema"
    template_name = "api/docs.html"
