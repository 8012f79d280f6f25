import pytest

from portal.core.cache import PatientCache
from portal.settings import base


@pytest.fixture
def away(tmp_path):
    return PatientCache(f"unix://{tmp_path}/nobody.sock", {})


def test_a_cache_that_is_away_is_empty_and_keeps_nothing(away):
    away.set("a", 1, timeout=5)

    assert (away.get("a"), away.get("a", 7), away.get_many(["a"])) == (None, 7, {})
    assert away.add("a", 1, timeout=5) is True
    assert away.delete("a") is False


def test_the_portal_bears_with_a_cache_that_is_away():
    assert base.CACHES["default"]["BACKEND"] == "portal.core.cache.PatientCache"
