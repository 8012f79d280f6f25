import pytest


@pytest.fixture(scope="session", autouse=True)
def _services_of_our_own():
    """Nobody else's database or broker, whatever the environment says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DATABASE_URL", raising=False)
        patch.delenv("REDIS_URL", raising=False)
        yield
