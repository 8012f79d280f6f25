"""The parser by itself: some servers hand it a stream that nobody has measured yet."""

import io

import pytest
from django.test import RequestFactory
from rest_framework.exceptions import ParseError

from portal.core.api.parsing import BoundedJSONParser
from portal.core.api.problems import TooLarge


def parsed(body, limit, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = limit
    request = RequestFactory().post("/", body, content_type="application/json")
    return BoundedJSONParser().parse(io.BytesIO(body), None, {"request": request})


def test_a_body_as_long_as_the_limit_is_read(settings):
    assert parsed(b'{"a": 1}', 8, settings) == {"a": 1}


def test_a_longer_one_is_not(settings):
    with pytest.raises(TooLarge):
        parsed(b'{"a": 12}', 8, settings)


@pytest.mark.parametrize(
    "body",
    [b"NaN", b"1" * 5000, b"\xff", b"[" * 5000, rb'{"a": ["\ud800"]}', rb'{"\udfff": 1}'],
)
def test_what_json_does_not_know_or_python_cannot_hold_is_refused(settings, body):
    with pytest.raises(ParseError):
        parsed(body, 10_000, settings)
