from dataclasses import dataclass

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.core.web import Slice, found, signed_in
from scheduling.models import Job
from scheduling.reports.budgets import budgets_of
from scheduling.reports.jobs import JobRow, job_rows, with_rows
from scheduling.reports.lending import Loan, loans_of
from scheduling.reports.quota_use import PersonUse, QuotaUse, people_in_use, tenants_in_use
from scheduling.states import HOLDING, JobState
from tenants.access import has_role
from tenants.models import Membership, QuotaRequest, Role, Tenancy, Tenant, User

RECENT = 10
TENANTS = 24  # on a page
NOTHING = PersonUse(gpus=0, running=0, waiting=0)


@dataclass(frozen=True, slots=True)
class FlavorRow:
    """What a tenant is guaranteed and uses of one flavor, and what it lends of it."""

    quota: QuotaUse
    loan: Loan | None

    @property
    def lent(self) -> int:
        return self.loan.lent if self.loan else 0

    @property
    def free(self) -> int:
        """Guaranteed, not used, and not lent: to be had without waiting for a reclaim."""
        return max(0, self.quota.free - self.lent)


@dataclass(frozen=True, slots=True)
class PersonRow:
    membership: Membership
    use: PersonUse


@require_safe
@signed_in
def quota(request: HttpRequest) -> HttpResponse:
    """The reader's tenants, a page of them: what each is guaranteed and what it uses."""
    tenants = Tenant.objects.visible_to(request.user).active().order_by("slug")
    text = request.GET.get("q", "").replace("\0", "").strip()[:80]
    if text:
        tenants = tenants.filter(Q(name__icontains=text) | Q(slug__icontains=text))
    page = Slice.asked_for(request, size=TENANTS, total=tenants.count())
    uses = tenants_in_use(tenants[page.start : page.start + TENANTS])
    shown = {"uses": uses, "page": page, "text": text}
    return render(request, "scheduling/quota.html", shown)


def visible_tenant(request: HttpRequest, slug: str) -> Tenant:
    """The tenant of that name, 404 for who is not in it."""
    return get_object_or_404(Tenant.objects.visible_to(request.user), slug=slug)


@found(visible_tenant, "GET", "HEAD")
def tenant_page(request: HttpRequest, tenant: Tenant) -> HttpResponse:
    """One tenant: quota and use by flavor, people, what runs and waits."""
    (use,) = tenants_in_use([tenant])
    loans = loans_of(tenant)
    requests = QuotaRequest.objects.filter(tenant=tenant).open()
    shown = {
        "tenant": tenant,
        "use": use,
        "flavors": [FlavorRow(quota, loans.get(quota.flavor)) for quota in use.quotas],
        "loans": loans.values(),
        "requests": requests.select_related("flavor", "grant__flavor").order_by("-pk")[:RECENT],
        "budgets": budgets_of(tenant, wall=timezone.now()),
        "operates": request.user.is_operator,
        "tenancies": _tenancies(tenant, request.user),
        "leads": has_role(request.user, tenant, Role.LEAD),
        "people": people_of(tenant),
        "rows": _live_jobs(tenant, request.user),
        "may_submit": has_role(request.user, tenant, Role.RESEARCHER),
    }
    return render(request, "scheduling/tenant.html", shown)


def _tenancies(tenant: Tenant, reader: User) -> list[Tenancy]:
    """What clusters hold for the tenant, which is for operators to know."""
    if not reader.is_operator:
        return []
    return list(tenant.tenancies.select_related("cluster").order_by("cluster__slug"))


def people_of(tenant: Tenant) -> list[PersonRow]:
    """Members, highest role first; who holds the most GPUs first among equals."""
    uses = people_in_use(tenant)
    memberships = tenant.memberships.select_related("user", "highest_priority")
    rows = [PersonRow(member, uses.get(member.user_id, NOTHING)) for member in memberships]
    return sorted(
        rows, key=lambda row: (-row.membership.role, -row.use.gpus, row.membership.user.username)
    )


def _live_jobs(tenant: Tenant, reader: User) -> list[JobRow]:
    """What holds GPUs and what waits, newest first, the first few of them."""
    live = Job.objects.visible_to(reader).filter(tenant=tenant)
    live = live.filter(state__in=[JobState.QUEUED, *sorted(HOLDING)]).newest_first()
    return job_rows(with_rows(live)[:RECENT], wall=timezone.now())
