from typing import Any, Literal

from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

from portal.core.api.problems import PROBLEM_JSON


class ProblemErrorSerializer(serializers.Serializer[Any]):
    """One thing to mend."""

    pointer = serializers.CharField(help_text="Where it stands: a JSON pointer, or a parameter.")
    code = serializers.CharField()
    detail = serializers.CharField(help_text="Translated by Accept-Language.")


class ProblemSerializer(serializers.Serializer[Any]):
    """What went wrong (RFC 9457). Some problems carry further numbers, such as a limit."""

    type = serializers.CharField(help_text="Where the problem is explained, under the portal.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="For programs; it never changes.")
    detail = serializers.CharField(help_text="For people, translated by Accept-Language.")
    instance = serializers.CharField()
    errors = ProblemErrorSerializer(many=True)  # type: ignore[assignment] # a declared field
    request_id = serializers.CharField(help_text="Quote it when you ask about this.")


class DoorSchema(AutoSchema):
    """OpenAPI of a Door: its strict query parameters, and the problem that any call may answer."""

    def get_override_parameters(self) -> list[Any]:
        view: Any = self.view
        query = view.query_kind(self.method)()
        return [query] if query.fields else []

    def _get_response_bodies(
        self, direction: Literal["request", "response"] = "response"
    ) -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        bodies["default"] = self._get_response_for_code(  # type: ignore[no-untyped-call]  # the library's own
            ProblemSerializer, "default", media_types=[PROBLEM_JSON], direction=direction
        )
        return bodies
