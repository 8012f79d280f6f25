"""The longest run of a gang: the cluster's own wall, moved while it runs, and what pods hear."""

from dataclasses import replace
from datetime import timedelta

import pytest

from topology.kube.gateway import AttemptMoved, NotThere
from topology.kube.parse import instant


def running(cluster_api, spec):
    """When the gang's Job was opened, once all of its members run."""
    members = cluster_api.held(spec)
    cluster_api.gateway.release_all(cluster_api.onto(members, cluster_api.nodes[0]))
    cluster_api.await_phases(spec, "bound", "bound")
    cluster_api.provider.start_members(spec.namespace)
    cluster_api.await_phases(spec, "running", "running")
    return instant(cluster_api.kube.job(spec.key.name)["status"]["startTime"])


def test_the_wall_is_the_jobs_and_stands_an_hour_behind_the_limit(cluster_api):
    spec = cluster_api.spec(walltime_seconds=3600)

    pod = cluster_api.pod(cluster_api.held(spec)[0].pod_name)

    job = cluster_api.kube.job(spec.key.name)
    assert job["spec"]["activeDeadlineSeconds"] == 3600 + 3600
    assert "activeDeadlineSeconds" not in pod["spec"]


def test_a_gang_without_a_limit_has_no_wall(cluster_api):
    spec = cluster_api.spec(walltime_seconds=None)
    cluster_api.gateway.ensure_gang(spec)

    assert "activeDeadlineSeconds" not in cluster_api.kube.job(spec.key.name)["spec"]


@pytest.mark.parametrize("hours", [1, 9], ids=["nearer", "further away"])
def test_the_wall_of_a_running_gang_is_moved_and_its_pods_are_told(cluster_api, hours):
    spec = cluster_api.spec(walltime_seconds=7200)
    opened_at = running(cluster_api, spec)
    ends_at = opened_at + timedelta(hours=hours)
    wall_at = ends_at + timedelta(seconds=90)

    cluster_api.gateway.limit_gang(spec.key, ends_at=ends_at, wall_at=wall_at)
    cluster_api.gateway.limit_gang(spec.key, ends_at=ends_at, wall_at=wall_at)

    job = cluster_api.kube.job(spec.key.name)
    pods = [cluster_api.pod(m.pod_name) for m in cluster_api.gateway.members(spec.key)]
    assert job["spec"]["activeDeadlineSeconds"] == hours * 3600 + 90
    told = [instant(pod["metadata"]["annotations"]["muster.dev/ends-at"]) for pod in pods]
    assert told == [ends_at, ends_at]


def test_a_gang_that_nobody_stops_is_ended_at_its_wall(cluster_api):
    spec = cluster_api.spec()
    opened_at = running(cluster_api, spec)

    cluster_api.gateway.limit_gang(spec.key, ends_at=opened_at, wall_at=opened_at)

    def outcome():
        found = [group for group in cluster_api.gateway.gangs() if group.key == spec.key]
        return [(group.outcome, group.reason) for group in found if group.outcome]

    assert cluster_api.provider.until(outcome) == [("failed", "DeadlineExceeded")]


def test_a_limit_of_another_attempt_comes_too_late(cluster_api):
    spec = cluster_api.spec(attempt=2)
    opened_at = running(cluster_api, spec)
    earlier = replace(spec, attempt=1).key

    with pytest.raises(AttemptMoved):
        cluster_api.gateway.limit_gang(earlier, ends_at=opened_at, wall_at=opened_at)


def test_what_is_not_there_or_not_open_has_no_end(cluster_api):
    spec = cluster_api.spec()
    soon = instant("2026-12-01T00:00:00Z")

    with pytest.raises(NotThere):
        cluster_api.gateway.limit_gang(spec.key, ends_at=soon, wall_at=soon)
    cluster_api.gateway.ensure_gang(spec)
    with pytest.raises(NotThere):
        cluster_api.gateway.limit_gang(spec.key, ends_at=soon, wall_at=soon)
