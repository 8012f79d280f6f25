from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True)
class Item:
    label: Promise
    url: str
    icon: str
    is_here: bool


@dataclass(frozen=True, slots=True)
class Section:
    label: Promise | str
    items: tuple[Item, ...]


# Section, then its items: label, name of the URL, query, icon.
_SECTIONS = (
    ("", ((_("Home"), "home", "", "home"),)),
    (
        _("Jobs"),
        (
            (_("Mine"), "job-list", "?owner=me", "person"),
            (_("All jobs"), "job-list", "", "jobs"),
            (_("Queue"), "queue", "", "queue"),
            (_("New job"), "job-new", "", "plus"),
        ),
    ),
    (
        _("Quota"),
        (
            (_("Tenants"), "quota", "", "quota"),
            (_("Requests"), "quota-requests", "", "inbox"),
        ),
    ),
    (
        _("Cluster"),
        (
            (_("Map"), "cluster-map", "", "cluster"),
            (_("Calendar"), "calendar", "", "calendar"),
            (_("Maintenance"), "maintenance", "", "maintenance"),
        ),
    ),
)
_FOR_OPERATORS = (
    (
        _("Admin"),
        (
            (_("Approvals"), "approvals", "", "check"),
            (_("Cohorts"), "cohorts", "", "quota"),
            (_("Layouts"), "layouts", "", "cpu"),
            (_("Policy"), "policies", "", "policy"),
            (_("Priorities"), "priorities", "", "priority"),
            (_("Audit"), "audit", "", "jobs"),
            (_("Clusters"), "clusters", "", "node"),
            (_("Users"), "users", "", "people"),
            (_("Announcements"), "announcements", "", "bell"),
            (_("System"), "system", "", "half"),
        ),
    ),
)

_OF_THE_DEMO = ((_("Simulation"), ((_("Demo"), "demo", "", "state-running"),)),)


def sections_for(request: HttpRequest) -> tuple[Section, ...]:
    """The rail, with the item of this page marked; deeper pages mark the list they hang in."""
    sections = _SECTIONS
    if request.user.is_operator:
        sections += _FOR_OPERATORS + (_OF_THE_DEMO if settings.IS_DEMO else ())
    return tuple(
        Section(label, tuple(_item(request, *parts) for parts in items))
        for label, items in sections
    )


def _item(request: HttpRequest, label: Promise, name: str, query: str, icon: str) -> Item:
    return Item(label, reverse(name) + query, icon, _is_here(request, name, query))


_PARENTS = {
    "cluster": "clusters",
    "cluster-connect": "clusters",
    "cluster-renew": "clusters",
    "namespace": "clusters",
    "operator-values": "clusters",
    "approve-together": "approvals",
    "cohort": "cohorts",
    "cohort-limits": "cohorts",
    "cohort-new": "cohorts",
    "tenant-cohort": "cohorts",
    "tenant-limits": "cohorts",
    "announcement": "announcements",
    "user": "users",
    "user-new": "users",
    "user-link": "users",
    "announcement-new": "announcements",
    "demo-anew": "demo",
    "job": "job-list",
    "job-cancel": "job-list",
    "job-events": "job-list",
    "job-logs": "job-list",
    "job-spec": "job-list",
    "job-change": "job-list",
    "array-cancel": "job-list",
    "node": "cluster-map",
    "layout": "layouts",
    "layout-new": "layouts",
    "rollout": "layouts",
    "rollout-new": "layouts",
    "policy-restore": "policies",
    "priority": "priorities",
    "priority-new": "priorities",
    "window-new": "maintenance",
    "window-edit": "maintenance",
    "block-new": "maintenance",
    "block-edit": "maintenance",
    "tenant": "quota",
    "tenant-webhooks": "quota",
    "budget": "quota",
    "memberships": "quota",
    "membership-remove": "quota",
    "quota-request": "quota-requests",
    "quota-request-new": "quota-requests",
    "quota-request-edit": "quota-requests",
}


def _is_here(request: HttpRequest, name: str, query: str) -> bool:
    match = request.resolver_match
    here = match.url_name if match else None
    if here == "quota-request" and request.user.is_operator:
        here = "approvals"  # whence operators come to it
    if _PARENTS.get(here, here) != name:
        return False
    return name != "job-list" or (request.GET.get("owner") == "me") == bool(query)
