from functools import cache
from typing import Any

from django.utils.translation import get_language
from drf_spectacular.generators import SchemaGenerator


class KeptSchemaGenerator(SchemaGenerator):
    """Works the description of the API out once for each language: it is the same for everybody."""

    def get_schema(self, request: Any = None, public: bool = False) -> Any:  # noqa: FBT001, FBT002 - as in the library
        if request is None or not public:  # a command, which asks once
            return super().get_schema(request, public)  # type: ignore[no-untyped-call] # the library's own
        return _kept(get_language(), self.api_version)


@cache
def _kept(_language: str, version: str | None) -> Any:
    generator = SchemaGenerator(api_version=version)  # type: ignore[no-untyped-call] # as above
    return generator.get_schema(public=True)  # type: ignore[no-untyped-call] # as above
