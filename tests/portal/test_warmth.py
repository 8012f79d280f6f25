import gc

from django.urls import clear_url_caches, get_resolver

from portal.core.warmth import settle


def test_what_stays_is_not_looked_through_again():
    clear_url_caches()
    try:
        settle()
        assert gc.get_freeze_count() > 10_000
        assert "url_patterns" in vars(get_resolver())
    finally:
        gc.unfreeze()
