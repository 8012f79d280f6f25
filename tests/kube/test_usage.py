"""What pods take of their nodes, and how it is told."""

import pytest

from topology.kube.others import Others
from topology.kube.usage import use_of
from topology.kube.values import OthersSeen, Use


def container(*, gpus=0, cpu="0", always=False):
    resources = {"requests": {"cpu": cpu}, "limits": {"nvidia.com/gpu": str(gpus)}}
    return {"resources": resources} | ({"restartPolicy": "Always"} if always else {})


def pod(name="a", *, node="n1", status=None, **spec):
    return {
        "metadata": {"namespace": "lab", "name": name, "uid": f"u-{name}"},
        "spec": {"nodeName": node, "containers": [container()], **spec},
        "status": {"phase": "Running"} | (status or {}),
    }


SIDECAR, WARM = container(gpus=1, always=True), container(gpus=2)


@pytest.mark.parametrize(
    ("spec", "gpus"),
    [
        ({"containers": [container(gpus=1), container(gpus=2)]}, 3),
        ({"containers": [container(gpus=1)], "initContainers": [SIDECAR, WARM]}, 3),
        ({"containers": [container(gpus=1)], "initContainers": [WARM, SIDECAR]}, 2),
        ({"containers": [{}]}, 0),
    ],
    ids=["together", "a sidecar before", "a sidecar after", "nothing said"],
)
def test_gpus_are_counted_by_the_rules_of_kubernetes(spec, gpus):
    assert use_of(pod(**spec)).gpus == gpus


def test_a_pods_own_amounts_and_its_overhead_count():
    said = {"requests": {"cpu": "2"}}
    overhead = {"cpu": "250m", "memory": "64Mi"}

    use = use_of(pod(containers=[container(cpu="1")], resources=said, overhead=overhead))

    assert (use.cpu_milli, use.memory_mib) == (2250, 64)


@pytest.mark.parametrize(
    "taking",
    [pod(node=""), pod(status={"phase": "Succeeded"}), pod(status={"phase": "Failed"})],
    ids=["on no node", "succeeded", "failed"],
)
def test_what_is_on_no_node_or_has_ended_takes_nothing(taking):
    assert use_of(taking) is None
    assert use_of(pod(), gone=True) is None


@pytest.mark.parametrize(("name", "told"), [("default-scheduler", ""), ("volcano", "volcano")])
def test_a_scheduler_of_somebody_elses_is_named(name, told):
    assert use_of(pod(schedulerName=name)).scheduler == told


def test_pods_without_gpus_are_told_as_one_and_the_others_by_name():
    others = Others()
    for name in ("proxy", "logs"):
        others.note(pod(name, containers=[container(cpu="100m")]))
    others.note(pod("train", containers=[container(gpus=2)]))

    plain, train = Use(cpu_milli=200), Use(gpus=2, name="lab/train")
    assert others.seen("n1") == OthersSeen(node="n1", uses=(plain, train))
    assert others.seen("n2") == OthersSeen(node="n2")


def test_what_ends_goes_or_is_in_no_list_is_forgotten():
    others = Others()
    for name in ("a", "b", "c", "d"):
        others.note(pod(name, node=f"n-{name}", containers=[container(gpus=1)]))

    others.note(pod("a", node="n-a", status={"phase": "Failed"}))
    others.note(pod("b", node="n-b"), gone=True)
    others.keep({"u-d"})

    assert others.nodes() == {"n-d"}
