from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from tenants.models import User
from tenants.services.sign_in import make_sign_in_link


class Command(BaseCommand):
    help = "Print a link that signs a person in, once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="the user name")
        parser.add_argument("--hours", type=float, default=0.25, help="how long it is good for")

    def handle(self, *args: Any, user: str, hours: float, **options: Any) -> str:
        person = User.objects.filter(username=user, is_active=True).first()
        if person is None:
            raise CommandError(f"there is no active user {user!r}")
        if hours <= 0:
            raise CommandError("--hours must be more than 0")
        return make_sign_in_link(
            person,
            at=timezone.now(),
            base_url=settings.BASE_URL,
            life=timedelta(hours=hours),
        )
