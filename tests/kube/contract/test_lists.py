"""Lists and watches: pages, selectors, versions and how a watch ends."""

import pytest


def names(events):
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def version_of(kube):
    return kube.get(kube.pods)["metadata"]["resourceVersion"]


def event_of(kube, name):
    """An Event of that name: of its kind no server keeps what was, and a compaction shows."""
    about = {"kind": "Pod", "name": "a", "namespace": kube.namespace}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "Test"}


def watch(kube, **query):
    """All that a short watch of the namespace's pods says."""
    return list(kube.follow(kube.pods, seconds=1, **query))


def test_a_watch_from_a_version_tells_what_came_after(kube, pod):
    kube.create(kube.pods, pod("before", gated=True))
    version = version_of(kube)
    kube.create(kube.pods, pod("after", gated=True))
    kube.delete(f"{kube.pods}/after")

    events = watch(kube, resourceVersion=version)

    assert names(events) == [("ADDED", "after"), ("MODIFIED", "after"), ("DELETED", "after")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert int(version) < versions[0] < versions[1] < versions[2]
    assert "deletionTimestamp" in events[1]["object"]["metadata"]


def test_a_watch_without_a_version_begins_with_what_is_there(kube, pod):
    kube.create(kube.pods, pod("a", gated=True))

    assert names(watch(kube)) == [("ADDED", "a")]


def test_a_watch_sees_changes_as_they_happen_and_ends_in_time(kube, pod):
    events = kube.follow(kube.pods, seconds=3, resourceVersion=version_of(kube))
    kube.create(kube.pods, pod("a", gated=True))
    first = next(events)
    kube.patch(f"{kube.pods}/a", {"metadata": {"labels": {"a": "b"}}})

    assert names([first, *events]) == [("ADDED", "a"), ("MODIFIED", "a")]


def test_initial_events_end_with_a_marked_bookmark(kube, pod):
    kube.create(kube.pods, pod("a", gated=True))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

    events = watch(kube, allowWatchBookmarks="true", **query)

    bookmark = events[1]["object"]
    assert [event["type"] for event in events[:2]] == ["ADDED", "BOOKMARK"]
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_bookmark_comes_before_the_end_with_a_version_to_go_on_from(kube, pod):
    query = {"resourceVersion": version_of(kube), "allowWatchBookmarks": "true"}
    kube.create(kube.pods, pod("a", gated=True))
    events = kube.follow(kube.pods, seconds=5, **query)
    first = next(events)
    _, changed = kube.patch(f"{kube.pods}/a", {"metadata": {"labels": {"a": "b"}}})

    told = [first, *events]

    version = told[-1]["object"]["metadata"]["resourceVersion"]
    assert [event["type"] for event in told[:3]] == ["ADDED", "MODIFIED", "BOOKMARK"]
    assert int(version) >= int(changed["metadata"]["resourceVersion"])
    assert watch(kube, resourceVersion=version) == []


def test_without_news_there_is_no_bookmark(kube):
    query = {"resourceVersion": version_of(kube), "allowWatchBookmarks": "true"}

    assert list(kube.follow(kube.pods, seconds=3, **query)) == []


def test_what_stops_to_match_is_deleted_for_the_watch(kube, pod):
    kube.create(kube.pods, pod("a", gated=True))
    version = version_of(kube)
    for labels in ({"team": "x"}, {"team": "y"}):
        kube.patch(f"{kube.pods}/a", {"metadata": {"labels": labels}})

    events = watch(kube, resourceVersion=version, labelSelector="team=x")

    assert names(events) == [("ADDED", "a"), ("DELETED", "a")]


def test_a_forgotten_version_is_told_410_inside_the_stream(kube, pod):
    kube.create(kube.events, event_of(kube, "a"))

    with kube.provider.forgetting():
        [event] = list(kube.follow(kube.events, seconds=1, resourceVersion="1"))

    status = event["object"]
    assert (event["type"], status["code"], status["reason"]) == ("ERROR", 410, "Expired")


def test_a_list_of_a_version_of_the_future_is_504(kube):
    future = str(int(version_of(kube)) + 1_000_000)

    code, status = kube.ask("GET", kube.pods, resourceVersion=future)

    assert (code, status["reason"]) == (504, "Timeout")
    assert status["message"].startswith("Timeout: Too large resource version")


def test_a_watch_of_a_version_of_the_future_keeps_silent(kube, pod):
    future = str(int(version_of(kube)) + 1_000_000)

    events = kube.follow(kube.pods, seconds=4, resourceVersion=future, allowWatchBookmarks="true")
    kube.create(kube.pods, pod("a", gated=True))

    assert list(events) == []


def test_a_list_is_read_in_pages(kube, pod):
    for name in ("a", "b", "c", "d", "e"):
        kube.create(kube.pods, pod(name, gated=True))

    first = kube.get(kube.pods, limit="2")
    second = kube.get(kube.pods, limit="2", **{"continue": first["metadata"]["continue"]})
    rest = kube.get(kube.pods, **{"continue": second["metadata"]["continue"]})

    pages = [[p["metadata"]["name"] for p in page["items"]] for page in (first, second, rest)]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert first["metadata"]["remainingItemCount"] == 3
    assert "continue" not in rest["metadata"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, rest)} == {
        first["metadata"]["resourceVersion"]
    }


def test_the_pages_of_a_list_are_of_one_instant(kube, pod):
    for name in ("a", "c"):
        kube.create(kube.pods, pod(name, gated=True))
    first = kube.get(kube.pods, limit="1")
    kube.create(kube.pods, pod("b", gated=True))
    kube.delete(f"{kube.pods}/c")

    rest = kube.get(kube.pods, **{"continue": first["metadata"]["continue"]})

    assert [p["metadata"]["name"] for p in rest["items"]] == ["c"]


def test_a_continue_token_that_is_too_old_is_410_with_one_that_goes_on(kube, pod):
    for name in ("a", "b", "c"):
        kube.create(kube.events, event_of(kube, name))
    token = kube.get(kube.events, limit="1")["metadata"]["continue"]
    kube.create(kube.events, event_of(kube, "d"))

    with kube.provider.forgetting():
        code, status = kube.ask("GET", kube.events, limit="1", **{"continue": token})
        rest = kube.get(kube.events, **{"continue": status["metadata"]["continue"]})

    assert (code, status["reason"]) == (410, "Expired")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"fieldSelector": "spec.nodeName=h100-sxm-02"}, ["two"]),
        ({"fieldSelector": "spec.nodeName!=h100-sxm-02,status.phase=Pending"}, ["gated", "one"]),
        ({"fieldSelector": "metadata.name=one"}, ["one"]),
        ({"fieldSelector": "status.phase=Running"}, []),
        ({"labelSelector": "app"}, ["one", "two"]),
        ({"labelSelector": "app in (x),!other"}, ["one"]),
        ({"labelSelector": "app!=x"}, ["gated", "two"]),
        ({"labelSelector": "app notin (x,y)"}, ["gated"]),
    ],
)
def test_selectors(kube, pod, query, expected):
    for name, label, node in (("one", "x", kube.nodes[0]), ("two", "y", kube.nodes[1])):
        manifest = pod(name, nodeName=node)
        manifest["metadata"]["labels"] = {"app": label}
        kube.create(kube.pods, manifest)
    kube.create(kube.pods, pod("gated", gated=True))

    items = kube.get(kube.pods, **query)["items"]

    assert [item["metadata"]["name"] for item in items] == expected


@pytest.mark.parametrize("query", [{"fieldSelector": "spec.color=red"}, {"labelSelector": "a,,b"}])
def test_a_selector_that_means_nothing_is_400(kube, query):
    assert kube.ask("GET", kube.pods, **query)[0] == 400


def test_versions_grow_across_kinds(kube, pod):
    first = kube.create(kube.pods, pod("a", gated=True))
    second = kube.create(kube.maps, {"metadata": {"name": "c"}, "data": {"k": "v"}})

    versions = [int(made["metadata"]["resourceVersion"]) for made in (first, second)]
    assert versions[0] < versions[1]


def test_a_write_that_changes_nothing_makes_no_version(kube, pod):
    made = kube.create(kube.pods, pod("a", gated=True))

    code, same = kube.patch(f"{kube.pods}/a", {"metadata": {"labels": None}}, kind="merge")

    assert code == 200
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
