"""What the forms of operators send besides their fields: which cluster, which number."""

from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404

from topology.models import Cluster

MOST_DIGITS = 9


def cluster_sent(request: HttpRequest) -> Cluster:
    """The cluster that the form is about: never the one that happens to be chosen by now."""
    slug = request.POST.get("cluster", "").replace("\0", "")
    return get_object_or_404(Cluster, slug=slug)


def number_sent(request: HttpRequest, name: str) -> int:
    """A whole number of a hidden field; what is none leads nowhere."""
    said = request.POST.get(name, "")
    if not (said.isascii() and said.isdecimal() and len(said) <= MOST_DIGITS):
        raise Http404
    return int(said)
