"""Objects as API servers, the GPU operator and kubelets write them, cut down to what is read."""

import json
from datetime import UTC, datetime

import pytest

from topology.kube import parse
from topology.kube.values import (
    ClockSeen,
    GpuSeen,
    GroupSeen,
    LayoutSeen,
    MemberSeen,
    NodeSeen,
    StraySeen,
    Use,
)

T0 = datetime(2026, 1, 5, 8, 0, 0, tzinfo=UTC)


def node(**changes):
    """A node of two GPUs under the GPU operator; `changes` replace top-level parts."""
    return {
        "metadata": {
            "name": "gpu-01",
            "uid": "u-1",
            "resourceVersion": "42",
            "labels": {
                "nvidia.com/gpu.product": "NVIDIA-L40S",
                "nvidia.com/gpu.memory": "46068",
                "muster.dev/rack": "rack-1",
                "muster.dev/fabric": "ethernet-1",
            },
        },
        "spec": {},
        "status": {
            "capacity": {"nvidia.com/gpu": "2"},
            "allocatable": {"cpu": "63500m", "memory": "515Gi", "nvidia.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    } | changes


def pod(*, status=None, notes=None, **spec):
    return {
        "metadata": {
            "name": "j-abc-main-1-xyz",
            "namespace": "muster-nlp",
            "uid": "p-1",
            "resourceVersion": "7",
            "labels": {"muster.dev/job": "j-abc", "muster.dev/group": "main"},
            "annotations": {
                "muster.dev/attempt": "2",
                "batch.kubernetes.io/job-completion-index": "1",
            }
            | (notes or {}),
            "ownerReferences": [{"kind": "Job", "name": "j-abc-main", "controller": True}],
        },
        "spec": spec,
        "status": {"phase": "Pending"} | (status or {}),
    }


def member(**changes):
    known = {
        "namespace": "muster-nlp",
        "job": "j-abc",
        "group": "main",
        "attempt": 2,
        "rank": 1,
        "pod_name": "j-abc-main-1-xyz",
        "pod_uid": "p-1",
        "version": 7,
    }
    return MemberSeen(**(known | changes))


def job(**status):
    return {
        "metadata": {
            "name": "j-abc-main",
            "namespace": "muster-nlp",
            "resourceVersion": "9",
            "labels": {"muster.dev/job": "j-abc", "muster.dev/group": "main"},
            "annotations": {"muster.dev/attempt": "2"},
        },
        "spec": {"suspend": False, "completions": 3},
        "status": status,
    }


def group(**changes):
    known = {"namespace": "muster-nlp", "job": "j-abc", "group": "main", "attempt": 2, "version": 9}
    return GroupSeen(**(known | {"members": 3} | changes))


def test_a_node_without_our_agent_has_as_many_equal_gpus_as_it_says():
    assert parse.node_seen(node()) == NodeSeen(
        name="gpu-01",
        uid="u-1",
        version=42,
        cpu_milli=63_500,
        memory_mib=515 * 1024,
        gpu_count=2,
        gpu_product="NVIDIA-L40S",
        gpu_memory_mib=46_068,
        rack="rack-1",
        fabric="ethernet-1",
        gpus=(
            GpuSeen(index=0, uuid="unknown-0", model="NVIDIA-L40S"),
            GpuSeen(index=1, uuid="unknown-1", model="NVIDIA-L40S"),
        ),
        layout=LayoutSeen(offers={"nvidia.com/gpu": 2}),
    )


def test_a_node_with_our_agent_has_the_gpus_that_it_lists():
    listed = [
        {"index": 1, "uuid": "GPU-b", "model": "L40S", "island": 1, "numa": 1, "healthy": False},
        {"index": 0, "uuid": "GPU-a", "model": "L40S", "memory_mib": 46068, "island": 0, "numa": 0},
    ]
    bare = {"name": "gpu-01", "annotations": {"muster.dev/gpus": json.dumps(listed)}}

    seen = parse.node_seen(node(metadata=bare))

    assert (seen.gpu_product, seen.gpu_memory_mib, seen.gpus) == (
        "L40S",
        46_068,
        (
            GpuSeen(index=0, uuid="GPU-a", model="L40S", memory_mib=46_068, island=0, numa=0),
            GpuSeen(index=1, uuid="GPU-b", model="L40S", island=1, numa=1, healthy=False),
        ),
    )


@pytest.mark.parametrize(
    ("model", "told", "slices"),
    [
        ("A100-40GB", ["3g.20gb@4", "4g.20gb@0"], (("3g.20gb", 4), ("4g.20gb", 0))),
        ("A100-40GB", ["3g.20gb", "4g.20gb"], (("3g.20gb", 4), ("4g.20gb", 0))),
        ("A100-40GB", ["9g.90gb", "1g.5gb"], (("9g.90gb", 0), ("1g.5gb", 1))),
        ("Unheard-of", ["1g.5gb"], (("1g.5gb", 0),)),
        ("A100-40GB", [], ()),
    ],
    ids=["told where", "not told where", "impossible", "unknown board", "not cut yet"],
)
def test_a_board_with_mig_on_has_the_slices_that_it_lists(model, told, slices):
    board = {"index": 0, "uuid": "GPU-a", "model": model, "mig": True, "slices": told}
    bare = {"name": "gpu-01", "annotations": {"muster.dev/gpus": json.dumps([board])}}

    (gpu,) = parse.node_seen(node(metadata=bare)).gpus

    assert (gpu.mode, gpu.replicas, gpu.slices) == ("mig", 1, slices)


@pytest.mark.parametrize(
    ("strategy", "replicas", "expected"),
    [
        ("time-slicing", "4", ("time_slicing", 4)),
        ("mps", "2", ("mps", 2)),
        ("none", "1", ("exclusive", 1)),
        ("time-slicing", "many", ("exclusive", 1)),
        ("something-new", "4", ("exclusive", 1)),
    ],
)
@pytest.mark.parametrize("has_agent", [True, False])
def test_gpus_are_shared_as_the_labels_of_their_node_say(strategy, replicas, expected, has_agent):
    parts = node()
    parts["metadata"]["labels"] |= {
        "nvidia.com/gpu.product": "NVIDIA-L40S-SHARED",
        "nvidia.com/gpu.sharing-strategy": strategy,
        "nvidia.com/gpu.replicas": replicas,
    }
    parts["status"]["capacity"] = {"nvidia.com/gpu.shared": str(expected[1])}
    if has_agent:
        listed = json.dumps([{"index": 0, "uuid": "GPU-a", "model": "L40S"}])
        parts["metadata"]["annotations"] = {"muster.dev/gpus": listed}

    seen = parse.node_seen(parts)

    assert seen.gpu_product == "NVIDIA-L40S"
    assert [(gpu.mode, gpu.replicas) for gpu in seen.gpus] == [expected]


def test_a_node_that_says_nothing_has_no_room():
    assert parse.node_seen({"metadata": {"name": "new"}}) == NodeSeen(name="new")


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({}, {"conditions": [{"type": "Ready", "status": "True"}]}, True),
        ({}, {"conditions": [{"type": "Ready", "status": "Unknown"}]}, False),
        ({}, {}, True),
        ({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}, {}, False),
    ],
    ids=["says so", "fell silent", "says nothing", "tainted before it says"],
)
def test_a_node_is_ready_when(spec, status, expected):
    assert parse.node_seen(node(spec=spec, status=status)).is_ready is expected


def test_only_taints_that_keep_our_members_away_are_told():
    taints = [
        {"key": "muster.dev/pool", "value": "gpu", "effect": "NoSchedule"},
        {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "team", "value": "storage", "effect": "NoExecute"},
    ]

    seen = parse.node_seen(node(spec={"taints": taints, "unschedulable": True}))

    assert (seen.is_cordoned, seen.taints) == (
        True,
        ({"key": "team", "value": "storage", "effect": "NoExecute"},),
    )


NO_GPU = Use(name="muster-nlp/j-abc-main-1-xyz")
OUR_GATE, THEIR_GATE = {"name": "muster.dev/gate"}, {"name": "kueue.x-k8s.io/topology"}


@pytest.mark.parametrize(
    ("spec", "phase", "expected"),
    [
        ({"schedulingGates": [OUR_GATE]}, "Pending", {"phase": "gated"}),
        (
            {"schedulingGates": [THEIR_GATE, OUR_GATE]},
            "Pending",
            {"phase": "gated", "foreign_gates": ("kueue.x-k8s.io/topology",)},
        ),
        (
            {"schedulingGates": [THEIR_GATE]},
            "Pending",
            {"phase": "binding", "foreign_gates": ("kueue.x-k8s.io/topology",)},
        ),
        ({}, "Pending", {"phase": "binding"}),
        ({"nodeName": "n1"}, "Pending", {"phase": "bound", "node": "n1", "use": NO_GPU}),
        ({"nodeName": "n1"}, "Running", {"phase": "running", "node": "n1", "use": NO_GPU}),
        ({"nodeName": "n1"}, "Unknown", {"phase": "running", "node": "n1", "use": NO_GPU}),
        ({"nodeName": "n1"}, "Succeeded", {"phase": "succeeded", "node": "n1"}),
        ({"nodeName": "n1"}, "Failed", {"phase": "failed", "node": "n1"}),
    ],
)
def test_the_phase_of_a_member(spec, phase, expected):
    assert parse.member_seen(pod(status={"phase": phase}, **spec)) == member(**expected)


@pytest.mark.parametrize(
    "owners",
    [None, [{"kind": "ReplicaSet", "controller": True}], [{"kind": "Job", "controller": False}]],
)
def test_what_no_job_has_made_was_made_by_hand(owners):
    likeness = pod()
    likeness["metadata"]["ownerReferences"] = owners

    assert parse.member_seen(likeness) == member(phase="binding", by_hand=True)


def test_a_pod_with_our_label_and_no_rank_is_a_stray():
    stray = pod(nodeName="n1")
    stray["metadata"]["annotations"] = {}

    seen = [parse.labelled_seen(stray, gone=gone) for gone in (False, True)]

    assert seen == [
        StraySeen(node="n1", uid="p-1", version=7, use=NO_GPU),
        StraySeen(node="n1", uid="p-1", version=7),
    ]


@pytest.mark.parametrize(("phase", "expected"), [("Running", "gone"), ("Succeeded", "succeeded")])
def test_a_pod_that_goes_is_gone_unless_it_had_ended(phase, expected):
    seen = parse.member_seen(pod(status={"phase": phase}), gone=True)

    assert seen == member(phase=expected)


def test_a_members_times_and_exit_are_those_of_its_main_container():
    ended = {
        "exitCode": 3,
        "reason": "Error",
        "startedAt": "2026-01-05T08:00:02Z",
        "finishedAt": "2026-01-05T08:10:02Z",
    }
    status = {
        "phase": "Failed",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": "2026-01-05T08:00:00Z",
            }
        ],
        "containerStatuses": [
            {"name": "proxy", "state": {"terminated": {"exitCode": 0}}},
            {"name": "main", "state": {"terminated": ended}},
        ],
    }

    assert parse.member_seen(pod(status=status, nodeName="n1")) == member(
        phase="failed",
        node="n1",
        bound_at=T0,
        started_at=T0.replace(second=2),
        ended_at=T0.replace(minute=10, second=2),
        exit_code=3,
        message="Error",
    )


def terminated(code, **conditions):
    state = {"exitCode": code, "finishedAt": "2026-01-05T08:10:02Z"}
    status = {"phase": "Failed", "conditions": [], "containerStatuses": []}
    status["conditions"] = [{"type": name, "status": own} for name, own in conditions.items()]
    status["containerStatuses"] = [{"name": "main", "state": {"terminated": state}}]
    return pod(status=status)


@pytest.mark.parametrize(
    ("deletion", "code", "expected"),
    [
        ("2026-01-05T08:10:31Z", 143, None),
        ("2026-01-05T08:10:32Z", 143, None),
        ("2026-01-05T08:10:33Z", 3, 3),  # asked for a second after it had failed
        ("2026-01-05T08:10:31Z", 0, 0),
    ],
)
def test_what_was_deleted_has_no_exit_code_of_its_own(deletion, code, expected):
    leaving = terminated(code)
    leaving["metadata"] |= {"deletionTimestamp": deletion, "deletionGracePeriodSeconds": 30}

    assert parse.member_seen(leaving).exit_code == expected


@pytest.mark.parametrize(
    ("noted", "last_words", "expected"),
    [
        ("2026-01-05T08:05:00Z", "", datetime(2026, 1, 5, 8, 5, tzinfo=UTC)),
        (
            "",
            "muster.dev/checkpoint-at=2026-01-05T08:09:00Z",
            datetime(2026, 1, 5, 8, 9, tzinfo=UTC),
        ),
        (
            "2026-01-05T09:05:00+01:00",
            "bye\nmuster.dev/checkpoint-at = 2026-01-05T08:09:00Z \n",
            datetime(2026, 1, 5, 8, 9, tzinfo=UTC),
        ),
        ("yesterday", "muster.dev/checkpoint-at=", None),
        ("2026-01-05T08:05:00", "checkpoint", None),
    ],
    ids=["noted by its node", "as it ended", "the later of both", "no instant", "no zone"],
)
def test_a_members_checkpoint_is_the_last_that_it_tells_of(noted, last_words, expected):
    ended = terminated(143)
    ended["metadata"]["annotations"] |= {"muster.dev/checkpoint-at": noted}
    ended["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = last_words

    assert parse.member_seen(ended).checkpoint_at == expected


def test_a_checkpoint_in_the_last_words_is_no_part_of_what_is_wrong():
    ended = terminated(143)
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    state["message"] = "muster.dev/checkpoint-at=2026-01-05T08:09:00Z\nout of disk"

    assert parse.member_seen(ended).message == "out of disk"


def test_what_was_evicted_has_no_exit_code_of_its_own():
    codes = [
        parse.member_seen(terminated(143, DisruptionTarget=own)).exit_code
        for own in ("True", "False")
    ]

    assert codes == [None, 143]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"reason": "OutOfcpu", "message": "Pod was rejected"}, "OutOfcpu: Pod was rejected"),
        (
            {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "Pulling"}}}]},
            "",
        ),
        (
            {
                "containerStatuses": [
                    {"name": "main", "state": {"waiting": {"reason": "Err", "message": "no image"}}}
                ]
            },
            "Err: no image",
        ),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/2 nodes are available",
                    }
                ]
            },
            "Unschedulable: 0/2 nodes are available",
        ),
        (
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
                ]
            },
            "",
        ),
    ],
    ids=["refused by its node", "being pulled", "image missing", "no node fits", "gated"],
)
def test_the_message_is_what_is_wrong_with_a_member(status, expected):
    assert parse.member_seen(pod(status=status)).message == expected


def test_a_pod_told_to_end_is_stopping():
    leaving = pod(nodeName="n1", status={"phase": "Running"})
    leaving["metadata"]["deletionTimestamp"] = "2026-01-05T08:00:00Z"

    assert parse.member_seen(leaving) == member(
        phase="running", node="n1", stopping=True, stop_by=T0, use=NO_GPU
    )


@pytest.mark.parametrize(
    "notes",
    [{"muster.dev/attempt": ""}, {"batch.kubernetes.io/job-completion-index": ""}],
    ids=["no attempt", "no rank"],
)
def test_a_pod_that_is_no_member_is_passed_over(notes):
    assert parse.member_seen(pod(notes=notes)) is None


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], group()),
        ([{"type": "FailureTarget", "status": "True", "reason": "BackoffLimit"}], group()),
        (
            [{"type": "Complete", "status": "True", "reason": "CompletionsReached"}],
            group(outcome="complete", reason="CompletionsReached"),
        ),
        (
            [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}],
            group(outcome="failed", reason="BackoffLimitExceeded"),
        ),
        ([{"type": "Failed", "status": "False"}], group()),
    ],
    ids=["not ended", "about to fail", "complete", "failed", "said not to have failed"],
)
def test_how_a_group_ended(conditions, expected):
    assert parse.group_seen(job(conditions=conditions)) == expected


def test_a_job_that_is_not_ours_is_passed_over():
    theirs = job()
    del theirs["metadata"]["labels"]["muster.dev/job"]

    assert parse.group_seen(theirs) is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            {"now": "2026-01-05T08:00:00.000000Z", "speed": 60.0, "frozen": False},
            ClockSeen(at=T0, wall=T0, speed=60.0),
        ),
        (
            {"now": "2026-01-05T08:00:00.000000Z", "speed": 60.0, "frozen": True},
            ClockSeen(at=T0, wall=T0, speed=0.0),
        ),
        ({}, ClockSeen(at=None, wall=T0)),
    ],
    ids=["running", "standing still", "the wall's"],
)
def test_what_a_clusters_clock_shows(answer, expected):
    assert parse.clock_seen(answer, wall=T0) == expected


@pytest.mark.parametrize(
    ("said", "devices"),
    [("0,1", ("0", "1")), (" 5@4 , 5#2", ("5@4", "5#2")), ("GPU five", ()), ("0,,1", ()), ("", ())],
)
def test_devices_that_a_member_was_given_are_read_or_left(said, devices):
    rank = {"batch.kubernetes.io/job-completion-index": "0", "muster.dev/attempt": "1"}
    notes = {"muster.dev/devices-given": said, **rank}
    meta = {"name": "a", "uid": "u", "labels": {"muster.dev/job": "j-1"}, "annotations": notes}

    assert parse.member_seen({"metadata": meta, "spec": {}}).devices == devices
