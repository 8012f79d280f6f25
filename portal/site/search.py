"""One search over jobs, tenants and nodes: what the reader may see of each."""

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.core.web import signed_in
from scheduling.models import Job
from scheduling.reports.jobs import job_rows, with_rows
from tenants.models import Tenant
from topology.models import Node

MOST = 10


@require_safe
@signed_in
def search(request: HttpRequest) -> HttpResponse:
    """The best finds of each kind; the id of a job leads straight to it."""
    text = request.GET.get("q", "").strip()[:80]
    jobs = Job.objects.visible_to(request.user)
    if text and jobs.filter(public_id=text.lower()).exists():
        return redirect("job", public_id=text.lower())
    shown = {"text": text, "rows": [], "tenants": [], "nodes": [], "most": MOST}
    if text:
        named = with_rows(jobs.filter(Q(name__icontains=text) | Q(public_id__icontains=text)))
        tenants = Tenant.objects.visible_to(request.user)
        shown |= {
            "rows": job_rows(named.newest_first()[:MOST], wall=timezone.now()),
            "tenants": tenants.filter(Q(name__icontains=text) | Q(slug__icontains=text)).order_by(
                "slug"
            )[:MOST],
            "nodes": Node.objects.present()
            .filter(name__icontains=text)
            .select_related("cluster")
            .order_by("name", "pk")[:MOST],
        }
    return render(request, "site/search.html", shown)
