"""What each error code of the API means and what to do about it: where a problem's `type` leads."""

from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe


@dataclass(frozen=True, slots=True)
class ErrorHelp:
    status: int
    title: Promise
    text: Promise


ERRORS: dict[str, ErrorHelp] = {
    "bad_request": ErrorHelp(
        400,
        _("That was not understood"),
        _(
            "This address does not take such a request. Mend what the detail names; nothing "
            "was changed."
        ),
    ),
    "parse_error": ErrorHelp(
        400,
        _("The body is not JSON"),
        _("Send one JSON object; the detail says where reading it stopped. Nothing was changed."),
    ),
    "invalid": ErrorHelp(
        400,
        _("Some fields cannot be taken"),
        _(
            "Each entry of errors names a field by its JSON pointer and says what is wrong "
            "with it. Nothing was changed."
        ),
    ),
    "not_authenticated": ErrorHelp(
        401,
        _("No token was sent"),
        _(
            "Send a token of yours in the header “Authorization: Bearer …”. An operator can "
            "give you one."
        ),
    ),
    "authentication_failed": ErrorHelp(
        401,
        _("The token is not valid"),
        _("It is mistyped, has expired or was revoked. Ask for a new one."),
    ),
    "not_allowed": ErrorHelp(
        403,
        _("You may not do this"),
        _("Your role does not reach that far. A lead of the tenant or an operator can help."),
    ),
    "permission_denied": ErrorHelp(
        403,
        _("The token may not do this"),
        _("It lacks the scope that this address needs. Ask for one that has it."),
    ),
    "link_spent": ErrorHelp(
        403,
        _("The sign-in link was used before, or is too old"),
        _("Each link works once. Ask for a new one."),
    ),
    "not_found": ErrorHelp(
        404,
        _("Not found, or you may not see it"),
        _(
            "The address may be mistyped, or it belongs to a tenant you are not in. Both look "
            "alike, so that nobody learns of what is not theirs."
        ),
    ),
    "not_in_cluster": ErrorHelp(
        404,
        _("The cluster does not have it"),
        _(
            "It was removed there, or has not been made yet. The portal notices by itself; "
            "read it again in a few seconds."
        ),
    ),
    "method_not_allowed": ErrorHelp(
        405,
        _("This address does not take that method"),
        _("The Allow header of the answer lists the methods it takes. Nothing was changed."),
    ),
    "not_acceptable": ErrorHelp(
        406,
        _("The answer cannot be given in that form"),
        _("The API answers in JSON: accept application/json."),
    ),
    "conflict": ErrorHelp(
        409,
        _("Somebody changed this first"),
        _("Read it again, look at what is different, and decide anew. Nothing was changed."),
    ),
    "illegal_transition": ErrorHelp(
        409,
        _("It is no longer in a state for that"),
        _("It moved on between your reading and your request: read it again. Nothing was changed."),
    ),
    "attempt_moved": ErrorHelp(
        409,
        _("The job has begun a new attempt"),
        _("What was asked concerned an attempt that is over. Read the job again."),
    ),
    "not_started": ErrorHelp(
        409,
        _("It has written nothing yet"),
        _("Its container does not run so far; the detail says why. Ask again once it does."),
    ),
    "still_running": ErrorHelp(
        409,
        _("The first request with this key is still at work"),
        _(
            "Wait a moment, then send the same request with the same Idempotency-Key: you "
            "will get its answer."
        ),
    ),
    "precondition_failed": ErrorHelp(
        412,
        _("It is not as you read it"),
        _("The ETag you sent is that of an older version: read it again. Nothing was changed."),
    ),
    "too_large": ErrorHelp(
        413,
        _("The body is too large"),
        _("Send less at once. Nothing was changed."),
    ),
    "unsupported_media_type": ErrorHelp(
        415,
        _("The body is in a form that is not read"),
        _("Send JSON with the content type application/json. Nothing was changed."),
    ),
    "refused": ErrorHelp(
        422,
        _("That cannot be done"),
        _(
            "The request is well formed but breaks a rule, which the detail names with its "
            "numbers. Nothing was changed."
        ),
    ),
    "would_delay": ErrorHelp(
        422,
        _("Somebody else was promised the place"),
        _(
            "With more time the job would hold up a start, a block or maintenance, which the "
            "detail names. Ask for less, or save your work and submit it again. Nothing was "
            "changed."
        ),
    ),
    "refused_by_cluster": ErrorHelp(
        422,
        _("The cluster refused it"),
        _("The detail gives the cluster's own words. Nothing was changed."),
    ),
    "over_ceiling": ErrorHelp(
        422,
        _("More GPUs than the tenant may ever hold"),
        _(
            "The job could never start. Ask for fewer GPUs, or have a lead of the tenant see "
            "to more quota."
        ),
    ),
    "over_committed": ErrorHelp(
        422,
        _("More would be promised than there is"),
        _(
            "Together with what others are guaranteed at that time it is more than the "
            "cluster has. Approve less, or for another time."
        ),
    ),
    "gang_too_large": ErrorHelp(
        422,
        _("Larger than the cluster"),
        _(
            "All members of a job start together, and the cluster does not have that many "
            "GPUs of the kind. Ask for fewer members, or for another model."
        ),
    ),
    "too_many": ErrorHelp(
        422,
        _("Too many mails in a short time"),
        _(
            "The address was mailed a moment ago, or the tenant has sent as many invitations as "
            "a day allows. Try again later. Nothing was changed."
        ),
    ),
    "idempotency_key_reused": ErrorHelp(
        422,
        _("The key was used for another request"),
        _(
            "An Idempotency-Key stands for one request with one body. Make a new key for a "
            "new request."
        ),
    ),
    "throttled": ErrorHelp(
        429,
        _("Too many requests"),
        _("Wait as long as the Retry-After header says, then go on more slowly."),
    ),
    "server_error": ErrorHelp(
        500,
        _("This is our fault"),
        _("Try again; if it breaks again, tell the operator the request id. Nothing was changed."),
    ),
    "unavailable": ErrorHelp(
        503,
        _("The portal cannot reach its database"),
        _(
            "Try again after as many seconds as the Retry-After header says. Jobs on the "
            "cluster run on."
        ),
    ),
    "cluster_away": ErrorHelp(
        503,
        _("The cluster does not answer"),
        _("Jobs on it run on. Try again in a moment; the detail says what was kept."),
    ),
}


def slug_of(code: str) -> str:
    """`code` as it stands in an address."""
    return code.replace("_", "-")


@require_safe
def errors(request: HttpRequest) -> HttpResponse:
    """Every error code, for whoever programs against the API."""
    rows = [(code, slug_of(code), error) for code, error in ERRORS.items()]
    return render(request, "site/help_errors.html", {"rows": rows})


@require_safe
def error(request: HttpRequest, error_code: str) -> HttpResponse:
    code = next((code for code in ERRORS if slug_of(code) == error_code), None)
    if code is None:
        raise Http404
    return render(request, "site/help_error.html", {"code": code, "error": ERRORS[code]})
