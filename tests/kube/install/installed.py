"""An installation in a real control plane: made of its manifests, and taken away again."""

from contextlib import contextmanager

import yaml

from tests.kube.install.rights import NAMESPACE
from tests.kube.polling import eventually
from topology.kube.names import OPERATOR_NAMESPACE

HOME = f"/api/v1/namespaces/{NAMESPACE}"
APPLY = ("apply", "--server-side", "--validate=strict", "-f", "-")
DELETE = ("delete", "--ignore-not-found", "--wait=false", "-f", "-")
_PROGRAMS = ("Deployment", "DaemonSet", "Job")


@contextmanager
def namespaces(plane):
    """The installation's and the GPU Operator's, empty, as long as the block lasts."""
    every = [f"/api/v1/namespaces/{name}" for name in (NAMESPACE, OPERATOR_NAMESPACE)]
    for home in every:
        name = {"metadata": {"name": home.rpartition("/")[2]}}
        plane.api.create("/api/v1/namespaces", name)
    try:
        yield
    finally:
        for home in every:
            plane.api.delete(home)
        eventually(lambda: {plane.api.ask("GET", home)[0] for home in every} == {404}, within=120)


@contextmanager
def installed(plane, found):
    """All of an installation but its programs, as long as the block lasts."""
    kept = [obj for obj in found if obj["kind"] not in _PROGRAMS]
    elsewhere = [obj for obj in kept if "namespace" not in obj["metadata"]]
    with namespaces(plane):
        plane.kubectl(*APPLY, text=yaml.safe_dump_all(kept))
        try:
            yield
        finally:
            lasting = [obj for obj in elsewhere if obj["kind"] != "Namespace"]
            plane.kubectl(*DELETE, text=yaml.safe_dump_all(lasting))
