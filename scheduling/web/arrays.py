from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import ngettext

from portal.core import clock
from portal.core.web import found
from scheduling.models import JobArray
from scheduling.reports.search import arrays_seen_by
from scheduling.services.arrays import cancel_array
from scheduling.states import FINAL, JobState
from tenants.access import require_role
from tenants.models import Role


def visible_array(request: HttpRequest, array_id: str) -> JobArray:
    """The array, or 404 for one that the reader may not see."""
    return get_object_or_404(arrays_seen_by(request.user), public_id=array_id)


@found(visible_array, "GET", "HEAD", "POST")
def array_cancel(request: HttpRequest, array: JobArray) -> HttpResponse:
    """Asks first; then cancels all tasks that have not ended."""
    tasks = f"{reverse('job-list')}?array={array.public_id}"
    if request.method == "POST":
        count = cancel_array(array, by=request.user, at=clock.now(array.cluster))
        said = ngettext(
            "%(count)d task of %(array)s is being cancelled.",
            "%(count)d tasks of %(array)s are being cancelled.",
            count,
        )
        messages.success(request, said % {"count": count, "array": array.name})
        return redirect(tasks)
    require_role(request.user, array.tenant, Role.RESEARCHER)
    counts = {state: getattr(array, f"count_{state}") for state in JobState if state not in FINAL}
    left = [(state, count) for state, count in counts.items() if count]
    if not left:
        return redirect(tasks)
    shown = {"array": array, "left": left, "tasks": tasks, "total": sum(counts.values())}
    return render(request, "scheduling/array_cancel.html", shown)
