"""A real installation: refuses to start on what would be unsafe."""

from django.core.exceptions import ImproperlyConfigured

from portal.settings.base import *

if not SECRET_KEY:
    raise ImproperlyConfigured("Set MUSTER_SECRET_KEY to a long random text (50 characters).")

SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 31_536_000
SECURE_SSL_REDIRECT = True
# Kubernetes and Prometheus ask each process itself, not through the proxy that ends TLS.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
# What other hosts of the domain do is not ours to promise to browsers.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
