"""What the scheduling engine costs, row by row of what it is to reach."""

from functools import partial

from scheduling.engine.cycle import plan_cycle
from scheduling.engine.fleet import Fleet
from scheduling.engine.invariants import violations
from scheduling.engine.jobs import Level
from scheduling.engine.ledger import Ledger
from scheduling.engine.memory import Memory
from scheduling.engine.plan import Preempt, Reason
from scheduling.engine.policy import Policy
from tests.bench.figures import Figure
from tests.bench.measuring import (
    PROTOCOL,
    ROUNDS,
    cpu_seconds,
    exponent,
    least_cpu_seconds,
    peak_mib,
)
from tests.bench.scale import (
    DAY,
    GPUS,
    NO_STOPS,
    cluster,
    double_quota,
    draw_case,
    gang,
    members_on,
    moved_on,
    runner,
    seated,
    snapshot_of,
)


def cold(nodes, gangs):
    """A cycle that knows of none before it, as the case is drawn, and where room alone decides."""
    bench = f"cycle-cold-{nodes}x{gangs}"
    drawn = snapshot_of(draw_case(nodes, gangs))
    for name, snapshot in (("seconds", drawn), ("seconds-room-decides", double_quota(drawn))):
        yield _seconds(bench, snapshot, NO_STOPS, name=name)
    yield from _growth(bench, nodes, gangs)
    yield _peak(bench, partial(_draw_and_plan, nodes, gangs))


def warm():
    """The cycle after one end and one arrival, with the memory of the cycle before."""
    drawn = snapshot_of(draw_case(5_000, 10_000))
    for name, before in (("seconds", drawn), ("seconds-room-decides", double_quota(drawn))):
        after = moved_on(before, plan_cycle(before, NO_STOPS))
        assert plan_cycle(after, NO_STOPS, _memory_of(before)) == plan_cycle(after, NO_STOPS)
        yield Figure(
            bench="cycle-warm-5000x10000",
            name=name,
            value=cpu_seconds(
                partial(plan_cycle, after, NO_STOPS), handed=partial(_memory_of, before)
            ),
            unit="s",
            n=ROUNDS,
            of={"case": f"{len(after.running)} jobs running, {len(after.pending)} waiting"},
            protocol=PROTOCOL,
        )


def _memory_of(snapshot):
    memory = Memory()
    plan_cycle(snapshot, NO_STOPS, memory)
    return memory


def making_room():
    """The same cluster where about half of the waiting gangs have others stopped for them."""
    yield _seconds("making-room-1000x1000", snapshot_of(draw_case(1_000, 1_000)), Policy())


def wide_gang():
    """One gang of 512 members on as many empty nodes in racks, blocks and a fabric."""
    wide = gang(1, 512, preferred=Level.RACK, walltime_seconds=DAY)
    snapshot = cluster(512, pending=(wide,))
    assert len(plan_cycle(snapshot, Policy()).starts[0].members) == 512
    yield _seconds("gang-512", snapshot, Policy())


def drain():
    """4,000 jobs of one GPU, all of which start on 500 nodes."""
    jobs = [gang(own, 1, gpus=1, tenant=own % 32, walltime_seconds=DAY) for own in range(4_000)]
    snapshot = cluster(500, pending=tuple(jobs))
    assert len(plan_cycle(snapshot, Policy()).starts) == 4_000
    yield _seconds("drain-4000", snapshot, Policy())


def unschedulable():
    """A gang of 80 GPUs on 1,000 nodes with 1,000 free, one on each: its reason and reservation."""
    running = [
        runner(1_000 + node, members_on([node], 7), tenant=node % 32, ends_in=DAY + node)
        for node in range(1_000)
    ]
    snapshot = seated(1_000, running, pending=(gang(1, 10, walltime_seconds=DAY),))
    snapshot = double_quota(snapshot)
    (hold,) = plan_cycle(snapshot, Policy()).holds
    assert hold.reason == Reason.FRAGMENTED
    yield _seconds("unschedulable-80", snapshot, Policy())


def victims():
    """An urgent gang of 16 nodes in one rack, on 2,000 full nodes with 700 gangs to stop."""
    running = []
    for number in range(700):
        first, last = number * 2_000 // 700, (number + 1) * 2_000 // 700
        spot = members_on(range(first, last), GPUS)
        running.append(runner(1_000 + number, spot, ends_in=DAY, priority=number % 3))
    urgent = gang(1, 16, priority=9, required=Level.RACK, walltime_seconds=DAY)
    snapshot = seated(2_000, running, pending=(urgent,), limited=[False] * 32 + [True])
    assert list(plan_cycle(snapshot, Policy()).of(Preempt))
    yield _seconds("victims-2000x700", snapshot, Policy())


def fork():
    """A what-if of everything that is free of 10,000 nodes and 80,000 GPUs."""
    ledger = Ledger(Fleet(cluster(10_000)))
    yield Figure(
        bench="fork-10000",
        name="seconds",
        value=cpu_seconds(lambda: [ledger.fork() for _ in range(100)]) / 100,
        unit="s",
        n=100 * ROUNDS,
        of={"case": "10,000 nodes, 80,000 GPUs"},
        protocol=f"{PROTOCOL}, of 100 forks each",
    )


def _seconds(bench, snapshot, policy, name="seconds"):
    plan = plan_cycle(snapshot, policy)
    assert violations(snapshot, plan, policy) == []
    case = (
        f"{len(snapshot.node_ids)} nodes, {len(snapshot.running)} jobs running, "
        f"{len(snapshot.pending)} waiting, {len(plan.starts)} started"
    )
    return Figure(
        bench=bench,
        name=name,
        value=cpu_seconds(partial(plan_cycle, snapshot, policy)),
        unit="s",
        n=ROUNDS,
        of={"case": case},
        protocol=PROTOCOL,
    )


def _growth(bench, nodes, gangs):
    """How the cost grows with nodes and with waiting jobs, up to the case itself."""
    parts = (4, 2, 1)
    by_axis = {
        "nodes": [(nodes // part, gangs) for part in parts],
        "jobs": [(nodes, gangs // part) for part in parts],
    }
    for axis, cases in by_axis.items():
        seconds = [
            least_cpu_seconds(partial(plan_cycle, snapshot_of(draw_case(*case)), NO_STOPS))
            for case in cases
        ]
        yield Figure(
            bench=bench,
            name=f"exponent-{axis}",
            value=exponent([1 / part for part in parts], seconds),
            unit="power",
            n=len(parts),
            of={"cases": " ".join(f"{own[0]}x{own[1]}" for own in cases)},
            protocol="slope of log CPU seconds over log size, least of 3 each",
        )


def _peak(bench, work):
    return Figure(
        bench=bench,
        name="peak-memory",
        value=peak_mib(work),
        unit="MiB",
        n=1,
        protocol="most resident memory of a process that draws the case and plans it once",
    )


def _draw_and_plan(nodes, gangs):
    plan_cycle(snapshot_of(draw_case(nodes, gangs)), NO_STOPS)


BENCHES = {
    "cycle-cold-1000x1000": partial(cold, 1_000, 1_000),
    "cycle-cold-5000x10000": partial(cold, 5_000, 10_000),
    "cycle-warm-5000x10000": warm,
    "making-room-1000x1000": making_room,
    "gang-512": wide_gang,
    "drain-4000": drain,
    "unschedulable-80": unschedulable,
    "victims-2000x700": victims,
    "fork-10000": fork,
}
"""By name; none of them needs a database."""
