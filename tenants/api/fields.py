from django.db.models import QuerySet

from portal.core.api.fields import NamedField
from tenants.models import Tenant


class TenantField(NamedField):
    """A tenant of the caller's: another one gives the answer of one that does not exist."""

    def rows(self) -> QuerySet[Tenant]:
        return Tenant.objects.visible_to(self.context["request"].user)
