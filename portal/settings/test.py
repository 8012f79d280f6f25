"""Tests: throwaway services (tests/conftest.py starts them), plain static files, fast passwords."""

from portal.settings.base import *

SECRET_KEY = "tests-only"  # noqa: S105 - protects nothing
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
WHITENOISE_AUTOREFRESH = WHITENOISE_USE_FINDERS = True  # nothing is collected for a test
