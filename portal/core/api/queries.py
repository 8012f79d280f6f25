"""The query string and the body, read strictly: an unknown name is refused, never dropped."""

from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses names that it does not know, so that a typo is seen by who made it."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, dict) else []
        if unknown:
            raise ValidationError({name: [self._unknown(name)] for name in unknown})
        internal: dict[str, Any] = super().to_internal_value(data)
        return internal

    def _unknown(self, name: str) -> ErrorDetail:
        known = ", ".join(self.fields) or "-"
        message = _("%(name)s is not known here; known are: %(known)s.")
        return ErrorDetail(message % {"name": name[:80], "known": known}, code="unknown")


class QuerySerializer(StrictSerializer):
    """The parameters of a GET. A list may be repeated, any other parameter may not."""

    def read(self, parameters: QueryDict) -> dict[str, Any]:
        """The values of `parameters`; raises ValidationError for a bad or an unknown one."""
        flat = {name: self._value(name, values) for name, values in parameters.lists()}
        return dict(self.run_validation(flat))

    def _value(self, name: str, values: list[str]) -> list[str] | str:
        if isinstance(self.fields.get(name), serializers.ListField):
            return values
        if len(values) > 1:
            raise ValidationError({name: [_("This may be given once.")]}, code="repeated")
        return values[0]


class OneQuery(QuerySerializer):
    """Of one thing."""

    fields = serializers.CharField(  # type: ignore[assignment] # the metaclass takes it away
        required=False, help_text="Only these fields of the answer, separated by commas."
    )


class ListQuery(OneQuery):
    """Of many things, by pages."""

    limit = serializers.IntegerField(
        required=False, default=50, min_value=1, max_value=200, help_text="Things to a page."
    )
    cursor = serializers.CharField(
        required=False, max_length=1000, help_text="`next` of the page before."
    )
