"""Requests by their number, as far as the reader may see them; any other is not there."""

from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404

from tenants.access import require_role
from tenants.models import QuotaRequest, Role
from tenants.states import RequestState

LARGEST = 2**63 - 1  # of a key


def request_of(request: HttpRequest, number: int) -> QuotaRequest:
    """The request of that number, with all that its page reads."""
    if number > LARGEST:
        raise Http404
    rows = QuotaRequest.objects.visible_to(request.user).select_related(
        "tenant", "cluster", "flavor", "requested_by", "replaces", "grant__flavor"
    )
    return get_object_or_404(rows, pk=number)


def request_to_edit(request: HttpRequest, number: int) -> QuotaRequest:
    """A draft of a tenant that the reader leads; what is no draft any more has no form."""
    draft = request_of(request, number)
    require_role(request.user, draft.tenant, Role.LEAD)
    if draft.state != RequestState.DRAFT:
        raise Http404
    return draft


def request_to_replace(request: HttpRequest) -> QuotaRequest | None:
    """The granted request that `?replaces=` names; None where it names none."""
    asked = request.GET.get("replaces", "")
    if not asked.isdecimal() or len(asked) > 18:  # noqa: PLR2004 - more digits name no key
        return None
    old = request_of(request, int(asked))
    if not hasattr(old, "grant"):
        raise Http404
    require_role(request.user, old.tenant, Role.LEAD)
    return old
