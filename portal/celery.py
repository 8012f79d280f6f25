import os

from celery import Celery

from portal.core.liveness import WorkerLife

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.prod")

app = Celery("portal")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["worker"].add(WorkerLife)
