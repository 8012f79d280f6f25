import pytest

from tests.scene import make_scene


@pytest.fixture
def scene(db):
    return make_scene()


@pytest.fixture
def as_omar(client, scene):
    """A client that a researcher of `nlp` is signed in to."""
    client.force_login(scene.omar)
    return client
