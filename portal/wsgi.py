import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.prod")
application = get_wsgi_application()

from portal.core.warmth import settle  # noqa: E402 - Django has to be set up first

settle()
