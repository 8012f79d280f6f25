"""Everything a caller may do wrong, as one small tree.

PortalError             400
  BadRequest            400  not understood; nothing was changed
  NotAllowed            403  the role does not reach that far
  NotFound              404  no such thing, or not yours: callers cannot tell which
  Conflict              409  somebody else moved it first
    IllegalTransition
  Refused               422  well formed, but against a rule of the cluster
    QuotaExceeded
    GangTooLarge
    IdempotencyKeyReused
  ClusterAway           503  the cluster does not answer; try again
"""

from typing import Any, ClassVar


class PortalError(Exception):
    """`code` is for programs and never changes; the message is for people and may."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "bad_request"

    def __init__(
        self, message: str, *, field: str = "", numbers: dict[str, Any] | None = None
    ) -> None:
        """`field` names what to mend, in the words of the request; `numbers` go into the answer."""
        super().__init__(message)
        self.field = field
        self.numbers = numbers or {}


class BadRequest(PortalError):
    pass


class NotAllowed(PortalError):
    status, code = 403, "not_allowed"


class NotFound(PortalError):
    status, code = 404, "not_found"


class Conflict(PortalError):
    status, code = 409, "conflict"


class IllegalTransition(Conflict):
    code = "illegal_transition"


class Refused(PortalError):
    status, code = 422, "refused"


class QuotaExceeded(Refused):
    code = "over_ceiling"


class GangTooLarge(Refused):
    code = "gang_too_large"


class IdempotencyKeyReused(Refused):
    code = "idempotency_key_reused"


class ClusterAway(PortalError):
    status, code = 503, "cluster_away"
