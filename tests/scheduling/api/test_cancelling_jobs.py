import pytest
from rest_framework.test import APIClient

from scheduling.states import JobState
from tenants.models import Role
from tests.factories import JobFactory, MembershipFactory

JOBS = "/api/v1/jobs"


def test_a_waiting_job_is_cancelled_at_once(api, member):
    job = JobFactory(tenant=member.tenant)

    answer = api.post(f"{JOBS}/{job.public_id}/cancel")

    job.refresh_from_db()
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["version"]) == ("cancelled", job.version)
    assert answer.json() == api.get(f"{JOBS}/{job.public_id}").json()
    assert list(job.events.values_list("to_state", "actor__username")) == [("cancelled", "ada")]


def test_a_running_job_is_stopped_first(api, member, sent, django_capture_on_commit_callbacks):
    job = JobFactory(tenant=member.tenant, state=JobState.RUNNING, attempt=1)

    with django_capture_on_commit_callbacks(execute=True):
        answer = api.post(f"{JOBS}/{job.public_id}/cancel")

    assert answer.json()["state"] == "stopping"
    assert ("scheduling.stop_job", {"job_id": job.pk}) in sent


def test_a_job_that_has_ended_cannot_be_cancelled(api, member):
    job = JobFactory(tenant=member.tenant, state=JobState.SUCCEEDED)

    answer = api.post(f"{JOBS}/{job.public_id}/cancel")

    body = answer.json()
    assert (answer.status_code, body["code"]) == (409, "conflict")
    assert body["detail"] == f"{job.public_id} has already ended: succeeded."


def test_a_viewer_may_not_cancel(member):
    job = JobFactory(tenant=member.tenant)
    viewer = MembershipFactory(tenant=member.tenant, role=Role.VIEWER)
    client = APIClient()
    client.force_login(viewer.user)

    answer = client.post(f"{JOBS}/{job.public_id}/cancel")

    job.refresh_from_db()
    assert (answer.status_code, job.state) == (403, "queued")


def test_a_stranger_cancels_nothing_and_learns_nothing(stranger, member):
    job = JobFactory(tenant=member.tenant)

    answer = stranger.post(f"{JOBS}/{job.public_id}/cancel")

    job.refresh_from_db()
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert job.state == "queued"


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_what_a_job_does_not_offer_is_said(api, member, method):
    job = JobFactory(tenant=member.tenant)

    answer = getattr(api, method)(f"{JOBS}/{job.public_id}")

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer["Allow"] == "GET, HEAD, OPTIONS"


def test_a_session_from_elsewhere_changes_nothing(member):
    """A form on another site has the cookie and no CSRF token."""
    job = JobFactory(tenant=member.tenant)
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(member.user)

    answer = client.post(f"{JOBS}/{job.public_id}/cancel")

    job.refresh_from_db()
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    assert job.state == "queued"
