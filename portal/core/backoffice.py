"""Two kinds of back office pages: to look at, and to change with an audit line."""

from typing import Any

from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest

from portal.core import audit


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # not generic at run time
    """Rows that services alone write: for looking at."""

    show_full_result_count = False  # a count of all rows costs more than the page

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class AuditedAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # not generic at run time
    """Rows that operators may change here, with the audit line that a service would write.

    Nothing is deleted: other rows and the past refer to it.
    """

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @transaction.atomic
    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        super().save_model(request, obj, form, change)
        kind = obj._meta.model_name  # noqa: SLF001 - Django's public name for it
        audit.record(
            f"{'change' if change else 'create'}_{kind}",
            obj,
            by=request.user,
            before={name: str(form.initial.get(name)) for name in _shown(form)} if change else {},
            after={name: str(form.cleaned_data.get(name)) for name in _shown(form)},
        )


def _shown(form: Any) -> list[str]:
    """What changed, without secrets."""
    return [name for name in form.changed_data if "password" not in name]
