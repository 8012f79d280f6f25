import pytest

from portal.core.models import AuditEvent
from scheduling.states import JobState
from tenants.models import Role
from tests.factories import JobFactory

JOBS = "/api/v1/jobs"


def test_a_waiting_job_is_put_on_hold_and_released(api, member):
    job = JobFactory(tenant=member.tenant)

    held = api.post(f"{JOBS}/{job.public_id}/hold", {"because": "data is not there yet"}, "json")
    job.refresh_from_db()
    kept = (job.is_held, job.held_because)
    released = api.post(f"{JOBS}/{job.public_id}/release")

    job.refresh_from_db()
    assert (held.status_code, released.status_code) == (200, 200)
    assert kept == (True, "data is not there yet")
    assert (job.state, job.is_held, job.held_because) == ("queued", False, "")
    assert list(AuditEvent.objects.order_by("pk").values_list("action", flat=True)) == [
        "hold_job",
        "release_job",
    ]


@pytest.mark.parametrize("verb", ["hold", "release"])
def test_only_a_waiting_job_has_a_hold(api, member, verb):
    job = JobFactory(tenant=member.tenant, state=JobState.RUNNING, attempt=1)

    answer = api.post(f"{JOBS}/{job.public_id}/{verb}")

    job.refresh_from_db()
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert job.is_held is False


@pytest.mark.parametrize("verb", ["hold", "release"])
def test_a_viewer_may_not(api, member, verb):
    member.role = Role.VIEWER
    member.save()
    job = JobFactory(tenant=member.tenant)

    assert api.post(f"{JOBS}/{job.public_id}/{verb}").status_code == 403
