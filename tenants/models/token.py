from django.contrib.postgres.fields import ArrayField
from django.db import models


class ApiToken(models.Model):
    """A secret that lets a program act for its user. Only the secret's hash is kept."""

    user = models.ForeignKey("tenants.User", on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12, unique=True)
    digest = models.CharField(max_length=64)  # SHA-256 of the secret, in hex
    scopes = ArrayField(models.CharField(max_length=32), default=list, blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(expires_at__gt=models.F("created_at")),
                name="api_token_expires_after_its_making",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} (mst_{self.prefix}_…)"


class SignInLink(models.Model):
    """A link that signs its user in, once. Only the secret's hash is kept."""

    user = models.ForeignKey("tenants.User", on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"link for {self.user}"
