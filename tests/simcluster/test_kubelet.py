"""Kubelets and nodes: starting, running, ending, stopping, losing."""

import json
import urllib.request
from contextlib import closing

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
DEVICES = "simcluster.muster.dev/devices"


def state_of(pod):
    return pod["status"]["containerStatuses"][0]["state"]


def annotated(manifest, **notes):
    names = {name.replace("_", "-"): str(value) for name, value in notes.items()}
    notes = {f"simcluster.muster.dev/{name}": value for name, value in names.items()}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": notes}}


def test_a_pod_waits_for_its_image_and_then_runs_ready(kube, pod):
    kube.create(PODS, pod())
    waiting = kube.pods()["a"]

    kube.step(2)

    running = kube.pods()["a"]
    ready = {c["type"]: c["status"] for c in running["status"]["conditions"]}
    assert state_of(waiting) == {"waiting": {"reason": "ContainerCreating"}}
    assert state_of(running) == {"running": {"startedAt": "2026-01-05T08:00:02Z"}}
    assert (running["status"]["phase"], ready["Ready"]) == ("Running", "True")


def test_a_run_takes_the_annotated_seconds_exactly_however_far_the_step(kube, pod):
    kube.create(PODS, annotated(pod(), run_seconds=12345, exit_code=7))

    kube.step(100000)

    ended = state_of(kube.pods()["a"])["terminated"]
    assert kube.pods()["a"]["status"]["phase"] == "Failed"
    assert ended == {
        "exitCode": 7,
        "reason": "Error",
        "startedAt": "2026-01-05T08:00:02Z",
        "finishedAt": "2026-01-05T11:25:47Z",
    }


def test_a_fast_clock_gives_the_same_times_as_a_stepped_one(kube, pod):
    kube.create(PODS, annotated(pod(), run_seconds=600, start_seconds=0))
    kube.cluster.set_clock(speed=1000, frozen=False)
    path = f"{PODS}?watch=true&fieldSelector=status.phase=Succeeded&timeoutSeconds=20"

    with kube_stream(kube, path) as lines:
        ended = state_of(json.loads(next(lines))["object"])["terminated"]

    assert ended["startedAt"] == "2026-01-05T08:00:00Z"
    assert ended["finishedAt"] == "2026-01-05T08:10:00Z"


def kube_stream(kube, path):
    headers = {"Authorization": f"Bearer {kube.cluster.token}"}
    request = urllib.request.Request(kube.cluster.url + path, headers=headers)
    return closing(urllib.request.urlopen(request, timeout=30))


def test_gpus_are_never_given_twice_and_wishes_are_honoured(kube, pod):
    wish = pod("wish", gpus=2, nodeName="h100-sxm-01")
    wish["metadata"]["annotations"] = {"muster.dev/devices": "4,5"}
    kube.create(PODS, wish)
    for name in ("b", "c"):
        kube.create(PODS, pod(name, gpus=3, nodeName="h100-sxm-01"))

    given = {name: pod["metadata"]["annotations"][DEVICES] for name, pod in kube.pods().items()}

    assert given == {"wish": "4,5", "b": "0,1,2", "c": "3,6,7"}


def test_a_pod_bound_without_room_is_refused_by_its_kubelet(kube, pod):
    for name in ("a", "b"):
        kube.create(PODS, pod(name, gpus=5, nodeName="h100-sxm-01"))

    status = kube.pods()["b"]["status"]

    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")


def test_gpus_are_free_again_when_a_pod_has_ended(kube, pod):
    kube.create(PODS, pod("a", gpus=8, nodeName="h100-sxm-01"))
    kube.step(40)

    kube.create(PODS, pod("b", gpus=8, nodeName="h100-sxm-01"))

    assert kube.pods()["b"]["metadata"]["annotations"][DEVICES] == "0,1,2,3,4,5,6,7"


def test_deletion_is_graceful(kube, pod):
    kube.create(PODS, annotated(pod(), stop_seconds=5))
    kube.step(3)

    kube.ask("DELETE", f"{PODS}/a")
    leaving = kube.pods()["a"]["metadata"]
    kube.step(4)
    still_there = "a" in kube.pods()
    kube.step(1)

    assert leaving["deletionTimestamp"] == "2026-01-05T08:00:33Z"
    assert leaving["deletionGracePeriodSeconds"] == 30
    assert still_there
    assert kube.pods() == {}


def test_a_pod_that_ignores_sigterm_is_killed_when_its_grace_is_over(kube, pod):
    manifest = annotated(pod(command=("sleep", "999")), stop_seconds=500)
    manifest["metadata"]["finalizers"] = ["example.org/keep"]
    kube.create(PODS, manifest)
    kube.step(3)

    kube.ask("DELETE", f"{PODS}/a?gracePeriodSeconds=10")
    kube.step(10)

    ended = state_of(kube.pods()["a"])["terminated"]
    assert (ended["exitCode"], ended["finishedAt"]) == (137, "2026-01-05T08:00:13Z")


def test_grace_zero_gated_and_finished_pods_go_at_once(kube, pod):
    kube.create(PODS, pod("gated", gated=True))
    kube.create(PODS, pod("forced"))
    kube.create(PODS, annotated(pod("finished"), run_seconds=0))
    kube.step(3)

    for name in ("gated", "finished", "forced?gracePeriodSeconds=0"):
        kube.ask("DELETE", f"{PODS}/{name}")

    assert kube.pods() == {}


def test_a_silent_node_is_unknown_after_forty_seconds_and_its_pods_are_evicted(kube, pod):
    kube.create(PODS, pod(nodeName="h100-sxm-01", command=("sleep", "9999")))
    kube.step(5)

    kube.cluster.fault("node-down", node="h100-sxm-01")
    kube.step(41)
    node = kube.get(f"{NODES}/h100-sxm-01")
    kube.step(301)

    ready = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "Unknown"
    assert [taint["effect"] for taint in node["spec"]["taints"]] == ["NoSchedule", "NoExecute"]
    evicted = kube.pods()["a"]
    assert "deletionTimestamp" in evicted["metadata"]
    assert "DeletionByTaintManager" in [c.get("reason") for c in evicted["status"]["conditions"]]
    kube.cluster.fault("node-up", node="h100-sxm-01")
    kube.step(5)
    assert kube.pods() == {}
    assert "taints" not in kube.get(f"{NODES}/h100-sxm-01")["spec"]


def test_pods_of_a_deleted_node_go_after_about_a_minute(kube, pod):
    kube.create(PODS, pod(nodeName="h100-sxm-01", command=("sleep", "9999")))
    kube.step(5)

    kube.ask("DELETE", f"{NODES}/h100-sxm-01")
    kube.step(30)
    still_there = "a" in kube.pods()
    kube.step(30)

    assert still_there
    assert kube.pods() == {}


def test_a_sick_gpu_is_not_allocatable(kube, pod):
    kube.cluster.fault("gpu-health", node="h100-sxm-01", index=0, healthy=False)

    kube.create(PODS, pod(gpus=1, nodeName="h100-sxm-01"))

    node = kube.get(f"{NODES}/h100-sxm-01")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "7"
    assert kube.pods()["a"]["metadata"]["annotations"][DEVICES] == "1"


def test_a_kubelet_refuses_the_next_pod_on_request(kube, pod):
    kube.cluster.fault("reject-pods", reason="OutOfcpu")

    kube.create(PODS, pod("a"))
    kube.create(PODS, pod("b"))
    kube.step(3)

    reasons = {name: pod["status"].get("reason") for name, pod in kube.pods().items()}
    assert reasons == {"a": "OutOfcpu", "b": None}


def test_a_container_that_always_restarts_runs_again(kube, pod):
    kube.create(PODS, pod(restartPolicy="OnFailure", command=("sh", "-c", "sleep 5; exit 1")))

    kube.step(20)

    (status,) = kube.pods()["a"]["status"]["containerStatuses"]
    assert status["restartCount"] == 1
    assert kube.pods()["a"]["status"]["phase"] == "Running"


def test_a_node_made_by_hand_has_as_many_gpus_as_it_says(kube, pod):
    room = {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "2"}
    kube.create(NODES, {"metadata": {"name": "extra"}, "status": {"capacity": room}})

    kube.create(PODS, pod(gpus=2, nodeName="extra"))
    kube.step(2)

    assert kube.pods()["a"]["metadata"]["annotations"][DEVICES] == "0,1"
    assert kube.pods()["a"]["status"]["phase"] == "Running"


def test_a_node_that_comes_back_reports_when_its_pods_really_ended(kube, pod):
    for name, seconds in (("short", 60), ("long", 9999)):
        kube.create(PODS, annotated(pod(name, nodeName="h100-sxm-01"), run_seconds=seconds))
    kube.step(5)

    kube.cluster.fault("node-down", node="h100-sxm-01")
    kube.step(200)
    silent = kube.pods()["short"]["status"]["phase"]
    kube.cluster.fault("node-up", node="h100-sxm-01")
    kube.step(1)

    ended = state_of(kube.pods()["short"])["terminated"]
    assert silent == "Running"
    assert (ended["exitCode"], ended["finishedAt"]) == (0, "2026-01-05T08:01:02Z")
    assert kube.pods()["long"]["status"]["phase"] == "Running"


def saved_at(pod):
    return pod["metadata"]["annotations"].get("muster.dev/checkpoint-at")


def test_a_program_notes_its_checkpoints_as_it_runs(kube, pod):
    kube.create(PODS, annotated(pod(), run_seconds=1000, checkpoint_seconds=300))

    kube.step(301)
    early = saved_at(kube.pods()["a"])
    kube.step(301)

    assert early is None  # it runs since 08:00:02
    assert saved_at(kube.pods()["a"]) == "2026-01-05T08:10:02Z"


def test_a_program_that_saves_as_it_is_told_to_end_says_so_if_its_grace_suffices(kube, pod):
    for name, grace in (("patient", 60), ("hurried", 10)):
        slow = pod(name, terminationGracePeriodSeconds=grace)
        slow = annotated(slow, run_seconds=1000, save_seconds=30)
        slow["metadata"]["finalizers"] = ["tests/keep"]
        kube.create(PODS, slow)
    kube.step(100)

    for name in ("patient", "hurried"):
        kube.ask("DELETE", f"{PODS}/{name}")
    kube.step(60)

    ends = {name: state_of(pod)["terminated"] for name, pod in kube.pods().items()}
    assert {name: (end["exitCode"], end.get("message")) for name, end in ends.items()} == {
        "patient": (143, "muster.dev/checkpoint-at=2026-01-05T08:02:10Z"),
        "hurried": (137, None),
    }


def test_what_was_saved_before_is_not_done_again(kube, pod):
    resumed = annotated(pod(), run_seconds=1000)
    resumed["metadata"]["annotations"]["muster.dev/saved-seconds"] = "900"
    kube.create(PODS, resumed)

    kube.step(200)

    ended = state_of(kube.pods()["a"])["terminated"]
    assert (ended["startedAt"], ended["finishedAt"]) == (
        "2026-01-05T08:00:02Z",
        "2026-01-05T08:01:42Z",
    )
