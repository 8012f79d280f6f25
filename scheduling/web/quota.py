from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.core.web import found, signed_in
from scheduling.models import Job
from scheduling.reports.jobs import JobRow, job_rows, with_rows
from scheduling.reports.quota_use import PersonUse, people_in_use, tenants_in_use
from scheduling.states import HOLDING, JobState
from tenants.access import has_role
from tenants.models import Membership, Role, Tenant, User

RECENT = 10
NOTHING = PersonUse(gpus=0, running=0, waiting=0)


@dataclass(frozen=True, slots=True)
class PersonRow:
    membership: Membership
    use: PersonUse


@require_safe
@signed_in
def quota(request: HttpRequest) -> HttpResponse:
    """The reader's tenants, what each is guaranteed and what it uses."""
    tenants = Tenant.objects.visible_to(request.user).active().order_by("slug")
    return render(request, "scheduling/quota.html", {"uses": tenants_in_use(tenants)})


def _visible_tenant(request: HttpRequest, slug: str) -> Tenant:
    return get_object_or_404(Tenant.objects.visible_to(request.user), slug=slug)


@found(_visible_tenant, "GET", "HEAD")
def tenant_page(request: HttpRequest, tenant: Tenant) -> HttpResponse:
    """One tenant: quota and use by flavor, people, what runs and waits."""
    (use,) = tenants_in_use([tenant])
    shown = {
        "tenant": tenant,
        "use": use,
        "people": _people(tenant),
        "rows": _live_jobs(tenant, request.user),
        "may_submit": has_role(request.user, tenant, Role.RESEARCHER),
    }
    return render(request, "scheduling/tenant.html", shown)


def _people(tenant: Tenant) -> list[PersonRow]:
    """Members, highest role first; who holds the most GPUs first among equals."""
    uses = people_in_use(tenant)
    memberships = tenant.memberships.select_related("user")
    rows = [PersonRow(member, uses.get(member.user_id, NOTHING)) for member in memberships]
    return sorted(
        rows, key=lambda row: (-row.membership.role, -row.use.gpus, row.membership.user.username)
    )


def _live_jobs(tenant: Tenant, reader: User) -> list[JobRow]:
    """What holds GPUs and what waits, newest first, the first few of them."""
    live = Job.objects.visible_to(reader).filter(tenant=tenant)
    live = live.filter(state__in=[JobState.QUEUED, *sorted(HOLDING)]).newest_first()
    return job_rows(with_rows(live)[:RECENT], wall=timezone.now())
