"""Every error of the API is one problem+json document (RFC 9457), made here and nowhere else."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.http import Http404
from django.utils.log import log_response
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import set_rollback

from portal.core.errors import PortalError

PROBLEM_JSON = "application/problem+json"


class TooLarge(exceptions.APIException):
    """The body exceeds what the portal reads."""

    status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"
    default_detail = gettext_lazy("The body is larger than the portal reads.")


class DatabaseAway(exceptions.APIException):
    """The database does not answer, or not in time."""

    status_code = HTTPStatus.SERVICE_UNAVAILABLE
    default_code = "unavailable"
    default_detail = gettext_lazy("The portal cannot reach its database; try again in a moment.")
    retry_after_seconds = 5


def handle_exception(exc: Exception, context: dict[str, Any]) -> Response:
    """The problem+json answer to any error; for a bug of ours one that says nothing about it."""
    set_rollback()
    request: Request = context["request"]
    if isinstance(exc, PortalError):
        return _answer_portal_error(exc, request)
    if isinstance(exc, Http404):
        exc = exceptions.NotFound()
    elif isinstance(exc, PermissionDenied):
        exc = exceptions.PermissionDenied()
    elif isinstance(exc, RequestDataTooBig):
        exc = TooLarge()
    elif isinstance(exc, OperationalError | InterfaceError):
        exc = DatabaseAway()
    if isinstance(exc, exceptions.APIException):
        return _answer_api_exception(exc, request)
    return _answer_bug(exc, request)


def _answer_portal_error(exc: PortalError, request: Request) -> Response:
    errors = []
    if exc.field:
        errors = [
            {
                "pointer": "".join(map(_pointer, exc.field.split("."))),
                "code": exc.code,
                "detail": str(exc),
            }
        ]
    body = problem(request, status=exc.status, code=exc.code, detail=str(exc), errors=errors)
    return _with_pause(respond(exc.numbers | body, status=exc.status), exc)


def _with_pause(response: Response, exc: Exception) -> Response:
    """The answer, with how long to wait before asking again where `exc` says."""
    seconds = getattr(exc, "retry_after_seconds", None)
    if seconds is not None:
        response["Retry-After"] = str(seconds)
    return response


def _answer_api_exception(exc: exceptions.APIException, request: Request) -> Response:
    if isinstance(exc, exceptions.ValidationError):
        errors = list(_field_errors(exc.detail))
        code, detail = "invalid", _counted(errors)
    else:
        errors = []
        code, detail = exc.default_code, str(exc.detail)
    body = problem(request, status=exc.status_code, code=code, detail=detail, errors=errors)
    response = respond(body, status=exc.status_code)
    if isinstance(exc, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        response["WWW-Authenticate"] = getattr(exc, "auth_header", "Bearer")
    return _with_pause(response, exc)


def _answer_bug(exc: Exception, request: Request) -> Response:
    """A plain 500: the log has the story, the answer has the number to find it by."""
    detail = _("This is our fault, and nothing was changed. Quote the request id when you ask.")
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    body = problem(request, status=status, code="server_error", detail=detail)
    response = respond(body, status=status)
    http_request = request._request  # noqa: SLF001 - DRF's only name for Django's request
    got_request_exception.send(sender=None, request=http_request)
    log_response(
        "%s: %s",
        response.reason_phrase,
        request.path,
        response=response,
        request=http_request,
        exception=exc,
    )
    return response


def problem(
    request: Request,
    *,
    status: int,
    code: str,
    detail: str,
    errors: list[dict[str, str]] | None = None,
) -> dict[str, Any]:
    """The fields of one problem, in their order. `code` never changes; `detail` is translated."""
    return {
        "type": "/help/errors/" + code.replace("_", "-"),
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "code": code,
        "detail": detail,
        "instance": request.path,
        "errors": errors or [],
        "request_id": request.META.get("muster.request_id", ""),
    }


def respond(body: Mapping[str, Any], *, status: int) -> Response:
    return Response(body, status=status, content_type=PROBLEM_JSON)


def _field_errors(detail: Any, path: str = "") -> Iterator[dict[str, str]]:
    """Each message in DRF's nested `detail`, with a JSON pointer to what it is about."""
    if isinstance(detail, Mapping):
        for key, value in detail.items():
            name = "" if key == "non_field_errors" else _pointer(str(key))
            yield from _field_errors(value, path + name)
    elif isinstance(detail, list):
        for index, value in enumerate(detail):
            nested = isinstance(value, Mapping | list)
            yield from _field_errors(value, f"{path}/{index}" if nested else path)
    else:
        yield {"pointer": path, "code": getattr(detail, "code", "invalid"), "detail": str(detail)}


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _counted(errors: list[dict[str, str]]) -> str:
    if len(errors) == 1:
        return errors[0]["detail"]
    return _("%d things to mend.") % len(errors)
