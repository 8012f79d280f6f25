import pytest
from django.test import Client

from tests.scene import make_scene


@pytest.fixture
def scene(db):
    return make_scene()


@pytest.fixture
def as_person(scene):
    """A function that gives a client that somebody of the scene is signed in to."""

    def signed_in(name):
        client = Client()
        client.force_login(getattr(scene, name))
        return client

    return signed_in


@pytest.fixture
def as_omar(client, scene):
    """A client that a researcher of `nlp` is signed in to."""
    client.force_login(scene.omar)
    return client
