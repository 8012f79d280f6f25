"""Get and list: selectors, pages, versions, and the forms that an answer may take."""

import base64
import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from simcluster import errors, tables
from simcluster.objects import Obj, Stored, name_of, namespace_of
from simcluster.requests import Request, Response, Target, dump
from simcluster.resources import Resource
from simcluster.selectors import Predicate, everything, field_selector, label_selector
from simcluster.store import Store
from simcluster.world import World

_MOST_BEGUN = 4  # lists that are kept in order for their next page


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the objects of a list: `token` continues it, `left` counts the rest."""

    items: Sequence[Stored]
    version: int
    token: str = ""
    left: int = 0


def selection(request: Request, resource: Resource) -> Predicate:
    """What the request's label and field selectors let through."""
    by_label = request.query.get("labelSelector", "")
    by_field = request.query.get("fieldSelector", "")
    if not by_label and not by_field:
        return everything
    labels, fields = label_selector(by_label), field_selector(by_field, resource)
    return lambda obj: labels(obj) and fields(obj)


def encoded(obj: Stored) -> bytes:
    """The object's JSON, made once."""
    if obj.encoded is None:
        obj.encoded = dump(obj)
    return obj.encoded


class Reader:
    """The read half of the API, watches aside."""

    def __init__(self, world: World) -> None:
        self._world = world
        # Lists of which pages are still asked for, by what they are lists of: at one version they
        # never change, and a long one is not to be put in order again for each of its pages.
        self._begun: dict[tuple[object, ...], Sequence[Stored]] = {}

    def show(self, request: Request, resource: Resource, obj: Stored, *, code: int) -> Response:
        """One object, as the client likes it."""
        if (form := tables.wanted_form(request.headers)) is not None:
            return Response(body=dump(self._table(request, resource, [obj], form=form)), code=code)
        return Response(body=encoded(obj), code=code)

    def list(self, request: Request, target: Target) -> Response:
        """A list or one page of it."""
        page = self._page(request, target)
        metadata: Obj = {"resourceVersion": str(page.version)}
        if page.token:
            metadata |= {"continue": page.token, "remainingItemCount": page.left}
        resource = target.resource
        if (form := tables.wanted_form(request.headers)) is not None:
            table = self._table(request, resource, page.items, form=form)
            return Response(body=dump({**table, "metadata": metadata}))
        head = {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": metadata,
        }
        items = b",".join(encoded(obj) for obj in page.items)
        return Response(body=dump(head)[:-1] + b',"items":[' + items + b"]}")

    def _table(
        self, request: Request, resource: Resource, objects: Sequence[Stored], *, form: str
    ) -> Obj:
        whole = request.query.get("includeObject", "Metadata")
        return tables.table(
            resource, objects, now=self._world.clock.now(), form=tables.Form(form, whole)
        )

    def _page(self, request: Request, target: Target) -> Page:
        store, limit = self._world.store, request.number("limit") or 0
        token = request.query.get("continue", "")
        wanted = request.number("resourceVersion") or 0
        if wanted > store.version:
            why = f"Timeout: Too large resource version: {wanted}, current: {store.version}"
            raise errors.ApiError(504, "Timeout", message=why)
        after, version = _read_token(token) if token else (None, store.version)
        if after is not None and store.is_too_old(version):
            message = (
                "The provided continue parameter is too old to display a consistent list result"
            )
            raise errors.expired(message, token=_write_token(after, store.version))
        objects = self._listed(request, target, version=version)
        first = 0 if after is None else bisect_right(objects, after, key=_place)
        left = len(objects) - first
        if limit <= 0 or left <= limit:
            return Page(objects[first:], version)
        items = objects[first : first + limit]
        return Page(items, version, _write_token(_place(items[-1]), version), left - limit)

    def _listed(self, request: Request, target: Target, *, version: int) -> Sequence[Stored]:
        """All that the request asks for, as it was at `version`, in the order of lists."""
        selectors = (request.query.get(f"{kind}Selector", "") for kind in ("label", "field"))
        key = (version, target.resource, target.namespace, *selectors)
        found = self._begun.pop(key, None)
        if found is None:
            found = _selected(self._world.store, request, target, version=version)
        if len(self._begun) >= _MOST_BEGUN:
            del self._begun[next(iter(self._begun))]
        if request.number("limit"):
            self._begun[key] = found
        return found


def _selected(store: Store, request: Request, target: Target, *, version: int) -> list[Stored]:
    """What the request asks for, as it was at `version`, in the order of lists."""
    matches = selection(request, target.resource)
    objects = [
        obj for obj in store.as_of(version, target.resource, target.namespace) if matches(obj)
    ]
    return sorted(objects, key=_place)


def _place(obj: Stored) -> tuple[str, str]:
    return namespace_of(obj), name_of(obj)


def _write_token(last: tuple[str, str], version: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([*last, version]).encode()).decode()


def _read_token(token: str) -> tuple[tuple[str, str], int]:
    try:
        namespace, name, version = json.loads(base64.urlsafe_b64decode(token))
    except (ValueError, TypeError) as error:
        raise errors.bad_request("continue key is not valid") from error
    if [type(part) for part in (namespace, name, version)] != [str, str, int]:
        raise errors.bad_request("continue key is not valid")
    return (namespace, name), version
