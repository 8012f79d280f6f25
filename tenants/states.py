"""The life of a quota request, in one place: code, REST and pages all read it here."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class RequestState(TextChoices):
    DRAFT = "draft", _("draft")
    SUBMITTED = "submitted", _("submitted")
    NEEDS_INFO = "needs_info", _("question asked")
    IN_REVIEW = "in_review", _("in review")  # submitted, and a question of ours was answered
    COUNTERED = "countered", _("counter-offer made")
    APPROVED = "approved", _("approved")
    SCHEDULED = "scheduled", _("approved, not started yet")
    ACTIVE = "active", _("active")
    EXPIRING = "expiring", _("ends soon")
    GRACE = "grace", _("ended, in grace")  # no longer guaranteed, may still be borrowed
    CLOSED = "closed", _("closed")
    REJECTED = "rejected", _("rejected")
    DECLINED = "declined", _("counter-offer declined")
    WITHDRAWN = "withdrawn", _("withdrawn")
    REVOKED = "revoked", _("revoked")


_S = RequestState
# What an operator may make of a request that waits for an answer of theirs.
_DECISIONS = frozenset({_S.NEEDS_INFO, _S.COUNTERED, _S.APPROVED, _S.REJECTED, _S.WITHDRAWN})

# Nothing else decides what may follow what.
TRANSITIONS: dict[RequestState, frozenset[RequestState]] = {
    _S.DRAFT: frozenset({_S.SUBMITTED, _S.WITHDRAWN}),
    _S.SUBMITTED: _DECISIONS,
    _S.NEEDS_INFO: frozenset({_S.IN_REVIEW, _S.REJECTED, _S.WITHDRAWN}),
    _S.IN_REVIEW: _DECISIONS,
    _S.COUNTERED: frozenset({_S.APPROVED, _S.DECLINED, _S.WITHDRAWN}),
    _S.APPROVED: frozenset({_S.SCHEDULED, _S.ACTIVE}),
    _S.SCHEDULED: frozenset({_S.ACTIVE, _S.CLOSED, _S.REVOKED}),
    _S.ACTIVE: frozenset({_S.EXPIRING, _S.GRACE, _S.CLOSED, _S.REVOKED}),
    _S.EXPIRING: frozenset({_S.GRACE, _S.CLOSED, _S.REVOKED}),
    _S.GRACE: frozenset({_S.CLOSED, _S.REVOKED}),
    _S.CLOSED: frozenset(),
    _S.REJECTED: frozenset(),
    _S.DECLINED: frozenset(),
    _S.WITHDRAWN: frozenset(),
    _S.REVOKED: frozenset(),
}
FINAL = frozenset(state for state, after in TRANSITIONS.items() if not after)
FOR_OPERATORS = frozenset({_S.SUBMITTED, _S.IN_REVIEW})  # an operator has to answer
FOR_TENANTS = frozenset({_S.DRAFT, _S.NEEDS_INFO, _S.COUNTERED})  # the tenant has to
NEEDING_TENANTS = FOR_TENANTS | {_S.EXPIRING}
UNDECIDED = FOR_OPERATORS | FOR_TENANTS
GUARANTEED = frozenset({_S.ACTIVE, _S.EXPIRING})
IN_FORCE = GUARANTEED | {_S.GRACE}
PROMISED = GUARANTEED | {_S.APPROVED, _S.SCHEDULED}  # what a later approval has to leave alone
