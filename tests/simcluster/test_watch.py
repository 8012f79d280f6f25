"""What of lists and watches is the store's own: see tests/kube/contract for what they promise."""

import json
import urllib.parse
import urllib.request
from contextlib import closing

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
