"""Small random clusters, as hypothesis draws them."""

from hypothesis import strategies as st

from scheduling.engine.jobs import Access, Group, Level, PendingJob, Request
from scheduling.engine.snapshot import PARTS_PER_GPU, Quotas, Snapshot

GPUS = 4


@st.composite
def jobs(draw, job_id, tenants):
    least = draw(st.integers(1, 3))
    gpus = draw(st.integers(0, GPUS + 1))
    request = Request(
        kind=Access.WHOLE if gpus else Access.NONE,
        count=gpus,
        cpu_milli=draw(st.sampled_from([0, 1000, 4000])),
    )
    return PendingJob(
        id=job_id,
        name=f"j{job_id}",
        tenant=draw(st.integers(0, tenants - 1)),
        groups=(Group(min_member=least, max_member=least, request=request),),
        priority=draw(st.integers(0, 2)),
        submitted_at=draw(st.integers(0, 50)),
        held=draw(st.sampled_from([False] * 5 + [True])),
        required=draw(st.sampled_from([None, None, Level.NODE, Level.RACK])),
    )


@st.composite
def snapshots(draw):
    """A cluster of up to five nodes, two tenants and eight waiting jobs."""
    nodes, tenants = draw(st.integers(1, 5)), 2
    flags = st.lists(st.sampled_from([True, True, False]), min_size=nodes, max_size=nodes)
    gpus = nodes * GPUS
    free = draw(st.lists(st.sampled_from([0, 1000, 1000]), min_size=gpus, max_size=gpus))
    cpu = draw(st.lists(st.integers(0, 16_000), min_size=nodes, max_size=nodes))
    racks = draw(st.lists(st.integers(0, 1), min_size=nodes, max_size=nodes))
    numbers = list(range(nodes))
    count = draw(st.integers(0, 8))
    quota = st.integers(0, 8).map(lambda own: own * PARTS_PER_GPU)
    return Snapshot.of(
        taken_at=100,
        node_ids=tuple(range(10, 10 + nodes)),
        node_names=tuple(f"n{node}" for node in range(nodes)),
        capacity=[[16_000] * nodes, [1 << 20] * nodes],
        free=[cpu, [1 << 20] * nodes],
        node_open=draw(flags),
        node_domain=[numbers, numbers, racks, [0] * nodes, [0] * nodes],
        gpu_ids=tuple(range(gpus)),
        gpu_node=[gpu // GPUS for gpu in range(gpus)],
        gpu_index=[gpu % GPUS for gpu in range(gpus)],
        gpu_free_milli=free,
        gpu_open=draw(
            st.lists(st.sampled_from([True] * 6 + [False]), min_size=gpus, max_size=gpus)
        ),
        gpu_island=[gpu % GPUS // 2 for gpu in range(gpus)],
        tenant_ids=tuple(range(tenants)),
        tenant_names=("red", "blue"),
        quotas=Quotas.of(
            tenants=tenants,
            flavors=1,
            limited=[draw(st.booleans()) for _ in range(tenants)],
            nominal=[[draw(quota)] for _ in range(tenants)],
        ),
        pending=tuple(draw(jobs(job_id, tenants)) for job_id in range(1, count + 1)),
    )
