from django.urls import path, re_path

from topology.api.viewsets import NodeDoor

urlpatterns = [
    path("nodes", NodeDoor.as_view({"get": "list"}), name="node-list"),
    re_path(
        r"^nodes/(?P<cluster>[-a-zA-Z0-9_]+)/(?P<name>[-a-zA-Z0-9_.]+)$",
        NodeDoor.as_view({"get": "retrieve"}),
        name="node-detail",
    ),
]
