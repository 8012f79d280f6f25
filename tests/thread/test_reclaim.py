"""On the demo: lent GPUs are reclaimed by their owner, and who made room goes on where it saved.

Real processes and the demo's own tenants; nothing else runs.
"""

import httpx
import pytest

from portal.embedded import first_steps
from tests.thread.stack import running_stack

pytestmark = [pytest.mark.long, pytest.mark.thread]

SPEED = 60
RUN = 3600  # seconds of the cluster
WITHIN = 240  # of ours


@pytest.fixture(scope="module")
def stack():
    with running_stack(speed=SPEED) as stack:
        yield stack


@pytest.fixture(scope="module")
def api(stack):
    """Somebody signed in, as far as the API and the pages can tell."""
    with httpx.Client(base_url=stack.options.address, follow_redirects=True, timeout=30) as client:
        client.get(first_steps.sign_in_link(stack.options, stack.env)).raise_for_status()
        client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
        client.headers["Referer"] = stack.options.address
        client.headers["Accept-Language"] = "en"
        yield client


def submit(api, tenant, members, **notes):
    """The id of a job of members of eight H100 each. notes: what its pods do."""
    names = {f"simcluster.muster.dev/{name.replace('_', '-')}": str(v) for name, v in notes.items()}
    job = {
        "tenant": tenant,
        "name": f"{tenant}-{len(names)}",
        "gpu": {"model": "H100-SXM"},
        "members": members,
        "gpus_per_member": 8,
        "annotations": names,
    }
    return api.post("/api/v1/jobs", json=job).raise_for_status().json()["id"]


def states(stack, *jobs):
    rows = dict(stack.rows("SELECT public_id, state FROM scheduling_job"))
    return [rows[job] for job in jobs]


def test_lent_gpus_are_reclaimed_and_no_work_is_done_twice_or_lost(stack, api):
    kept = submit(api, "speech", 3, run_seconds=RUN)
    saved = submit(api, "speech", 3, run_seconds=RUN, checkpoint_seconds=300)
    stack.wait_until(
        lambda: stack.value("SELECT count(*) FROM scheduling_job WHERE checkpoint_at IS NOT NULL"),
        within=WITHIN,
        what="the job that saves has saved",
    )

    own = submit(api, "nlp", 1, run_seconds=600)
    took = stack.wait_until(
        lambda: states(stack, own) == ["running"], within=WITHIN, what="the owner's job runs"
    )

    assert states(stack, kept) == ["running"]
    victims = stack.rows(
        "SELECT j.public_id, p.why FROM scheduling_preemption p"
        " JOIN scheduling_job j ON j.id = p.job_id"
    )
    assert victims == [(saved, "reclaim")]
    assert "goes on from its checkpoint" in api.get(f"/jobs/{saved}/").text
    assert "the one that lost least work" in api.get(f"/jobs/{own}/").text

    stack.wait_until(
        lambda: states(stack, kept, saved, own) == ["succeeded"] * 3,
        within=WITHIN,
        what="all three have succeeded",
    )

    done = stack.rows(
        "SELECT public_id, saved_seconds + extract(epoch FROM ended_at - started_at)::int"
        " FROM scheduling_job"
    )
    assert dict(done) == {kept: RUN, saved: RUN, own: 600}
    assert took < WITHIN
