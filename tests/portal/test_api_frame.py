"""What surrounds the resources: the description, the documentation, and paths to nowhere."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import call_command
from rest_framework.test import APIClient

from tests.factories import UserFactory

DESCRIPTION = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.fixture
def api(db):
    client = APIClient()
    client.force_login(UserFactory())
    return client


def test_the_description_in_the_repository_is_the_one_we_serve(client, db):
    """Renew it with: manage.py spectacular --format openapi-json --file docs/openapi.json"""
    served = client.get("/api/v1/openapi.json").json()

    assert served["openapi"].startswith("3.1")
    assert served == json.loads(DESCRIPTION.read_text())


def test_the_description_is_valid_and_nothing_in_it_is_guessed():
    call_command(
        "spectacular",
        "--validate",
        "--fail-on-warn",
        "--format",
        "openapi-json",
        stdout=io.StringIO(),
        stderr=io.StringIO(),
    )


def test_the_documentation_runs_no_inline_script_and_wears_no_inline_style(client):
    page = client.get("/api/docs/")
    script = client.get("/api/docs/", {"script": ""})

    text = page.content.decode()
    assert page.status_code == script.status_code == 200
    assert "script-src 'self'" in page["Content-Security-Policy"]
    assert "<style" not in text
    assert " style=" not in text
    assert text.count("<script") == text.count("<script src=") == 4
    assert script["Content-Type"].startswith("application/javascript")
    assert '"/api/v1/openapi.json"' in script.content.decode()


@pytest.mark.parametrize("path", ["", "/", "/webhooks", "/jobs/", "/jobs/7", "/jobs/j-1/logs"])
@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete", "options"])
def test_a_path_to_nowhere_is_a_problem_and_no_page(api, path, method):
    answer = getattr(api, method)(f"/api/v1{path}")

    body = answer.json()
    assert (answer.status_code, body["code"]) == (404, "not_found")
    assert answer["Content-Type"] == "application/problem+json"


def test_what_is_asked_for_by_accept_is_no_reason_to_refuse(api):
    answer = api.get("/api/v1/me", headers={"Accept": "text/html"})

    assert (answer.status_code, answer["Content-Type"]) == (200, "application/json")


def test_answers_are_for_the_caller_and_are_asked_for_again(api):
    assert api.get("/api/v1/me")["Cache-Control"] == "private, no-cache"


def test_problems_bear_the_number_that_the_log_has(api):
    answer = api.get("/api/v1/nowhere")

    assert answer.json()["request_id"] == answer["X-Request-Id"]
