import pytest
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from portal.core import errors
from portal.core.api import handle_exception


def answer_to(exc):
    request = APIRequestFactory().get("/api/v1/things/1?x=2")
    request.META["muster.request_id"] = "0A1B2C3D"
    return handle_exception(exc, {"request": Request(request)})


@pytest.mark.parametrize(
    ("exc", "status", "code"),
    [
        (errors.BadRequest("no"), 400, "bad_request"),
        (errors.NotAllowed("no"), 403, "not_allowed"),
        (errors.NotFound("no"), 404, "not_found"),
        (errors.Conflict("no"), 409, "conflict"),
        (errors.Refused("no"), 422, "refused"),
        (errors.ClusterAway("no"), 503, "cluster_away"),
        (Http404(), 404, "not_found"),
        (PermissionDenied(), 403, "permission_denied"),
        (exceptions.NotAuthenticated(), 401, "not_authenticated"),
        (exceptions.MethodNotAllowed("PUT"), 405, "method_not_allowed"),
        (exceptions.UnsupportedMediaType("x/y"), 415, "unsupported_media_type"),
        (exceptions.ParseError(), 400, "parse_error"),
        (OperationalError("the server closed the connection"), 503, "unavailable"),
        (InterfaceError("the connection is closed"), 503, "unavailable"),
    ],
)
def test_every_error_has_its_status_and_a_code(exc, status, code):
    answer = answer_to(exc)

    assert (answer.status_code, answer.data["status"], answer.data["code"]) == (
        status,
        status,
        code,
    )
    assert answer.content_type == "application/problem+json"


def test_what_a_service_refuses_is_pointed_at_and_carries_its_numbers():
    answer = answer_to(
        errors.QuotaExceeded("Too many.", field="groups.0.members", numbers={"limit": 3})
    )

    assert answer.data == {
        "limit": 3,
        "type": "/help/errors/over-ceiling",
        "title": "Unprocessable Entity",
        "status": 422,
        "code": "over_ceiling",
        "detail": "Too many.",
        "instance": "/api/v1/things/1",
        "errors": [{"pointer": "/groups/0/members", "code": "over_ceiling", "detail": "Too many."}],
        "request_id": "0A1B2C3D",
    }


def test_numbers_cannot_stand_in_for_what_a_problem_says():
    answer = answer_to(errors.Refused("No.", numbers={"status": 200}))

    assert answer.data["status"] == 422


def test_what_is_wrong_in_a_form_is_pointed_at_however_deep_it_lies():
    wrong = {
        "name": [exceptions.ErrorDetail("Too long.", code="max_length")],
        "groups": [{}, {"size": [exceptions.ErrorDetail("Unknown.", code="unknown")]}],
        "non_field_errors": [exceptions.ErrorDetail("Contradiction.", code="invalid")],
        "a/b~c": ["Odd."],
    }

    answer = answer_to(exceptions.ValidationError(wrong))

    assert answer.data["detail"] == "4 things to mend."
    assert answer.data["errors"] == [
        {"pointer": "/name", "code": "max_length", "detail": "Too long."},
        {"pointer": "/groups/1/size", "code": "unknown", "detail": "Unknown."},
        {"pointer": "", "code": "invalid", "detail": "Contradiction."},
        {"pointer": "/a~1b~0c", "code": "invalid", "detail": "Odd."},
    ]


def test_one_thing_to_mend_is_said_at_once():
    answer = answer_to(exceptions.ValidationError({"name": ["Too long."]}))

    assert answer.data["detail"] == "Too long."


def test_when_the_database_is_away_the_answer_says_when_to_ask_again():
    answer = answer_to(OperationalError("the server closed the connection"))

    assert answer["Retry-After"] == "5"
    assert "server closed" not in answer.data["detail"]
