"""An installation in a real control plane: made of its manifests, and taken away again."""

from contextlib import contextmanager

import yaml

from tests.kube.install.rights import NAMESPACE
from tests.kube.polling import eventually

HOME = f"/api/v1/namespaces/{NAMESPACE}"
APPLY = ("apply", "--server-side", "--validate=strict", "-f", "-")
DELETE = ("delete", "--ignore-not-found", "--wait=false", "-f", "-")
_PROGRAMS = ("Deployment", "DaemonSet", "Job")


@contextmanager
def namespace(plane):
    """The installation's, with nothing in it, as long as the block lasts."""
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    try:
        yield
    finally:
        plane.api.delete(HOME)
        eventually(lambda: plane.api.ask("GET", HOME)[0] == 404, within=120)


@contextmanager
def installed(plane, found):
    """All of an installation but its programs, as long as the block lasts."""
    kept = [obj for obj in found if obj["kind"] not in _PROGRAMS]
    elsewhere = [obj for obj in kept if "namespace" not in obj["metadata"]]
    with namespace(plane):
        plane.kubectl(*APPLY, text=yaml.safe_dump_all(kept))
        try:
            yield
        finally:
            lasting = [obj for obj in elsewhere if obj["kind"] != "Namespace"]
            plane.kubectl(*DELETE, text=yaml.safe_dump_all(lasting))
