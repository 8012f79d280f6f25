"""What a portal in use has besides jobs: requests, notices, people, layouts, plans, a trail."""

from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from portal.core.models import AuditEvent
from scheduling.models import BlockPart, CapacityBlock, JobArray, Policy, SavedView
from tenants.models import (
    Announcement,
    ApiToken,
    Budget,
    Invitation,
    Membership,
    Notification,
    PriorityClass,
    QuotaGrant,
    QuotaRequest,
    QuotaRequestEvent,
    Role,
    Tenancy,
    User,
    Webhook,
)
from tenants.states import RequestState
from tests.bench.fill import NOW
from topology.models import (
    ClusterCheck,
    Layout,
    LayoutVersion,
    MaintenanceWindow,
    NodeChange,
    Rollout,
    RolloutEvent,
)
from topology.states import RolloutState, Step

PEOPLE = 5  # of each tenant
REQUESTS = 3  # of each tenant
NOTICES = 200  # of each reader
EVENTS = 20_000  # of the audit trail
NODES = 40  # of the rollout
INVITED = 50  # into the first tenant
WEBHOOKS = 10  # of the first tenant
STATES = [state for state in RequestState if state != RequestState.DRAFT]


@dataclass(frozen=True)
class Around:
    """One of each, for the pages that show one."""

    request: QuotaRequest
    member: User
    window: MaintenanceWindow
    block: CapacityBlock
    layout: Layout
    rollout: Rollout
    announcement: Announcement
    array: JobArray
    invitation: Invitation
    webhook: Webhook


def surround(filled, *, scale=1.0):
    """Fill in what stands around the jobs; of what is many, `scale` as much."""
    cluster, tenant = filled.cluster, filled.tenants[0]
    member = _people(filled)
    requests = _requests(filled)
    _notices(filled, round(NOTICES * scale))
    _trail(filled, round(EVENTS * scale))
    _plans_of_use(filled)
    window = MaintenanceWindow.objects.create(
        cluster=cluster, from_at=NOW, until_at=NOW + timedelta(days=1), note="New firmware"
    )
    window.nodes.set(cluster.nodes.order_by("name")[:NODES])
    block = CapacityBlock.objects.create(
        cluster=cluster,
        name="course",
        tenant=tenant,
        from_at=NOW + timedelta(days=3),
        until_at=NOW + timedelta(days=4),
    )
    BlockPart.objects.create(block=block, node=cluster.nodes.earliest("name"), gpus=4)
    layout, rollout = _layouts(filled)
    announcement = Announcement.objects.create(
        text="The storage is slow.", from_at=NOW, until_at=timezone.now() + timedelta(days=1)
    )
    array = JobArray.objects.create(
        public_id="a-000000",
        tenant=tenant,
        cluster=cluster,
        owner=filled.people["researcher"],
        name="sweep",
        size=4,
        submitted_at=NOW,
    )
    return Around(
        request=requests[0],
        member=member,
        window=window,
        block=block,
        layout=layout,
        rollout=rollout,
        announcement=announcement,
        array=array,
        invitation=_invitations(filled),
        webhook=_webhooks(filled),
    )


def _people(filled):
    """Members of every tenant; one of the first tenant."""
    people = User.objects.bulk_create(
        User(username=f"member-{tenant.pk}-{n}") for tenant in filled.tenants for n in range(PEOPLE)
    )
    Membership.objects.bulk_create(
        Membership(user=user, tenant=filled.tenants[n // PEOPLE], role=Role.RESEARCHER)
        for n, user in enumerate(people)
    )
    return people[0]


def _invitations(filled):
    """Open ones; one of the first tenant."""
    invited = Invitation.objects.bulk_create(
        Invitation(
            tenant=filled.tenants[0],
            email=f"invited-{n}@example.org",
            invited_by=filled.people["lead"],
            asked_at=NOW,
            expires_at=timezone.now() + timedelta(days=7),
        )
        for n in range(INVITED)
    )
    return invited[0]


def _webhooks(filled):
    """Those of the first tenant; one of them."""
    made = Webhook.objects.bulk_create(
        Webhook(
            tenant=filled.tenants[0],
            made_by=filled.people["lead"],
            name=f"chat-{n}",
            style="slack",
            url="https://hook.example.org/services/x",
            kinds=["job_failed"],
        )
        for n in range(WEBHOOKS)
    )
    return made[0]


def _requests(filled):
    """Requests in all states, those of the first tenant first."""
    flavor = filled.cluster.flavors.earliest("pk")
    lead = filled.people["lead"]
    today = NOW.date()
    requests = QuotaRequest.objects.bulk_create(
        QuotaRequest(
            tenant=tenant,
            cluster=filled.cluster,
            requested_by=lead,
            flavor=flavor,
            gpus=2,
            starts_on=today,
            ends_on=today + timedelta(days=90),
            justification="Three runs of ten days each, as measured on the first one.",
            state=RequestState.ACTIVE if n == 0 else STATES[(n + tenant.pk) % len(STATES)],
            submitted_at=NOW,
        )
        for tenant in filled.tenants
        for n in range(REQUESTS)
    )
    granted = {RequestState.ACTIVE, RequestState.SCHEDULED, RequestState.COUNTERED}
    QuotaGrant.objects.bulk_create(
        QuotaGrant(
            request=request,
            flavor=flavor,
            gpus=request.gpus,
            starts_on=request.starts_on,
            ends_on=request.ends_on,
        )
        for request in requests
        if request.state in granted
    )
    QuotaRequestEvent.objects.bulk_create(
        QuotaRequestEvent(request=request, action=action, to_state=state, actor=lead, at=NOW)
        for request in requests
        for action, state in (("create", RequestState.DRAFT), ("submit", request.state))
    )
    return requests


def _notices(filled, count):
    for person in filled.people.values():
        Notification.objects.bulk_create(
            Notification(
                user=person,
                kind="job_ended",
                key=f"job-event:{n}",
                facts={"job": f"train-{n}", "state": "succeeded"},
                link=f"/jobs/{filled.job.public_id}/",
                happened_at=NOW,
            )
            for n in range(count)
        )
        ApiToken.objects.create(
            user=person,
            name="nightly",
            prefix=f"{person.pk:08}",
            digest=f"{person.pk:064x}",
            created_at=NOW,
            expires_at=NOW + timedelta(days=365),
        )
        SavedView.objects.create(user=person, name="waiting", query="state=queued")


def _trail(filled, count):
    actor = filled.people["operator"]
    AuditEvent.objects.bulk_create(
        (
            AuditEvent(
                actor=actor,
                action="cancel_job",
                object_kind="job",
                object_id=job.public_id,
                before={"state": "queued"},
                after={"state": "cancelled"},
            )
            for job in (filled.jobs[n % len(filled.jobs)] for n in range(count))
        ),
        batch_size=2_000,
    )


def _plans_of_use(filled):
    """Priorities, budgets, policies, and what the cluster was found to have."""
    PriorityClass.objects.bulk_create(
        PriorityClass(name=name, value=value) for name, value in (("normal", 100), ("high", 200))
    )
    Budget.objects.bulk_create(
        Budget(
            tenant=tenant,
            cluster=filled.cluster,
            gpu_hours=10_000,
            from_at=NOW - timedelta(days=9),
            until_at=NOW + timedelta(days=90),
        )
        for tenant in filled.tenants
    )
    Policy.objects.bulk_create(
        Policy(cluster=filled.cluster, number=n, values={}, by=filled.people["operator"])
        for n in range(1, 21)
    )
    Tenancy.objects.bulk_create(
        Tenancy(tenant=tenant, cluster=filled.cluster, checked_at=NOW) for tenant in filled.tenants
    )
    ClusterCheck.objects.create(
        cluster=filled.cluster,
        checked_at=NOW,
        nodes=filled.cluster.nodes.count(),
        parts=[{"key": "driver", "is_there": True, "versions": ["580.95.05"], "nodes": 12}],
        namespaces=[
            {"name": tenant.slug, "tenant": tenant.slug, "kept": True, "work": []}
            for tenant in filled.tenants
        ],
    )


def _layouts(filled):
    """Twenty layouts of five versions each, and a rollout of the first to many nodes."""
    layouts = Layout.objects.bulk_create(
        Layout(
            cluster=filled.cluster,
            slug=f"layout-{n}",
            name=f"Layout {n}",
            gpu_model="A100-80GB",
            gpu_count=8,
        )
        for n in range(20)
    )
    versions = LayoutVersion.objects.bulk_create(
        LayoutVersion(layout=layout, number=n, cuts=[{"3g.40gb": 2}] * 8, strategy="mixed")
        for layout in layouts
        for n in range(1, 6)
    )
    rollout = Rollout.objects.create(
        version=versions[0], cluster=filled.cluster, begun_at=NOW, state=RolloutState.PAUSED
    )
    changes = NodeChange.objects.bulk_create(
        NodeChange(rollout=rollout, node=node, wave=n // 4 + 1, step=Step.WAITING, since=NOW)
        for n, node in enumerate(filled.cluster.nodes.order_by("name")[:NODES])
    )
    RolloutEvent.objects.bulk_create(
        RolloutEvent(rollout=rollout, change=change, became=Step.WAITING, at=NOW)
        for change in changes
    )
    return layouts[0], rollout
