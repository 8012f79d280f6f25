"""Where and when a job would like to run, from the request to the row and back."""

import pytest

from scheduling.models import Job
from tests.factories import ClusterFactory, JobFactory, NodeFactory

JOBS = "/api/v1/jobs"


@pytest.fixture
def cluster(db):
    cluster = ClusterFactory(slug="main")
    NodeFactory(cluster=cluster)
    return cluster


def submit(api, member, **said):
    return api.post(JOBS, {"tenant": member.tenant.slug, "name": "train", **said}, "json")


def test_all_wishes_come_back_as_they_were_said(api, member, cluster):
    parent = JobFactory(tenant=member.tenant, cluster=cluster)

    answer = submit(
        api,
        member,
        members=2,
        topology={"required": "rack", "patience_seconds": 60, "island": True},
        after=[{"job": parent.public_id, "ended": "any"}],
        gpu={"memory_mib": 40_000},
        grace_seconds=120,
        not_before="2026-12-01T00:00:00Z",
        standby=True,
        service_class="offline",
    )

    shown = answer.json()
    assert answer.status_code == 201
    assert {name: shown[name] for name in ("topology", "after", "grace_seconds", "not_before")} == {
        "topology": {
            "required": "rack",
            "preferred": "",
            "patience_seconds": 60,
            "island": True,
        },
        "after": [{"job": parent.public_id, "state": "queued", "needs_success": False}],
        "grace_seconds": 120,
        "not_before": "2026-12-01T00:00:00Z",
    }
    assert (shown["standby"], shown["service_class"], shown["on_hold"]) == (True, "offline", False)
    assert Job.objects.get(public_id=shown["id"]).gpu_memory_mib == 40_000


def test_a_job_of_another_tenant_answers_as_one_that_is_not_there(api, member, cluster):
    theirs = JobFactory(cluster=cluster)

    def refusal(public_id):
        answer = submit(api, member, after=[{"job": public_id}]).json()
        return answer["status"], answer["code"], answer["errors"]

    assert refusal(theirs.public_id) == refusal("j-zzzzzz")


@pytest.mark.parametrize(
    "said",
    [
        {"topology": {"required": "galaxy"}},
        {"topology": {"require": "rack"}},
        {"after": [{"job": "j-zzzzzz", "ended": "soon"}]},
        {"grace_seconds": -1},
        {"not_before": "tomorrow"},
        {"topology": {"patience_seconds": 5}},
    ],
)
def test_a_wish_that_cannot_be_is_refused_and_nothing_is_submitted(api, member, cluster, said):
    answer = submit(api, member, **said)

    assert answer.status_code in {400, 422}
    assert answer.json()["errors"]
    assert not Job.objects.exists()
