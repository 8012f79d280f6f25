"""The project package: entry points above everything, `portal.core` below everything."""

from portal.celery import app as celery_app

__all__ = ["celery_app"]
