"""Doors for the broker. Each may run twice, at once or never."""

from celery import shared_task
from django.utils import timezone

from tenants.services.grant_clock import advance_grants


@shared_task(name="tenants.advance_grants", ignore_result=True)
def advance_grants_now() -> None:
    """The beat: time starts grants, reminds of their end, and ends them."""
    advance_grants(at=timezone.now())
