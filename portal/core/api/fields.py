from typing import Any

from django.db.models import Model, QuerySet
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers


class NamedField(serializers.CharField):
    """A row by its name, out of those that `rows` offers: what is not offered is not there."""

    default_error_messages = {"does_not_exist": _("There is no %(kind)s of that name.")}
    name_field = "slug"

    def rows(self) -> QuerySet[Any]:
        raise NotImplementedError

    def run_validation(self, data: Any = serializers.empty) -> Model | None:
        """The row, or None where nothing was said and nothing need be."""
        name = super().run_validation(data)
        if name is None:
            return None
        rows = self.rows()
        row: Model | None = rows.filter(**{self.name_field: name}).first()
        if row is None:
            kind = rows.model._meta.verbose_name  # noqa: SLF001 - Django's public name for it
            message = self.error_messages["does_not_exist"] % {"kind": kind}
            raise serializers.ValidationError(message, code="does_not_exist")
        return row
