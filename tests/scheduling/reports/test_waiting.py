"""What pages and the API say of a wait: place, likely start, track record, what would help."""

import pytest

from scheduling.models import Unknown
from scheduling.reports.estimates import Record, Start, record_of, start_of
from scheduling.reports.helps import helps_of
from scheduling.reports.position import Position, position_of
from scheduling.reports.queue import queue_of
from scheduling.states import JobState
from tests.factories import (
    AdviceFactory,
    ClusterFactory,
    FlavorFactory,
    JobFactory,
    JobFlavorFactory,
    MembershipFactory,
    QueueOrderFactory,
    ReservationFactory,
    StartEstimateFactory,
)
from tests.scheduling.world import T0, after

pytestmark = pytest.mark.django_db


def test_the_queue_stands_as_the_last_cycle_went_through_it_and_newcomers_behind():
    cluster = ClusterFactory()
    first, second, urgent = (
        JobFactory(cluster=cluster, priority=priority, submitted_at=T0) for priority in (0, 0, 9)
    )
    newcomer = JobFactory(cluster=cluster, priority=99, submitted_at=after(60))
    gone = JobFactory(cluster=cluster, state=JobState.RUNNING)
    order = [gone.pk, second.pk, first.pk, urgent.pk]
    QueueOrderFactory(cluster=cluster, jobs=order)

    keys = [key for _position, key in queue_of(cluster).positions(owner=None)]

    assert keys == [second.pk, first.pk, urgent.pk, newcomer.pk]
    assert position_of(first) == Position(rank=2, of=4, jobs_ahead=1, gpus_ahead=1)


def test_only_those_in_front_that_want_the_same_gpus_compete():
    cluster = ClusterFactory()
    ours, other = (FlavorFactory(cluster=cluster) for _ in range(2))
    for flavor, members in ((other, 8), (ours, 2), (None, 3)):
        ahead = JobFactory(cluster=cluster, members=members, members__gpus=4)
        if flavor:
            JobFlavorFactory(job=ahead, flavor=flavor)
    job = JobFactory(cluster=cluster)
    JobFlavorFactory(job=job, flavor=ours)

    assert position_of(job) == Position(rank=4, of=4, jobs_ahead=2, gpus_ahead=20)


def test_a_job_that_does_not_wait_has_no_place_and_no_start():
    job = JobFactory(state=JobState.RUNNING)

    assert (position_of(job), start_of(job, at=T0)) == (None, None)


SAID = {
    "a range within a day": (
        {"earliest": after(3600), "latest": after(6000), "percent": 80},
        "It is expected to start between 2026-01-01 01:00 and 01:40 UTC (odds: 80 %).",
    ),
    "a range over midnight": (
        {"earliest": after(3600), "latest": after(90_000), "percent": 80},
        "It is expected to start between 2026-01-01 01:00 and 2026-01-02 01:00 UTC (odds: 80 %).",
    ),
    "one minute": (
        {"earliest": after(3600), "latest": after(3600), "percent": 80},
        "It is expected to start at 2026-01-01 01:00 UTC (odds: 80 %).",
    ),
    "an open range": (
        {"earliest": after(3600), "unknown": Unknown.NO_END},
        (
            "Not before 2026-01-01 01:00 UTC; how much later is not known, because it may have to"
            " wait for a job that nothing ends."
        ),
    ),
    "nothing known": (
        {"unknown": Unknown.NO_PAST},
        (
            "When it starts is not known, because too few jobs have ended here to know how long"
            " they run."
        ),
    ),
}


@pytest.mark.parametrize(("known", "text"), SAID.values(), ids=SAID)
def test_a_start_is_one_sentence(known, text):
    assert Start(**known).text == text


def test_every_unknown_start_has_its_own_sentence():
    codes = [*Unknown.values, "not_yet", "overdue"]

    assert len({Start(unknown=code).text for code in codes}) == len(codes)


def test_the_estimate_of_this_wait_is_told_and_that_of_an_earlier_one_is_not():
    job = JobFactory(attempt=1)
    ReservationFactory(job=job, start_at=after(7200))
    StartEstimateFactory(job=job, attempt=0, earliest=T0, latest=T0)
    assert start_of(job, at=T0) == Start(unknown="not_yet", promised_at=after(7200))

    StartEstimateFactory(job=job, attempt=1, earliest=after(60), latest=after(120), percent=80)

    assert start_of(job, at=T0).latest == after(120)
    assert start_of(job, at=after(121)).unknown == "overdue"


def test_the_record_counts_what_was_settled_last_in_this_cluster():
    cluster = ClusterFactory()
    for second, held in enumerate([False] * 3 + [True] * 90 + [False] * 10):
        job = JobFactory(cluster=cluster)
        StartEstimateFactory(job=job, held=held, settled_at=after(second))
    StartEstimateFactory(held=False, settled_at=after(999))
    StartEstimateFactory(job=JobFactory(cluster=cluster))

    assert record_of(cluster) == Record(told=100, held=90)
    assert record_of(cluster).text == "Of the last 100 estimates here, 90 came true."
    assert record_of(ClusterFactory()).text == ""


FOUND = [
    ({"kind": "members", "value": 1}, "With 1 member", {"members": 1}),
    ({"kind": "gpus_per_member", "value": 4}, "With 4 GPUs a member", {"gpus_per_member": 4}),
    ({"kind": "flavor", "value": "L40S"}, "On L40S as well", {"flavor": "L40S"}),
    (
        {"kind": "level", "value": "rack"},
        "If one rack is close enough",
        {"topology": {"required": "rack"}},
    ),
    ({"kind": "level", "value": ""}, "On any nodes, however far apart", {"topology": None}),
    (
        {"kind": "walltime", "value": 5400},
        "With a longest run of 1 h 30 min",
        {"walltime_seconds": 5400},
    ),
    ({"kind": "preemptible", "value": 1}, "If it may be stopped for others", {"preemptible": True}),
    (
        {"kind": "quota", "value": 8, "flavor": "H100"},
        "With 8 more GPUs of H100 guaranteed to Language",
        {"quota": {"flavor": "H100", "gpus": 8}},
    ),
]


@pytest.mark.parametrize(("found", "does", "change"), FOUND)
@pytest.mark.parametrize(
    ("effect", "then"),
    [("starts_now", "it starts now."), ("may_start", "it can start when its turn comes.")],
)
def test_help_is_a_sentence_and_a_change(found, does, change, effect, then):
    job = JobFactory(tenant__name="Language")
    advice = AdviceFactory(job=job, found=[found | {"effect": effect}])

    (told,) = helps_of(job, advice, reader=job.owner)

    assert (told.text, told.change, told.effect) == (f"{does}: {then}", change, effect)


def test_the_job_whose_end_would_do_is_named_to_those_who_may_see_it():
    member = MembershipFactory()
    job = JobFactory(tenant=member.tenant)
    own, anothers = JobFactory(tenant=member.tenant, name="bert"), JobFactory(name="secret")
    found = [
        {"kind": "end", "value": other.public_id, "effect": "starts_now"}
        for other in (own, anothers)
    ]

    told = helps_of(job, AdviceFactory(job=job, found=found), reader=member.user)

    assert [one.text for one in told] == [
        "Once bert ends: it starts now.",
        "Once a running job of another tenant ends: it starts now.",
    ]
    assert [one.change for one in told] == [{"end_of": own.public_id}, {"end_of": None}]
