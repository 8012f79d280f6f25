import json
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from rest_framework.exceptions import ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from portal.core.api.problems import TooLarge


class BoundedJSONParser(JSONParser):
    """JSON of at most DATA_UPLOAD_MAX_MEMORY_SIZE bytes, no deeper than Python can follow."""

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Any = None
    ) -> dict[str, Any]:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0
        length = int(parser_context["request"].META.get("CONTENT_LENGTH") or 0)
        if length > limit:
            raise TooLarge
        try:
            parsed: dict[str, Any] = super().parse(stream, media_type, parser_context)
            json.dumps(parsed, ensure_ascii=False).encode()
        except RecursionError:
            raise ParseError(_("The JSON is nested too deeply.")) from None
        except UnicodeEncodeError:  # could neither be kept nor be quoted in an answer
            raise ParseError(_("The JSON has half of a character, such as \\ud800.")) from None
        return parsed


class OneForm(DefaultContentNegotiation):
    """Everything has one form, so what `Accept` asks for is no reason to refuse."""

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, first.media_type
