"""What the API server allows and refuses for Jobs, and what their controller does."""

import pytest

INDEX = "batch.kubernetes.io/job-completion-index"
MISPLACED = "muster.dev/PlacementFailed"


def conditions(job):
    """Type and reason of each condition that holds, in order."""
    held = [c for c in job["status"].get("conditions", []) if c["status"] == "True"]
    return [(condition["type"], condition["reason"]) for condition in held]


def until_condition(kube, kind):
    """The conditions that hold, once that one is among them."""

    def holds():
        held = conditions(kube.job())
        return held if kind in dict(held) else []

    return kube.until(holds)


def indexes(pods):
    return [pod["metadata"]["annotations"][INDEX] for pod in pods]


def test_an_indexed_job_makes_pods_with_index_and_finalizer(kube, job):
    kube.create(kube.jobs, job(members=3, gated=True))

    pods = kube.members(3)

    assert indexes(pods) == ["0", "1", "2"]
    assert [pod["metadata"]["labels"][INDEX] for pod in pods] == ["0", "1", "2"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["train-0", "train-1", "train-2"]
    assert [pod["metadata"]["name"][:8] for pod in pods] == ["train-0-", "train-1-", "train-2-"]
    assert pods[0]["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    [owner] = pods[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "train", True)
    kube.until(lambda: kube.job()["status"].get("active") == 3)


def test_a_job_without_labels_bears_those_of_its_pods(kube, job):
    manifest = job(suspend=True)
    manifest["spec"]["template"]["metadata"]["labels"] = {"app": "train"}

    made = kube.create(kube.jobs, manifest)

    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]
    assert made["metadata"]["labels"]["app"] == "train"


def test_a_suspended_job_has_no_pods_until_resumed(kube, job):
    kube.create(kube.jobs, job(suspend=True, gated=True))
    assert until_condition(kube, "Suspended") == [("Suspended", "JobSuspended")]
    before = kube.pods_of()

    kube.patch(f"{kube.jobs}/train", {"spec": {"suspend": False}})

    assert before == []
    assert len(kube.members(2)) == 2
    kube.until(lambda: conditions(kube.job()) == [])


def test_suspending_deletes_the_pods_without_counting_failures(kube, job):
    kube.create(kube.jobs, job())
    kube.members(2)
    kube.start()
    kube.until(lambda: {p["status"]["phase"] for p in kube.pods_of()} == {"Running"})

    kube.patch(f"{kube.jobs}/train", {"spec": {"suspend": True}})

    kube.until(lambda: not kube.pods_of())
    assert until_condition(kube, "Suspended") == [("Suspended", "JobSuspended")]
    assert kube.job()["status"].get("failed", 0) == 0
    assert "startTime" not in kube.job()["status"]


def test_a_job_that_is_suspended_again_may_be_changed_again(kube, job):
    kube.create(kube.jobs, job(gated=True))
    kube.members(2)
    selector = {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}

    running, _ = kube.patch(f"{kube.jobs}/train", selector)
    kube.patch(f"{kube.jobs}/train", {"spec": {"suspend": True}})
    kube.until(lambda: "startTime" not in kube.job()["status"])
    suspended, _ = kube.patch(f"{kube.jobs}/train", selector)

    assert (running, suspended) == (422, 200)


def test_unsuspend_and_node_selector_fit_in_one_patch(kube, job):
    kube.create(kube.jobs, job(suspend=True))
    selector = {"kubernetes.io/hostname": kube.nodes[1]}
    spec = {"suspend": False, "template": {"spec": {"nodeSelector": selector}}}

    code, _ = kube.patch(f"{kube.jobs}/train", {"spec": spec})

    assert code == 200
    names = [pod["metadata"]["name"] for pod in kube.members(2)]
    assert {kube.until_bound(name) for name in names} == {kube.nodes[1]}


def template(**spec):
    return {"template": {"spec": spec}}


def container(**fields):
    return template(containers=[{"name": "main", **fields}])


@pytest.mark.parametrize(
    ("spec", "suspended", "code"),
    [
        (template(nodeSelector={"a": "b"}), True, 200),
        (template(nodeSelector={"a": "b"}), False, 422),
        (template(tolerations=[{"key": "x", "operator": "Exists"}]), True, 200),
        (template(schedulingGates=[{"name": "x/y"}]), True, 200),
        ({"template": {"metadata": {"labels": {"a": "b"}}}}, True, 200),
        ({"template": {"metadata": {"annotations": {"a": "b"}}}}, True, 200),
        ({"template": {"metadata": {"annotations": {"a": "b"}}}}, False, 422),
        (container(resources={"limits": {"nvidia.com/gpu": "2"}}), True, 200),
        (container(resources={"limits": {"nvidia.com/gpu": "2"}}), False, 422),
        (container(image="z"), True, 422),
        (container(env=[{"name": "A", "value": "1"}]), True, 422),
        (template(schedulerName="z"), True, 422),
        (template(priorityClassName="z"), True, 422),
        (template(nodeName="z"), True, 422),
        (template(restartPolicy="OnFailure"), True, 422),
        (template(activeDeadlineSeconds=5), True, 422),
        ({"parallelism": 1}, False, 200),
        ({"parallelism": 1}, True, 200),
        ({"parallelism": 3, "completions": 3}, True, 200),
        ({"parallelism": 3, "completions": 3}, False, 200),
        ({"completions": 3}, True, 422),
        ({"backoffLimit": 2}, False, 200),
        ({"activeDeadlineSeconds": 2000}, False, 200),
        ({"ttlSecondsAfterFinished": 5}, False, 200),
        ({"completionMode": "NonIndexed"}, True, 422),
        ({"suspend": True}, False, 200),
    ],
)
def test_what_may_change_in_a_job(kube, job, spec, suspended, code):
    kube.create(kube.jobs, job(suspend=suspended, gated=True))
    if not suspended:
        kube.members(2)
        kube.until(lambda: "startTime" in kube.job()["status"])

    assert kube.patch(f"{kube.jobs}/train", {"spec": spec})[0] == code


def test_a_patch_that_tests_an_annotation_of_the_job_holds_or_fails_whole(kube, job):
    manifest = job(suspend=True, gated=True)
    manifest["metadata"]["annotations"] = {"attempt": "1"}
    kube.create(kube.jobs, manifest)

    def resumed_at(attempt):
        patch = [
            {"op": "test", "path": "/metadata/annotations/attempt", "value": attempt},
            {"op": "add", "path": "/spec/suspend", "value": False},
        ]
        return kube.patch(f"{kube.jobs}/train", patch, kind="json")[0]

    assert (resumed_at("2"), kube.job()["spec"]["suspend"]) == (422, True)
    assert (resumed_at("1"), kube.job()["spec"]["suspend"]) == (200, False)


def test_a_job_completes_when_all_its_pods_have(kube, job):
    kube.create(kube.jobs, job(members=2))
    for pod in kube.members(2):
        kube.until_bound(pod["metadata"]["name"])
    kube.start()
    kube.until(lambda: {p["status"]["phase"] for p in kube.pods_of()} == {"Running"})
    kube.until(lambda: kube.job()["status"].get("ready") == 2)

    kube.end()

    assert until_condition(kube, "Complete") == [
        ("SuccessCriteriaMet", "CompletionsReached"),
        ("Complete", "CompletionsReached"),
    ]
    status = kube.job()["status"]
    assert (status["succeeded"], status["completedIndexes"]) == (2, "0,1")
    assert status["startTime"] <= status["completionTime"]
    assert status.get("active", 0) == 0


def test_a_job_fails_when_its_back_off_limit_is_passed(kube, job):
    manifest = job(members=2, backoffLimit=0)
    manifest["spec"]["template"]["metadata"]["annotations"] |= kube.provider.fails
    kube.create(kube.jobs, manifest)
    for pod in kube.members(2):
        kube.until_bound(pod["metadata"]["name"])
    kube.start()
    kube.until(lambda: {p["status"]["phase"] for p in kube.pods_of()} == {"Running"})

    kube.end()

    assert until_condition(kube, "Failed") == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]
    assert "completionTime" not in kube.job()["status"]


def test_a_job_fails_when_it_is_active_too_long(kube, job):
    kube.create(kube.jobs, job(gated=True, activeDeadlineSeconds=2))

    held = until_condition(kube, "Failed")

    assert held[-1] == ("Failed", "DeadlineExceeded")
    kube.until(lambda: {pod["status"]["phase"] for pod in kube.pods_of()} <= {"Failed"})


def test_a_deleted_pod_is_made_again(kube, job):
    kube.create(kube.jobs, job(members=1, gated=True))
    [first] = kube.members(1)

    kube.delete(f"{kube.pods}/{first['metadata']['name']}")

    def another():
        found = [p for p in kube.pods_of() if p["metadata"]["uid"] != first["metadata"]["uid"]]
        return found if len(found) == len(kube.pods_of()) else []

    [second] = kube.until(another)
    assert indexes([second]) == ["0"]
    assert second["spec"]["schedulingGates"] == [{"name": "muster.dev/gate"}]


def test_an_ignored_condition_spares_the_back_off_limit(kube, job):
    rule = {"action": "Ignore", "onPodConditions": [{"type": MISPLACED, "status": "True"}]}
    policy = {"podFailurePolicy": {"rules": [rule]}}
    kube.create(kube.jobs, job(members=1, gated=True, backoffLimit=0, **policy))
    [first] = kube.members(1)
    path = f"{kube.pods}/{first['metadata']['name']}"
    condition = {"type": MISPLACED, "status": "True"}

    kube.patch(f"{path}/status", {"status": {"conditions": [condition]}})
    kube.delete(path)

    def another():
        pods = kube.pods_of()
        return [p for p in pods if p["metadata"]["uid"] != first["metadata"]["uid"]]

    assert len(kube.until(another)) == 1
    assert kube.job()["status"].get("failed", 0) == 0
    assert conditions(kube.job()) == []


def test_an_exit_code_of_the_policy_fails_the_job_at_once(kube, job):
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}
    manifest = job(members=1, podFailurePolicy={"rules": [rule]})
    manifest["spec"]["template"]["metadata"]["annotations"] |= kube.provider.fails
    kube.create(kube.jobs, manifest)
    [pod] = kube.members(1)
    kube.until_bound(pod["metadata"]["name"])
    kube.start()
    kube.until(lambda: {p["status"]["phase"] for p in kube.pods_of()} == {"Running"})

    kube.end()

    assert until_condition(kube, "Failed")[-1] == ("Failed", "PodFailurePolicy")


def test_a_finished_job_goes_after_its_time_to_live(kube, job):
    kube.create(kube.jobs, job(members=1, gated=True, ttlSecondsAfterFinished=1))
    [pod] = kube.members(1)
    path = f"{kube.pods}/{pod['metadata']['name']}"

    kube.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})

    kube.until_gone(f"{kube.jobs}/train")
    kube.until_gone(path)


def test_the_status_of_a_pod_may_be_patched_as_a_kubelet_does(kube, job):
    kube.create(kube.jobs, job(members=1, gated=True))
    [pod] = kube.members(1)

    kube.patch(f"{kube.pods}/{pod['metadata']['name']}/status", {"status": {"phase": "Succeeded"}})

    assert until_condition(kube, "Complete")[-1] == ("Complete", "CompletionsReached")


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_deleted_job_takes_its_pods_along(kube, job, propagation):
    kube.create(kube.jobs, job(gated=True))
    kube.members(2)

    kube.delete(f"{kube.jobs}/train", {"propagationPolicy": propagation})

    kube.until_gone(f"{kube.jobs}/train")
    kube.until(lambda: not kube.pods_of())


def test_an_orphaned_pod_stays(kube, job):
    kube.create(kube.jobs, job(gated=True))
    kube.members(2)

    kube.delete(f"{kube.jobs}/train", {"propagationPolicy": "Orphan"})

    kube.until_gone(f"{kube.jobs}/train")
    assert [pod["metadata"].get("ownerReferences", []) for pod in kube.members(2)] == [[], []]


def test_an_indexed_job_shrinks_from_its_highest_index(kube, job):
    kube.create(kube.jobs, job(members=3, gated=True))
    kube.members(3)

    kube.patch(f"{kube.jobs}/train", {"spec": {"parallelism": 2, "completions": 2}})

    assert indexes(kube.members(2)) == ["0", "1"]


def test_an_indexed_job_grows_by_the_next_indexes(kube, job):
    kube.create(kube.jobs, job(members=2, gated=True))
    before = [pod["metadata"]["uid"] for pod in kube.members(2)]

    kube.patch(f"{kube.jobs}/train", {"spec": {"parallelism": 4, "completions": 4}})

    after = kube.members(4)
    assert indexes(after) == ["0", "1", "2", "3"]
    assert [pod["metadata"]["uid"] for pod in after[:2]] == before


def test_a_pod_that_the_api_refuses_is_tried_again(kube, job):
    name = f"{kube.namespace}-later"
    manifest = job(members=1, gated=True)
    manifest["spec"]["template"]["spec"]["priorityClassName"] = name
    kube.create(kube.jobs, manifest)
    before = kube.pods_of()

    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    kube.create(path, {"metadata": {"name": name}, "value": 5})

    [pod] = kube.members(1)
    assert (before, pod["spec"]["priority"]) == ([], 5)
    kube.delete(f"{path}/{name}")
