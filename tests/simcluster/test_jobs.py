"""The Job controller, on a clock that stands still until a test moves it."""

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
INDEX = "batch.kubernetes.io/job-completion-index"


def conditions(job):
    """Type and reason of each condition that holds, in order."""
    held = [c for c in job["status"].get("conditions", []) if c["status"] == "True"]
    return [(condition["type"], condition["reason"]) for condition in held]


def test_an_indexed_job_makes_pods_with_index_and_finalizer_at_once(kube, job):
    kube.create(JOBS, job(members=3, gated=True))

    pods = kube.pods_of("train")

    assert [pod["metadata"]["annotations"][INDEX] for pod in pods] == ["0", "1", "2"]
    assert [pod["metadata"]["labels"][INDEX] for pod in pods] == ["0", "1", "2"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["train-0", "train-1", "train-2"]
    assert [pod["metadata"]["name"][:8] for pod in pods] == ["train-0-", "train-1-", "train-2-"]
    assert pods[0]["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert kube.job()["status"]["active"] == 3


def test_a_job_completes_with_exact_times(kube, job):
    kube.create(JOBS, job(members=2))

    kube.step(100)

    done = kube.job()["status"]
    assert (done["succeeded"], done["completedIndexes"]) == (2, "0,1")
    assert done["startTime"] == "2026-01-05T08:00:00Z"
    assert done["completionTime"] == "2026-01-05T08:00:32Z"
    assert conditions({"status": done}) == [
        ("SuccessCriteriaMet", "CompletionsReached"),
        ("Complete", "CompletionsReached"),
    ]
    assert "active" not in done


def test_suspending_deletes_the_pods_without_counting_failures(kube, job):
    kube.create(JOBS, job())
    kube.step(5)

    kube.patch(f"{JOBS}/train", {"spec": {"suspend": True}})
    kube.step(5)

    assert kube.pods() == {}
    assert kube.job()["status"].get("failed", 0) == 0
    assert conditions(kube.job()) == [("Suspended", "JobSuspended")]


def test_a_failed_pod_is_replaced_after_its_back_off(kube, job):
    kube.create(JOBS, job(members=1, command=("sh", "-c", "sleep 10; exit 3")))

    kube.step(12)
    waiting = kube.job()["status"]
    kube.step(10)

    assert (waiting["failed"], waiting.get("active", 0)) == (1, 0)
    assert kube.job()["status"]["active"] == 1


def test_a_job_fails_when_its_back_off_limit_is_passed(kube, job):
    kube.create(JOBS, job(members=2, backoffLimit=0, command=("false",)))

    kube.step(20)

    assert conditions(kube.job()) == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]
    assert "completionTime" not in kube.job()["status"]


def test_a_job_fails_when_it_is_active_too_long(kube, job):
    kube.create(JOBS, job(activeDeadlineSeconds=20))

    kube.step(30)

    assert conditions(kube.job())[-1] == ("Failed", "DeadlineExceeded")
    assert {pod["status"]["phase"] for pod in kube.pods_of("train")} <= {"Failed"}


def test_a_deleted_pod_is_made_again(kube, job):
    kube.create(JOBS, job(members=1))
    kube.step(5)
    (first,) = kube.pods()

    kube.ask("DELETE", f"{PODS}/{first}")
    kube.step(20)

    (second,) = kube.pods()
    assert second != first


def fail_policy(*rules):
    return {"podFailurePolicy": {"rules": list(rules)}}


def test_an_exit_code_of_the_policy_fails_the_job_at_once(kube, job):
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    command = ("sh", "-c", "sleep 5; exit 42")
    kube.create(JOBS, job(members=1, command=command, **fail_policy(rule)))

    kube.step(10)

    assert conditions(kube.job())[-1] == ("Failed", "PodFailurePolicy")


def test_a_finished_job_goes_after_its_time_to_live(kube, job):
    kube.create(JOBS, job(ttlSecondsAfterFinished=60))

    kube.step(90)
    there, _ = kube.ask("GET", f"{JOBS}/train")
    kube.step(10)

    assert there == 200
    assert kube.ask("GET", f"{JOBS}/train")[0] == 404
    assert kube.pods() == {}


def test_without_index_pods_are_counted(kube, job):
    kube.create(JOBS, job(completionMode="NonIndexed", completions=3, parallelism=2))

    kube.step(33)
    half = kube.job()["status"]
    kube.step(40)

    assert (half["succeeded"], half["active"]) == (2, 1)
    assert conditions(kube.job())[-1] == ("Complete", "CompletionsReached")


def test_a_limit_per_index_loses_one_index_and_not_the_others(kube, job):
    kube.create(
        JOBS, job(members=2, backoffLimitPerIndex=0, command=("sh", "-c", "sleep 5; exit 1"))
    )

    kube.step(20)

    status = kube.job()["status"]
    assert (status["failedIndexes"], status["failed"]) == ("0,1", 2)
    assert conditions(kube.job())[-1] == ("Failed", "FailedIndexes")
