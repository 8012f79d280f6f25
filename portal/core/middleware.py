import secrets
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


class RequestIdMiddleware:
    """Gives each request a short id that error pages, problem+json and the log share.

    Cookies with NUL, which nothing of ours ever set, are left out: a session is looked for in the
    database, which refuses them.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = secrets.token_hex(4).upper()
        request.META["muster.request_id"] = request_id
        request.COOKIES = {
            name: value for name, value in request.COOKIES.items() if "\0" not in value
        }
        response = self.get_response(request)
        response["X-Request-Id"] = request_id
        return response
