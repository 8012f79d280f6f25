"""The demo of bin/run, and a developer's own server."""

from portal.settings.base import *

IS_DEMO = bool(SIMCLUSTER_URL)
SECRET_KEY = SECRET_KEY or "not-a-secret-for-development-only"
