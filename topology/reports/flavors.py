import re

from topology.models import Cluster, ResourceFlavor

_PART = re.compile(r"[^a-z0-9]+")


def flavors_called(cluster: Cluster, name: str) -> tuple[ResourceFlavor, ...]:
    """The flavors of `cluster` that a person means by `name`, in the order of their names.

    `h100-sxm` is the flavor of that name or GPU model; `h100` is every one with that word in it,
    and never an `h1000`.
    """
    flavors = cluster.flavors.order_by("name")
    wanted = name.strip().lower()
    exact = [each for each in flavors if wanted in {each.name.lower(), each.gpu_model.lower()}]
    return tuple(exact or [each for each in flavors if wanted in _words(each)])


def _words(flavor: ResourceFlavor) -> set[str]:
    return set(_PART.split(f"{flavor.name} {flavor.gpu_model}".lower()))
