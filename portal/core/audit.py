from typing import Any

from portal.core.acting import really
from portal.core.models import AuditEvent


def record(
    action: str,
    thing: Any,
    *,
    by: Any,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    reason: str = "",
) -> AuditEvent:
    """The audit line of one change to `thing`, in the caller's transaction.

    by: the User who did it, or None for the system. An operator who acts in another's name is
    named beside.
    """
    tenant = getattr(thing, "tenant", None)
    return AuditEvent.objects.create(
        actor=by,
        really=really(),
        action=action,
        object_kind=thing._meta.model_name,  # noqa: SLF001 - Django's public name for it
        object_id=str(getattr(thing, "public_id", thing.pk)),
        tenant_slug=getattr(tenant, "slug", ""),
        before=before or {},
        after=after or {},
        reason=reason,
    )
