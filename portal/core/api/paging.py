"""Keyset pages: a row that comes or goes meanwhile neither doubles nor hides another."""

from typing import Any

from django.core import signing
from django.db.models import Model, Q, QuerySet
from django.utils.translation import gettext as _
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

_SALT = "muster.cursor"
MOST_COUNTED = 10_000


class KeysetPages(BasePagination):
    """Pages in the order that the view's `query` or `default_order` names, ties by key.

    The order is one column that is never null, with a minus for descending.
    """

    def paginate_queryset(  # type: ignore[override] # of querysets alone
        self, queryset: QuerySet[Any], request: Request, view: Any = None
    ) -> list[Any]:
        limit = view.query["limit"]
        order = view.query.get("order") or view.default_order
        descending = order.startswith("-")
        self.request = request
        self.count = _count(queryset)
        if "cursor" in view.query:
            queryset = queryset.filter(_after(view.query["cursor"], order))
        rows = list(queryset.order_by(order, "-pk" if descending else "pk")[: limit + 1])
        self.next = _cursor(rows[limit - 1], order) if len(rows) > limit else None
        return rows[:limit]

    def get_paginated_response(self, data: Any) -> Response:
        response = Response({"items": data, "next": self.next, "count": self.count})
        if self.next:
            here = self.request.build_absolute_uri()
            link = replace_query_param(here, "cursor", self.next)
            response["Link"] = f'<{link}>; rel="next"'
        return response

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        count = {
            "type": "object",
            "required": ["value", "exact"],
            "properties": {"value": {"type": "integer"}, "exact": {"type": "boolean"}},
            "description": f"Exact up to {MOST_COUNTED}.",
        }
        return {
            "type": "object",
            "required": ["items", "next", "count"],
            "properties": {
                "items": schema,
                "next": {"type": ["string", "null"], "description": "`cursor` of the next page."},
                "count": count,
            },
        }


def _count(queryset: QuerySet[Any]) -> dict[str, Any]:
    """How many rows there are, without looking at more of them than anybody reads."""
    found = queryset.order_by()[: MOST_COUNTED + 1].count()
    return {"value": min(found, MOST_COUNTED), "exact": found <= MOST_COUNTED}


def _cursor(row: Model, order: str) -> str:
    name = order.removeprefix("-")
    meta = row._meta  # noqa: SLF001 - Django's public name for it
    field: Any = meta.pk if name == "pk" else meta.get_field(name)
    value = field.value_to_string(row)
    return signing.dumps([order, value, row.pk], salt=_SALT)


def _after(cursor: str, order: str) -> Q:
    """Rows behind the one that `cursor` stands for.

    The first condition looks redundant and is not: it is the one that an index can start from.
    """
    try:
        made_for, value, pk = signing.loads(cursor, salt=_SALT)
    except signing.BadSignature:
        made_for = value = pk = None
    if made_for != order:
        message = _("This cursor belongs to another list; start again without one.")
        raise ValidationError({"cursor": [ErrorDetail(message, code="invalid")]})
    name, side = order.removeprefix("-"), "lt" if order.startswith("-") else "gt"
    beyond = Q(**{f"{name}__{side}": value}) | Q(**{f"pk__{side}": pk})
    return Q(**{f"{name}__{side}e": value}) & beyond
