from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.core.api.doors import Listing, Reading
from portal.core.api.queries import ListQuery
from topology.api.serializers import NodeSerializer
from topology.models import Node
from topology.reports.nodes import present_nodes


class NodeQuery(ListQuery):
    cluster = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="In these clusters; repeatable."
    )
    flavor = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Of these flavors; repeatable."
    )


class NodeDoor(Listing, Reading):
    """The nodes of all clusters: whoever may sign in may see them."""

    scope = "nodes"
    serializer_class = NodeSerializer
    default_order = "name"
    lookup_field = "name"
    query_kinds = {"list": NodeQuery}

    def get_queryset(self) -> QuerySet[Node]:
        return present_nodes()

    def get_object(self) -> Node:
        """By cluster and name: two clusters may each have a node of one name."""
        place = {"cluster__slug": self.kwargs["cluster"], "name": self.kwargs["name"]}
        return get_object_or_404(self.get_queryset(), **place)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        nodes = self.get_queryset()
        if "cluster" in self.query:
            nodes = nodes.filter(cluster__slug__in=self.query["cluster"])
        if "flavor" in self.query:
            nodes = nodes.filter(flavor__name__in=self.query["flavor"])
        return self.page_of(nodes)
