from collections.abc import Mapping
from datetime import UTC
from http import HTTPStatus
from typing import Any, ClassVar

from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext as _
from rest_framework import viewsets
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.permissions import SAFE_METHODS, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from portal.core.api.paging import KeysetPages
from portal.core.api.parsing import BoundedJSONParser, OneForm
from portal.core.api.queries import ListQuery, OneQuery, QuerySerializer
from portal.core.api.schema import DoorSchema
from portal.core.api.scopes import HasScope
from portal.core.api.tags import tagged

USUAL_QUERIES: Mapping[str, type[QuerySerializer]] = {"list": ListQuery, "retrieve": OneQuery}


class Door(viewsets.GenericViewSet[Any]):
    """What every resource shares. A subclass says whose rows (`get_queryset`), which scope a token
    needs and, where an action differs, what it shows and which parameters it takes.

    A thing that the caller may not see is not there (404), whatever is asked of it: `thing` is
    looked up before the method is.
    """

    permission_classes = (IsAuthenticated, HasScope)
    parser_classes = (BoundedJSONParser,)
    content_negotiation_class = OneForm
    pagination_class = KeysetPages
    filter_backends = ()
    schema = DoorSchema()

    scope: ClassVar[str] = ""
    default_order: ClassVar[str] = "pk"
    query_kinds: ClassVar[Mapping[str, type[QuerySerializer]]] = {}
    serializer_classes: ClassVar[Mapping[str, type[BaseSerializer[Any]]]] = {}

    thing: Any
    query: dict[str, Any]

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Times are UTC in every answer, whatever zone the caller's pages are in."""
        with timezone.override(UTC):
            return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if (self.lookup_url_kwarg or self.lookup_field) in kwargs:
            self.thing = self.get_object()
        self.query = self.query_kind(request.method or "GET")().read(request.query_params)

    def finalize_response(
        self, request: Request, response: Any, *args: Any, **kwargs: Any
    ) -> Response:
        final = super().finalize_response(request, response, *args, **kwargs)
        patch_cache_control(final, private=True, no_cache=True)
        return final

    def query_kind(self, method: str) -> type[QuerySerializer]:
        """Which parameters the current action takes; one that changes something takes none."""
        if method not in SAFE_METHODS:
            return QuerySerializer
        kinds = {**USUAL_QUERIES, **self.query_kinds}
        return kinds.get(self.action or "", QuerySerializer)

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        action = self.action or ""
        return self.serializer_classes.get(action) or super().get_serializer_class()

    def page_of(self, rows: Any, *, order: str = "") -> Response:
        """One page of a queryset, as the current serializer shows it."""
        if order:
            self.query = {"order": order, **self.query}
        page = self.paginate_queryset(rows)
        data = self.get_serializer(page, many=True).data
        return self.get_paginated_response([self._wanted(row) for row in data])

    def one(self, thing: Any) -> Response:
        """One thing with its ETag."""
        return tagged(self.request, self._wanted(self.get_serializer(thing).data))

    def created(self, data: Mapping[str, Any], location: str) -> Response:
        response = tagged(self.request, data, status=HTTPStatus.CREATED)
        response["Location"] = location
        return response

    def _wanted(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields of `row` that the query names; all of them if it names none."""
        if "fields" not in self.query:
            return row
        wanted = self.query["fields"].split(",")
        unknown = next((name for name in wanted if name not in row), None)
        if unknown is not None:
            message = _("%(name)s is no field; fields are: %(known)s.")
            message %= {"name": unknown[:80], "known": ", ".join(row)}
            raise ValidationError({"fields": [ErrorDetail(message, code="unknown")]})
        return {name: row[name] for name in wanted}


class Listing(Door):
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.page_of(self.get_queryset())


class Reading(Door):
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.one(self.thing)
