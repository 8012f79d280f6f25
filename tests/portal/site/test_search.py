"""The search of the header: what the reader may see, and nothing else."""

import pytest
from django.test import Client

from tests.scene import make_scene


@pytest.fixture
def scene(db):
    return make_scene()


@pytest.fixture
def finds(scene):
    """A function: the names of jobs, tenants and nodes that somebody finds."""

    def search(who, text):
        client = Client()
        client.force_login(getattr(scene, who))
        context = client.get("/search/", {"q": text}).context
        return (
            [row.job.name for row in context["rows"]],
            [tenant.slug for tenant in context["tenants"]],
            [node.name for node in context["nodes"]],
        )

    return search


@pytest.mark.parametrize(
    ("who", "text", "found"),
    [
        ("omar", "llama", (["llama-70b-pretrain"], [], [])),
        ("omar", "LANG", ([], ["nlp"], [])),
        ("omar", "h100-0", ([], [], ["h100-01", "h100-02", "h100-03", "h100-04"])),
        ("omar", "secret", ([], [], [])),
        ("omar", "vision", ([], [], [])),
        ("vera", "vision", (["secret-of-vision"], ["vision"], [])),
        ("omar", "", ([], [], [])),
        ("omar", "%", ([], [], [])),
    ],
)
def test_what_is_found_is_what_one_may_see(finds, who, text, found):
    assert finds(who, text) == found


def test_the_id_of_a_job_leads_to_it(client, scene):
    client.force_login(scene.omar)
    mine, theirs = scene.jobs["llama-70b-pretrain"], scene.jobs["theirs"]

    found = client.get("/search/", {"q": mine.public_id.upper()})
    hidden = client.get("/search/", {"q": theirs.public_id})

    assert found["Location"] == f"/jobs/{mine.public_id}/"
    assert (hidden.status_code, hidden.context["rows"]) == (200, [])
