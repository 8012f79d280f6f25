from topology.kube.manifest import KEPT_SECONDS, gang_job
from topology.kube.values import GangSpec

DAY = 86_400


def test_an_ended_gang_is_kept_for_days_with_its_logs_and_then_removed_by_the_cluster():
    job = gang_job(
        GangSpec(namespace="muster-t", job="j-000001", group="main", attempt=1, members=2)
    )

    assert job["spec"]["ttlSecondsAfterFinished"] == KEPT_SECONDS
    assert DAY < KEPT_SECONDS < 30 * DAY
