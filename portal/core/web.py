"""What every page door shares: who may come in, and how a page keeps itself fresh.

A page and its fragment come from the same view. The fragment carries its own ETag and sends it
back when it asks again, so an unchanged fragment costs the reads that its tag is made of.
"""

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from django.contrib.auth.views import redirect_to_login
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseNotModified
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.translation import get_language

from portal.core.errors import PortalError

STOP_POLLING = 286  # htmx swaps the answer in and asks no more
P = ParamSpec("P")
T = TypeVar("T")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


@dataclass(frozen=True, slots=True)
class Slice:
    """One page of a long list: pages and rows are numbered from 1."""

    number: int
    size: int
    total: int

    @classmethod
    def asked_for(cls, request: HttpRequest, *, size: int, total: int) -> "Slice":
        """The page that `?page=` names, or the nearest there is."""
        asked = request.GET.get("page", "1")
        number = int(asked) if asked.isdecimal() and len(asked) < 8 else 1  # noqa: PLR2004 - more digits name no page
        return cls(min(max(number, 1), max(1, -(-total // size))), size, total)

    @property
    def start(self) -> int:
        """Where the page starts in the list, from 0."""
        return (self.number - 1) * self.size

    @property
    def first_row(self) -> int:
        return min(self.start + 1, self.total)

    @property
    def last_row(self) -> int:
        return min(self.start + self.size, self.total)

    @property
    def last_number(self) -> int:
        return max(1, -(-self.total // self.size))

    @property
    def previous_number(self) -> int:
        return self.number - 1

    @property
    def next_number(self) -> int:
        return self.number + 1


def signed_in(view: View[P]) -> View[P]:
    """The view for people who are signed in; others are sent to sign in, and then back."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if request.user.is_authenticated:
            return view(request, *args, **kwargs)
        if is_fragment(request):  # a session that ended: the whole page shall go and sign in
            return HttpResponse(status=401, headers={"HX-Refresh": "true"})
        return redirect_to_login(request.get_full_path())

    return cast("View[P]", guarded)


def found(
    find: Callable[..., T], *methods: str
) -> Callable[[Callable[[HttpRequest, T], HttpResponse]], Callable[..., HttpResponse]]:
    """The view of one thing that `find` finds, or answers 404, for people who are signed in.

    The thing is looked for before the method is, so no method tells a stranger that it is there.
    """

    def decorate(view: Callable[[HttpRequest, T], HttpResponse]) -> Callable[..., HttpResponse]:
        @wraps(view)
        def guarded(request: HttpRequest, **ids: str) -> HttpResponse:
            thing = find(request, **ids)
            if request.method not in methods:
                return HttpResponseNotAllowed(methods)
            return view(request, thing)

        return signed_in(guarded)

    return decorate


def is_fragment(request: HttpRequest) -> bool:
    """Whether htmx asks for a part of the page."""
    return request.headers.get("HX-Request") == "true"


def tag_of(request: HttpRequest, *parts: object) -> str:
    """An ETag of what a fragment shows: `parts`, for this person, language and time zone."""
    seen = (request.user.pk, get_language(), timezone.get_current_timezone_name(), *parts)
    return f'"{hashlib.sha256(repr(seen).encode()).hexdigest()[:24]}"'


def polled(
    request: HttpRequest,
    templates: tuple[str, str],
    context: Callable[[], Mapping[str, Any]],
    *,
    tag: str,
    every: float,
    ended: bool = False,
) -> HttpResponse:
    """The page, or for htmx its fragment: 304 while `tag` stands, 286 once it has `ended`.

    templates: of the page and of its fragment. every: seconds between two looks; each answer
    spreads them by a fifth, so that many open pages do not ask at the same instant.
    """
    page, fragment = templates
    if is_fragment(request) and not ended and request.headers.get("If-None-Match") == tag:
        return HttpResponseNotModified(headers={"ETag": tag})
    pause = "" if ended else f"{int(every * random.uniform(800, 1200))}ms"  # noqa: S311 - no secret
    shown = {**context(), "poll": {"tag": tag, "every": pause, "url": request.get_full_path()}}
    part = is_fragment(request)
    response = render(request, fragment if part else page, shown)
    response.status_code = STOP_POLLING if part and ended else 200
    response["ETag"] = tag
    response["Cache-Control"] = "no-store" if part else "private, no-cache"
    patch_vary_headers(response, ["HX-Request"])
    return response


def blame(
    form: Form, refusal: PortalError, field_of: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Say in `form` what a service refused, beside the field that it named if there is one.

    field_of: the form's own names, where they differ from the service's.
    """
    field = field_of.get(refusal.field, refusal.field)
    form.add_error(field if field in form.fields else None, str(refusal))
