import pytest
from rest_framework.exceptions import APIException

from portal.core.errors import PortalError
from portal.site.error_help import ERRORS, slug_of

NEVER_SAID = {"error", "bug"}  # what only base classes and tests carry


def below(kind):
    for child in kind.__subclasses__():
        yield child
        yield from below(child)


def test_every_code_that_the_api_may_answer_is_explained():
    codes = {kind.code for kind in below(PortalError) if kind.__module__.split(".")[0] != "tests"}
    codes |= {kind.default_code for kind in below(APIException)} | {"server_error"}

    assert codes - NEVER_SAID - set(ERRORS) == set()


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_the_type_of_a_problem_leads_to_its_page(db, client, code):
    response = client.get(f"/help/errors/{slug_of(code)}")

    assert response.status_code == 200
    assert code in response.content.decode()


def test_all_codes_stand_in_one_list(db, client):
    response = client.get("/help/errors")

    assert all(f">{code}<" in response.content.decode() for code in ERRORS)


def test_a_code_that_is_none_has_no_page(db, client):
    assert client.get("/help/errors/no-such-code").status_code == 404
