from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    """A person, or a program that acts for one. Roles live on memberships."""

    is_operator = models.BooleanField(default=False)  # the cluster admin, above tenants
    language = models.CharField(max_length=16, blank=True)  # empty: what the browser asks for
    time_zone = models.CharField(max_length=64, blank=True)
    unread = models.PositiveIntegerField(
        default=0, db_default=0
    )  # notifications; kept by their service

    def __str__(self) -> str:
        return self.get_full_name() or self.username
