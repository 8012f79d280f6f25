"""Where pods are bound, and what is said about those that are not."""

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"


def node_of(kube, name):
    return kube.pods()[name]["spec"].get("nodeName")


def why(kube, name):
    events = kube.get(f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}")
    return [event["message"].split(". preemption")[0] for event in events["items"]]


def test_room_is_counted_and_freed(kube, pod):
    for name in ("a", "b", "c"):
        kube.create(PODS, pod(name, gpus=8))
    waiting = node_of(kube, "c")

    kube.step(33)

    assert {node_of(kube, "a"), node_of(kube, "b")} == {"h100-sxm-01", "h100-sxm-02"}
    assert waiting is None
    assert node_of(kube, "c") is not None


def test_a_pod_that_fits_nowhere_says_why(kube, pod):
    kube.patch(f"{NODES}/h100-sxm-01", {"spec": {"unschedulable": True}})

    kube.create(PODS, pod(gpus=9))

    expected = (
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable"
    )
    assert why(kube, "a") == [expected]
    condition = next(
        c for c in kube.pods()["a"]["status"]["conditions"] if c["type"] == "PodScheduled"
    )
    assert condition["reason"] == "Unschedulable"


def test_a_taint_repels_and_a_toleration_lets_in(kube, pod):
    taint = {"key": "muster.dev/pool", "value": "gpu", "effect": "NoSchedule"}
    for name in ("h100-sxm-01", "h100-sxm-02"):
        kube.patch(f"{NODES}/{name}", {"spec": {"taints": [taint]}})
    tolerations = [{"key": "muster.dev/pool", "operator": "Equal", "value": "gpu"}]

    kube.create(PODS, pod("out"))
    kube.create(PODS, pod("in", tolerations=tolerations))

    assert node_of(kube, "out") is None
    assert node_of(kube, "in") is not None


def test_a_pod_is_bound_when_its_node_opens_again(kube, pod):
    kube.patch(f"{NODES}/h100-sxm-01", {"spec": {"unschedulable": True}})
    kube.create(PODS, pod(nodeSelector={"kubernetes.io/hostname": "h100-sxm-01"}))
    before = node_of(kube, "a")

    kube.patch(f"{NODES}/h100-sxm-01", {"spec": {"unschedulable": False}})

    assert (before, node_of(kube, "a")) == (None, "h100-sxm-01")


def test_required_node_affinity_is_kept(kube, pod):
    term = {
        "matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["h100-sxm-01"]}
        ]
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}

    kube.create(PODS, pod(affinity={"nodeAffinity": required}))

    assert node_of(kube, "a") == "h100-sxm-02"


def test_pods_of_another_scheduler_are_left_alone(kube, pod):
    kube.create(PODS, pod(schedulerName="volcano"))

    assert node_of(kube, "a") is None


def test_the_more_important_of_two_waiting_pods_goes_first(kube, pod):
    important = {"metadata": {"name": "high"}, "value": 100}
    kube.create("/apis/scheduling.k8s.io/v1/priorityclasses", important)
    for name in ("a", "b"):
        kube.create(PODS, pod(name, gpus=8))
    kube.create(PODS, pod("low", gpus=8, command=("sleep", "999")))
    kube.create(PODS, pod("high", gpus=8, priorityClassName="high"))

    kube.ask("DELETE", f"{PODS}/a?gracePeriodSeconds=0")

    assert (node_of(kube, "low"), node_of(kube, "high") is None) == (None, False)


def test_a_running_pod_on_a_deleted_node_frees_nothing_elsewhere(kube, pod):
    kube.create(PODS, pod("a", gpus=8, nodeName="h100-sxm-01"))

    kube.ask("DELETE", f"{NODES}/h100-sxm-02")
    kube.create(PODS, pod("b", gpus=1))

    assert node_of(kube, "b") is None
