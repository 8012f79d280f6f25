"""A small cluster in the middle of its day, for page tests: people, nodes, jobs in every state."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from django.utils import timezone

from scheduling.models import Job, PlacementGpu
from scheduling.states import HOLDING, JobState, MemberPhase
from tenants.models import Role
from tenants.states import IN_FORCE, PROMISED, RequestState
from tests.factories import (
    AnnouncementFactory,
    BlockPartFactory,
    BudgetFactory,
    CapacityBlockFactory,
    ClusterCheckFactory,
    ClusterFactory,
    CohortFactory,
    FabricFactory,
    FlavorFactory,
    GpuFactory,
    JobEventFactory,
    JobFactory,
    JobFlavorFactory,
    LayoutFactory,
    LayoutVersionFactory,
    MaintenanceWindowFactory,
    MemberFactory,
    MembershipFactory,
    NodeChangeFactory,
    NodeFactory,
    PlacementFactory,
    PriorityClassFactory,
    QuotaFactory,
    QuotaGrantFactory,
    QuotaRequestEventFactory,
    QuotaRequestFactory,
    RackFactory,
    RolloutEventFactory,
    RolloutFactory,
    TenantFactory,
    UserFactory,
)
from topology.models import Cluster, Gpu
from topology.states import Mishap, RolloutState, Step

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
PASSWORD = "a-long-pass-phrase"
LOG = b"".join(
    b"2026-03-02T11:5%d:00Z %s\n" % (minute, line)
    for minute, line in enumerate(
        [
            b"Loading 1,024 shards of the corpus from /data/pile",
            b"\x1b[33mWARNING\x1b[0m 3 shards have no checksum",
            b"\x1b[36mstep\x1b[0m 100  \x1b[1mloss\x1b[0m 2.8412  \x1b[32m381 samples/s\x1b[0m",
            b"\x1b[36mstep\x1b[0m 200  \x1b[1mloss\x1b[0m 2.6127  \x1b[32m379 samples/s\x1b[0m",
            b"\x1b[35mcheckpoint\x1b[0m " + b"/data/checkpoints/llama-70b/step-000200" * 6,
            b"\x1b[31mNCCL WARN\x1b[0m timeout; \x1b[34mtrying again\x1b[0m <rank 3> \x1b[90mquiet",
        ]
    )
)
PHASE = {
    JobState.STARTING: MemberPhase.BINDING,
    JobState.RUNNING: MemberPhase.RUNNING,
    JobState.STOPPING: MemberPhase.RUNNING,
    JobState.SUCCEEDED: MemberPhase.SUCCEEDED,
    JobState.FAILED: MemberPhase.FAILED,
    JobState.TIMED_OUT: MemberPhase.FAILED,
}


def make_scene():
    """Two tenants, twelve nodes of three models; `mei` leads, `omar` works, `root` operates."""
    wall = timezone.now()
    cluster = ClusterFactory(
        slug="demo",
        name="Demo",
        is_simulated=True,
        clock_at=NOON,
        clock_wall_at=wall,
        clock_speed=60,
        planned_at=NOON - timedelta(seconds=20),
    )
    flavors = [
        FlavorFactory(cluster=cluster, name=name) for name in ("H100-SXM", "A100-80GB", "L40S")
    ]
    language, vision = _tenants(flavors)
    people = _people(language, vision)
    nodes = _nodes(cluster, flavors)
    jobs = _jobs(cluster, language, vision, people, nodes)
    return SimpleNamespace(
        cluster=cluster,
        wall=wall,
        flavors=flavors,
        nodes=nodes,
        jobs=jobs,
        language=language,
        vision=vision,
        **people,
    )


def add_requests(scene):
    """Requests for quota of `nlp` in states that look different, by state."""
    shown = {}
    for state in RequestState:
        request = QuotaRequestFactory(
            tenant=scene.language,
            flavor=None if state == RequestState.IN_REVIEW else scene.flavors[0],
            gpu_memory_mib=40_960 if state == RequestState.IN_REVIEW else 0,
            cluster=scene.cluster,
            requested_by=scene.mei,
            gpus=2,
            gpu_hours=5000,
            starts_on=NOON.date() - timedelta(days=30),
            ends_on=NOON.date() + timedelta(days=60),
            state=state,
            submitted_at=scene.wall - timedelta(days=2),
        )
        if state in {RequestState.COUNTERED, *PROMISED, *IN_FORCE}:
            QuotaGrantFactory(request=request, flavor=scene.flavors[0])
        QuotaRequestEventFactory(
            request=request, actor=scene.mei, at=scene.wall, note="As last year.", to_state=state
        )
        shown[state.value] = request
    return shown


def add_rollout(scene):
    """A layout of the A100s, brought to three of them: one verified, one failed, one waiting."""
    layout = LayoutFactory(
        cluster=scene.cluster, slug="halves", name="Halves", gpu_model="A100-80GB", gpu_count=8
    )
    cuts = [{"3g.40gb": 2}] * 4 + [{"1g.10gb": 7}] + [None] * 3
    version = LayoutVersionFactory(layout=layout, cuts=cuts, note="For the course")
    rollout = RolloutFactory(
        version=version, state=RolloutState.PAUSED, begun_by=scene.root, begun_at=NOON
    )
    steps = (Step.VERIFIED, Step.FAILED, Step.WAITING)
    for wave, (node, step) in enumerate(zip(scene.nodes[4:7], steps, strict=True), start=1):
        failed = step == Step.FAILED
        change = NodeChangeFactory(
            rollout=rollout,
            node=node,
            wave=wave,
            step=step,
            since=NOON,
            mishap=Mishap.MIG_FAILED if failed else "",
        )
        RolloutEventFactory(rollout=rollout, change=change, became=step, at=NOON)
    return rollout


def add_plans(scene):
    """Maintenance that is under way, and a block of `nlp` in three days."""
    window = MaintenanceWindowFactory(
        cluster=scene.cluster,
        from_at=NOON - timedelta(hours=4),
        until_at=NOON + timedelta(days=5),
        note="New firmware",
    )
    window.nodes.set(scene.nodes[:3])
    block = CapacityBlockFactory(
        cluster=scene.cluster,
        name="course",
        tenant=scene.language,
        from_at=NOON + timedelta(days=3),
        until_at=NOON + timedelta(days=10),
    )
    BlockPartFactory(block=block, node=scene.nodes[5], gpus=4)
    BudgetFactory(
        tenant=scene.language,
        cluster=scene.cluster,
        from_at=NOON - timedelta(days=1),
        until_at=NOON + timedelta(days=9),
        gpu_hours=400,
    )
    return window, block


def add_clusters(scene):
    """What the cluster has, as last asked, and another that is only looked at."""
    parts = {
        "driver": (True, ["580.95.05"], 12),
        "device_plugin": (True, ["v0.18.0"], 11),
        "dcgm_exporter": (False, [], None),
        "mig_manager": (None, [], None),
        "kueue": (True, ["v0.14.2"], None),
    }
    seen = [
        {"key": key, "is_there": there, "versions": versions, "nodes": nodes}
        for key, (there, versions, nodes) in parts.items()
    ]
    work = [
        {"kind": kind, "name": name, "state": state, "gpus": 2}
        for kind, name, state in (("job", "sweep", "suspended"), ("pod", "train-0", "held"))
    ]
    ClusterCheckFactory(
        cluster=scene.cluster,
        checked_at=scene.wall,
        nodes=12,
        gpu_nodes=12,
        parts=seen,
        namespaces=[{"name": "team-a", "tenant": "", "kept": False, "work": work}],
    )
    lab = ClusterFactory(slug="lab", name="The lab", is_writable=False)
    ClusterCheckFactory(
        cluster=lab,
        trouble="the token has expired",
        lacks_to_look=["list daemonsets.apps"],
        lacks_to_manage=["patch pods", "bind clusterroles.rbac.authorization.k8s.io muster-tenant"],
    )
    return lab


def add_announcements(scene):
    """One of each level that everybody sees, one that only English readers understand, one past."""
    day = timedelta(days=1)
    shown = {"from_at": scene.wall - day, "until_at": scene.wall + day}
    AnnouncementFactory(level="info", text_zh="存储系统今天较慢。", **shown)
    AnnouncementFactory(level="urgent", text="Save your work: power goes at 18:00.", **shown)
    AnnouncementFactory(from_at=scene.wall - 2 * day, until_at=scene.wall - day)
    return AnnouncementFactory(level="warning", text_zh="周五维护。", text="Maintenance.", **shown)


def _tenants(flavors):
    cohort = CohortFactory(name="research")
    language = TenantFactory(
        slug="nlp",
        name="Language",
        cohort=cohort,
        description="Language models, from pre-training to evaluation.",
    )
    vision = TenantFactory(slug="vision", name="Vision", cohort=cohort)
    for tenant, amounts in ((language, (16, 12, 4)), (vision, (8, 8, 8))):
        for flavor, amount in zip(flavors, amounts, strict=True):
            QuotaFactory(tenant=tenant, flavor=flavor, nominal=amount, borrowing_limit=0)
    for name, value in (("low", 0), ("normal", 100), ("high", 200)):
        PriorityClassFactory(name=name, value=value, is_default=name == "normal")
    return language, vision


def _people(language, vision):
    people = {
        "mei": UserFactory(username="mei", first_name="Mei", last_name="Lin"),
        "omar": UserFactory(username="omar", first_name="Omar", last_name="Haddad"),
        "root": UserFactory(username="root", is_operator=True),
        "newcomer": UserFactory(username="newcomer"),
        "vera": UserFactory(username="vera", first_name="Vera", last_name="Novak"),
    }
    for person in people.values():
        person.set_password(PASSWORD)
        person.save()
    MembershipFactory(user=people["mei"], tenant=language, role=Role.LEAD)
    MembershipFactory(user=people["omar"], tenant=language, role=Role.RESEARCHER)
    MembershipFactory(user=people["vera"], tenant=vision, role=Role.RESEARCHER)
    return people


def _nodes(cluster, flavors):
    fabric = FabricFactory(cluster=cluster, name="ib-0")
    racks = [RackFactory(cluster=cluster, name=f"rack-{n}", fabric=fabric) for n in (1, 2)]
    nodes = []
    for flavor, size, island in zip(flavors, (8, 8, 4), (8, 4, 1), strict=True):
        for number in range(1, 5):
            node = NodeFactory(
                cluster=cluster,
                flavor=flavor,
                rack=racks[number % 2],
                fabric=fabric,
                name=f"{flavor.name.split('-')[0].lower()}-{number:02}",
                gpu_count=size,
                gpus=0,
                seen_at=timezone.now(),
            )
            node.gpu_count = size
            node.save()
            Gpu.objects.bulk_create(
                GpuFactory.build(
                    node=node,
                    index=index,
                    island=index // island,
                    numa=index * 2 // size,
                    memory_mib=81_920,
                )
                for index in range(size)
            )
            nodes.append(node)
    nodes[2].is_cordoned = True
    nodes[2].save()
    nodes[6].is_ready = False
    nodes[6].save()
    broken = nodes[4].gpus.get(index=7)
    broken.is_healthy = False
    broken.save()
    return nodes


def _jobs(cluster, language, vision, people, nodes):
    """One job in each state, a few that wait, and some of another tenant."""
    plans = [
        ("llama-70b-pretrain", language, "omar", JobState.RUNNING, [(0, 8), (1, 8)]),
        ("eval-harness", language, "mei", JobState.STARTING, [(4, 4)]),
        ("tokenizer-sweep", language, "omar", JobState.STOPPING, [(8, 2)]),
        ("sft-instruct-v3", language, "omar", JobState.SUCCEEDED, []),
        ("rlhf-reward-model", language, "mei", JobState.FAILED, []),
        ("long-context-probe", language, "omar", JobState.TIMED_OUT, []),
        ("typo-run", language, "omar", JobState.CANCELLED, []),
        ("paused-distillation", language, "mei", JobState.SUSPENDED, []),
        ("yolo-detector", vision, "vera", JobState.RUNNING, [(5, 8), (9, 3)]),
        ("video-segmentation", vision, "vera", JobState.RUNNING, [(3, 4)]),
    ]
    jobs = {}
    for hours, (name, tenant, owner, state, places) in enumerate(plans, start=1):
        placed = [(nodes[place], gpus) for place, gpus in places]
        jobs[name] = _job(tenant, people[owner], state, placed=placed, name=name, hours=hours)
    reasons = [
        ("moe-128-experts", "no_room", {"missing": 4}),
        ("ablation-dropout", "quota_exhausted", {"asked": 8, "at": "nlp", "free": 2}),
        ("fresh-submission", "", {}),
    ]
    for minutes, (name, reason, numbers) in enumerate(reasons):
        job = JobFactory(
            name=name,
            cluster=cluster,
            tenant=language,
            owner=people["omar"],
            members=4 - minutes,
            members__gpus=8,
            priority=200 - 100 * minutes,
            submitted_at=NOON - timedelta(minutes=50 - minutes),
            reason=reason,
            reason_numbers=numbers,
        )
        JobEventFactory(job=job, reason="submitted", actor=people["omar"], at=job.submitted_at)
        jobs[name] = job
    jobs["theirs"] = JobFactory(
        name="secret-of-vision",
        cluster=cluster,
        tenant=vision,
        owner=people["vera"],
        priority=100,
        submitted_at=NOON - timedelta(minutes=55),
        reason="no_room",
        reason_numbers={"missing": 1},
    )
    return jobs


def _job(tenant, owner, state, *, placed, name, hours):
    """A job of that state, submitted `hours` before noon, on (node, GPUs) each."""
    submitted = NOON - timedelta(hours=hours)
    started = submitted + timedelta(minutes=3 * hours)
    has_run = state in PHASE and state != JobState.STARTING
    ended = started + timedelta(minutes=41, seconds=7) if state not in HOLDING else None
    job = JobFactory(
        name=name,
        cluster=Cluster.objects.get(slug="demo"),
        tenant=tenant,
        owner=owner,
        state=state,
        stopping_to="cancelled" if state == JobState.STOPPING else "",
        attempt=1,
        members=max(1, len(placed)),
        members__gpus=max((gpus for _node, gpus in placed), default=2),
        walltime_seconds=2400,
        image="pytorch/pytorch:2.8.0-cuda12.9-cudnn9-runtime",
        command=["torchrun", "--nproc-per-node=8", "train.py", "--config", f"configs/{name}.yaml"],
        environment={"NCCL_DEBUG": "WARN", "HF_HOME": "/data/hf"},
        submitted_at=submitted,
        started_at=started if has_run else None,
        ended_at=ended if state != JobState.SUSPENDED else None,
    )
    if placed and tenant.slug == "nlp" and state == JobState.RUNNING:
        JobFlavorFactory(job=job, flavor=placed[0][0].flavor)
    _events(job, owner)
    for rank, (node, gpus) in enumerate(placed):
        _place(job, node, gpus, rank=rank, has_run=has_run)
    return Job.objects.get(pk=job.pk)


def _events(job, owner):
    JobEventFactory(job=job, reason="submitted", actor=owner, at=job.submitted_at)
    steps = [("starting", "placed", job.submitted_at + timedelta(minutes=2))]
    if job.started_at:
        steps.append(("running", "", job.started_at))
    if job.state not in ("starting", "running"):
        steps.append((job.state, "", job.ended_at or job.submitted_at + timedelta(minutes=50)))
    for state, reason, at in steps:
        JobEventFactory(job=job, to_state=state, reason=reason, at=at)


def _place(job, node, gpus, *, rank, has_run):
    placement = PlacementFactory(
        job=job, node=node, bound_at=job.submitted_at + timedelta(minutes=2)
    )
    member = MemberFactory(
        placement=placement,
        rank=rank,
        phase=PHASE[JobState(job.state)],
        started_at=job.started_at if has_run else None,
        pod_name=f"{job.public_id}-main-{rank}" if has_run else "",
    )
    taken = node.gpus.filter(held_by__isnull=True).order_by("index")[:gpus]
    PlacementGpu.objects.bulk_create(
        PlacementGpu(placement=placement, member=member, gpu=gpu) for gpu in taken
    )
