"""Lists and watches: pages, selectors, versions and how a watch ends."""

import json
import urllib.parse
import urllib.request
from contextlib import closing

import pytest

from simcluster.resources import NAMESPACES
from simcluster.store import HISTORY, Store

PODS = "/api/v1/namespaces/default/pods"


def watch(kube, path=PODS, **query):
    """The lines of a watch, as pairs of type and object."""
    text = urllib.parse.urlencode({"watch": "true", "timeoutSeconds": 1, **query})
    headers = {"Authorization": f"Bearer {kube.cluster.token}"}
    request = urllib.request.Request(f"{kube.cluster.url}{path}?{text}", headers=headers)
    with closing(urllib.request.urlopen(request, timeout=30)) as lines:
        for line in lines:
            event = json.loads(line)
            yield event["type"], event["object"]


def names(events):
    return [(kind, obj["metadata"]["name"]) for kind, obj in events]


def version_of(kube):
    return kube.get(PODS)["metadata"]["resourceVersion"]


def test_a_watch_from_a_version_tells_what_came_after(kube, pod):
    kube.create(PODS, pod("before", gated=True))
    version = version_of(kube)
    kube.create(PODS, pod("after", gated=True))
    kube.ask("DELETE", f"{PODS}/after")

    events = list(watch(kube, resourceVersion=version))

    assert names(events) == [("ADDED", "after"), ("DELETED", "after")]


def test_a_watch_without_a_version_begins_with_what_is_there(kube, pod):
    kube.create(PODS, pod("a", gated=True))

    assert names(watch(kube)) == [("ADDED", "a")]


def test_a_watch_sees_changes_as_they_happen_and_ends_in_time(kube, pod):
    events = watch(kube, resourceVersion=version_of(kube), timeoutSeconds=2)
    kube.create(PODS, pod("a", gated=True))

    assert names(events) == [("ADDED", "a")]


def test_initial_events_end_with_a_marked_bookmark(kube, pod):
    kube.create(PODS, pod("a", gated=True))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

    events = list(watch(kube, allowWatchBookmarks="true", **query))

    (_, bookmark) = events[1]
    assert [kind for kind, _ in events[:2]] == ["ADDED", "BOOKMARK"]
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_bookmark_comes_before_the_end(kube, pod):
    version = version_of(kube)

    events = list(watch(kube, resourceVersion=version, allowWatchBookmarks="true"))

    assert [kind for kind, _ in events] == ["BOOKMARK"]
    assert events[0][1]["metadata"]["resourceVersion"] == version


def test_what_stops_to_match_is_deleted_for_the_watch(kube, pod):
    kube.create(PODS, pod("a", gated=True))
    version = version_of(kube)
    for labels in ({"team": "x"}, {"team": "y"}):
        kube.patch(f"{PODS}/a", {"metadata": {"labels": labels}})

    events = watch(kube, resourceVersion=version, labelSelector="team=x")

    assert names(events) == [("ADDED", "a"), ("DELETED", "a")]


def test_a_forgotten_version_is_told_410_inside_the_stream(kube, pod, monkeypatch):
    monkeypatch.setattr(Store, "is_too_old", lambda _store, version: version < 3)

    ((kind, status),) = watch(kube, resourceVersion=2)

    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


def test_the_store_forgets_the_oldest_changes_first():
    store = Store()
    namespace = {"metadata": {"name": "n", "uid": "u"}}

    for _ in range(HISTORY + 5):
        store.put(NAMESPACES, {"metadata": dict(namespace["metadata"])})

    oldest = store.history[0].version
    assert (store.is_too_old(oldest - 2), store.is_too_old(oldest - 1)) == (True, False)
    assert [event.version for event in store.since(store.version - 2)] == [
        store.version - 1,
        store.version,
    ]


def test_a_version_of_the_future_is_504(kube):
    code, status = kube.ask("GET", f"{PODS}?watch=true&resourceVersion=999999999")

    assert (code, status["reason"]) == (504, "Timeout")


def test_a_list_is_read_in_pages(kube, pod):
    for name in ("a", "b", "c", "d", "e"):
        kube.create(PODS, pod(name, gated=True))

    first = kube.get(f"{PODS}?limit=2")
    token = first["metadata"]["continue"]
    second = kube.get(f"{PODS}?limit=2&continue={token}")
    rest = kube.get(f"{PODS}?continue={second['metadata']['continue']}")

    pages = [[p["metadata"]["name"] for p in page["items"]] for page in (first, second, rest)]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert first["metadata"]["remainingItemCount"] == 3
    assert "continue" not in rest["metadata"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("fieldSelector=spec.nodeName=h100-sxm-02", ["two"]),
        ("fieldSelector=spec.nodeName!=h100-sxm-02,status.phase=Pending", ["gated", "one"]),
        ("fieldSelector=metadata.name=one", ["one"]),
        ("fieldSelector=status.phase=Running", []),
        ("labelSelector=app", ["one", "two"]),
        ("labelSelector=app in (x),!other", ["one"]),
        ("labelSelector=app!=x", ["gated", "two"]),
        ("labelSelector=app notin (x,y)", ["gated"]),
    ],
)
def test_selectors(kube, pod, query, expected):
    for name, label, node in (("one", "x", "h100-sxm-01"), ("two", "y", "h100-sxm-02")):
        manifest = pod(name, nodeName=node)
        manifest["metadata"]["labels"] = {"app": label}
        kube.create(PODS, manifest)
    kube.create(PODS, pod("gated", gated=True))

    items = kube.get(f"{PODS}?{urllib.parse.quote(query, safe='=&')}")["items"]

    assert [item["metadata"]["name"] for item in items] == expected


@pytest.mark.parametrize("query", ["fieldSelector=spec.color=red", "labelSelector=a,,b"])
def test_a_selector_that_means_nothing_is_400(kube, query):
    assert kube.ask("GET", f"{PODS}?{query}")[0] == 400


def test_the_version_counts_all_kinds_together(kube, pod):
    first = kube.create(PODS, pod("a", gated=True))
    second = kube.create(
        "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}, "data": {"k": "v"}}
    )

    versions = [int(made["metadata"]["resourceVersion"]) for made in (first, second)]
    assert versions[1] == versions[0] + 1


def test_dropped_watches_end_without_a_word(kube, pod):
    kube.create(PODS, pod("a", gated=True))
    events = watch(kube, timeoutSeconds=60)
    first = next(events)

    dropped = kube.cluster.fault("drop-watches", resource="pods")

    assert names([first]) == [("ADDED", "a")]
    assert dropped == {"dropped": 1}
    assert list(events) == []


def test_a_continue_token_that_is_too_old_is_410_with_one_that_goes_on(kube, pod, monkeypatch):
    for name in ("a", "b", "c"):
        kube.create(PODS, pod(name, gated=True))
    token = kube.get(f"{PODS}?limit=1")["metadata"]["continue"]
    monkeypatch.setattr(Store, "is_too_old", lambda store, version: version < store.version)
    kube.create(PODS, pod("d", gated=True))

    code, status = kube.ask("GET", f"{PODS}?limit=1&continue={token}")
    rest = kube.get(f"{PODS}?continue={status['metadata']['continue']}")

    assert (code, status["reason"]) == (410, "Expired")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c", "d"]
