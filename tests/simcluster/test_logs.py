"""What pods write to their logs, and how a request cuts it."""

import urllib.error
import urllib.request

import pytest

from tests.simcluster.conftest import PODS


@pytest.fixture
def log(kube):
    """A function that reads the log of pod `a`."""

    def read(query=""):
        request = urllib.request.Request(
            f"{kube.cluster.url}{PODS}/a/log{query}",
            headers={"Authorization": f"Bearer {kube.cluster.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    return read


def test_a_log_is_that_of_a_training_run(kube, pod, log):
    kube.create(PODS, pod(command=["sleep", "300"]))
    kube.step(2 + 31)

    assert log().splitlines() == [
        "main: started at 2026-01-05T08:00:02Z",
        "\x1b[36mstep\x1b[0m     10  loss 10.7583  381 samples/s",
        "\x1b[36mstep\x1b[0m     20  loss 10.7167  382 samples/s",
    ]


def test_a_failure_leaves_a_traceback(kube, pod, log):
    kube.create(PODS, pod(command=["sh", "-c", "sleep 5; exit 1"]))
    kube.step(60)

    assert log().splitlines()[-2:] == [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB.",
        "main: ended at 2026-01-05T08:00:07Z with exit code 1",
    ]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("?tailLines=1", [30]),
        ("?sinceSeconds=20", [20, 30]),
        ("?sinceTime=2026-01-05T08:00:32Z", [20, 30]),
    ],
)
def test_a_log_is_cut_from_its_end(kube, pod, log, query, numbers):
    kube.create(PODS, pod(command=["sleep", "300"]))
    kube.step(2 + 46)

    assert [int(line.split()[1]) for line in log(query).splitlines()] == numbers


def test_what_is_left_of_a_log_is_cut_by_bytes(kube, pod, log):
    kube.create(PODS, pod(command=["sleep", "300"]))
    kube.step(2 + 46)

    assert log("?tailLines=2&limitBytes=9") == "\x1b[36mstep"


def test_lines_carry_their_instants_when_asked(kube, pod, log):
    kube.create(PODS, pod(command=["sleep", "300"]))
    kube.step(2)

    assert log("?timestamps=true") == "2026-01-05T08:00:02Z main: started at 2026-01-05T08:00:02Z\n"


def test_an_annotation_puts_words_into_a_pods_mouth(kube, pod, log):
    body = pod(command=["sleep", "300"])
    body["metadata"]["annotations"] = {"simcluster.muster.dev/says": '["\\u001b[1mhello"]'}
    kube.create(PODS, body)
    kube.step(2)

    assert log().splitlines()[1] == "\x1b[1mhello"


def test_a_pod_without_a_node_has_an_empty_log(kube, pod, log):
    kube.create(PODS, pod(gated=True))

    assert log() == ""


def test_a_container_that_does_not_run_yet_is_no_log(kube, pod, log):
    kube.create(PODS, pod())
    kube.step(1)

    with pytest.raises(urllib.error.HTTPError) as refused:
        log()

    with refused.value as refusal:
        assert refusal.code == 400
