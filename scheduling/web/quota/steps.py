"""What the buttons on a request's page do: one call of a service each, and a word of thanks."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.core.errors import Refused
from scheduling.reports.quota_use import tenants_in_use
from scheduling.web.quota.forms import OfferForm
from tenants.models import QuotaRequest, User
from tenants.services import quota_decisions as operators_do
from tenants.services import quota_requests as tenants_do
from tenants.services.quota_decisions import Decider

LONGEST_NUMBER = 9  # digits that a number of GPUs or a version has at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A button as the browser sent it. at: wall clock."""

    asked: QuotaRequest
    by: User
    at: datetime
    values: QueryDict
    form: OfferForm

    @classmethod
    def of(cls, request: HttpRequest, asked: QuotaRequest, at: datetime) -> "Sent":
        form = OfferForm(request.POST, cluster=asked.cluster)
        return cls(asked=asked, by=request.user, at=at, values=request.POST, form=form)

    @property
    def note(self) -> str:
        said = self.values.get("offer-note") or self.values.get("note", "")
        return said.replace("\0", "")[:4000]

    @property
    def seen(self) -> int | None:
        """The version of the request that the page showed."""
        return self.number("seen")

    @property
    def decider(self) -> Decider:
        return Decider(by=self.by, at=self.at, seen=self.seen, note=self.note)

    def number(self, name: str) -> int | None:
        said = self.values.get(name, "")
        return int(said) if said.isdecimal() and len(said) <= LONGEST_NUMBER else None

    def valid_form(self) -> OfferForm:
        if not self.form.is_valid():
            raise Refused(_("Some of the numbers cannot be taken; see below."))
        return self.form


def _approve(sent: Sent) -> str:
    form = sent.valid_form()
    on_purpose = form.cleaned_data["overcommit"]
    operators_do.approve_request(sent.asked, form.offer(), sent.decider, overcommit=on_purpose)
    return _("%(request)s is approved.") % {"request": sent.asked.public_id}


def _counter(sent: Sent) -> str:
    operators_do.counter_offer(sent.asked, sent.valid_form().offer(), sent.decider)
    return _("The offer is made; it waits for the tenant.")


def _ask(sent: Sent) -> str:
    operators_do.ask_question(sent.asked, sent.decider)
    return _("The question is asked; it waits for the tenant.")


def _reject(sent: Sent) -> str:
    operators_do.reject_request(sent.asked, sent.decider)
    return _("%(request)s is rejected.") % {"request": sent.asked.public_id}


def _revoke(sent: Sent) -> str:
    operators_do.revoke_grant(sent.asked, sent.decider)
    return _("%(request)s is taken back.") % {"request": sent.asked.public_id}


def _submit(sent: Sent) -> str:
    tenants_do.submit_request(sent.asked, by=sent.by, at=sent.at, seen=sent.seen)
    return _("%(request)s is submitted.") % {"request": sent.asked.public_id}


def _answer(sent: Sent) -> str:
    tenants_do.answer_question(sent.asked, sent.note, by=sent.by, at=sent.at, seen=sent.seen)
    return _("The answer is sent.")


def _accept(sent: Sent) -> str:
    tenants_do.accept_offer(sent.asked, by=sent.by, at=sent.at, seen=sent.seen)
    return _("The offer is taken.")


def _decline(sent: Sent) -> str:
    tenants_do.decline_offer(sent.asked, sent.note, by=sent.by, at=sent.at, seen=sent.seen)
    return _("The offer is turned down.")


def _withdraw(sent: Sent) -> str:
    tenants_do.withdraw_request(sent.asked, by=sent.by, at=sent.at, note=sent.note, seen=sent.seen)
    return _("%(request)s is withdrawn.") % {"request": sent.asked.public_id}


def _hand_back(sent: Sent) -> str:
    """Says what it means for what runs: nothing is stopped by it."""
    gpus = sent.number("gpus") or 0
    grant = tenants_do.hand_back(sent.asked, gpus, by=sent.by, at=sent.at, seen=sent.seen)
    thanks = ngettext(
        "Thank you: %(gpus)d GPU is back for everybody.",
        "Thank you: %(gpus)d GPUs are back for everybody.",
        gpus,
    ) % {"gpus": gpus}
    (use,) = tenants_in_use([sent.asked.tenant])
    beyond = next((q.beyond for q in use.quotas if q.flavor == grant.flavor.name), 0)
    if not beyond:
        return thanks
    above = _(
        "%(beyond)d in use are above the quota now: their jobs run on, and may be stopped when "
        "others need the GPUs."
    )
    return f"{thanks} {above % {'beyond': beyond}}"


STEPS: dict[str, Callable[[Sent], str]] = {
    "approve": _approve,
    "counter": _counter,
    "ask": _ask,
    "reject": _reject,
    "revoke": _revoke,
    "submit": _submit,
    "answer": _answer,
    "accept": _accept,
    "decline": _decline,
    "withdraw": _withdraw,
    "hand_back": _hand_back,
}
