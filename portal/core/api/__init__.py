"""What every REST door shares: errors, pages, queries, tags, idempotency, scopes."""

from portal.core.api.problems import handle_exception

__all__ = ["handle_exception"]
