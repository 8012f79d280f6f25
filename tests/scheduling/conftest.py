import pytest

from tests.scheduling.world import World


@pytest.fixture
def world(db):
    """Two nodes of eight GPUs, all of them the tenant's quota."""
    return World.of()
