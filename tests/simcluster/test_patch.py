import pytest

from simcluster.errors import ApiError
from simcluster.patch import json_patch, merge, strategic


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"a": None}, {"b": {"c": 1}}, id="null takes away"),
        pytest.param({"b": {"d": 2}}, {"a": [1], "b": {"c": 1, "d": 2}}, id="objects are merged"),
        pytest.param({"a": []}, {"a": [], "b": {"c": 1}}, id="lists are replaced"),
    ],
)
def test_merge_patch(patch, expected):
    assert merge({"a": [1], "b": {"c": 1}}, patch) == expected


GATES = {"schedulingGates": [{"name": "x/a"}, {"name": "x/b"}]}


@pytest.mark.parametrize(
    ("patch", "gates"),
    [
        pytest.param([], ["x/a", "x/b"], id="an empty list changes nothing"),
        pytest.param([{"$patch": "delete", "name": "x/a"}], ["x/b"], id="one is deleted"),
        pytest.param([{"$patch": "delete", "name": "x/c"}], ["x/a", "x/b"], id="one is not there"),
        pytest.param([{"name": "x/c"}], ["x/a", "x/b", "x/c"], id="one is added"),
        pytest.param([{"$patch": "replace"}, {"name": "x/c"}], ["x/c"], id="all are replaced"),
    ],
)
def test_strategic_merge_joins_gates_by_name(patch, gates):
    merged = strategic(GATES, {"schedulingGates": patch})

    assert [gate["name"] for gate in merged["schedulingGates"]] == gates


def test_strategic_merge_with_null_takes_the_whole_list():
    assert strategic(GATES, {"schedulingGates": None}) == {}


def test_strategic_merge_replaces_tolerations_whole():
    before = {"tolerations": [{"key": "a"}, {"key": "b"}]}

    assert strategic(before, {"tolerations": [{"key": "c"}]}) == {"tolerations": [{"key": "c"}]}


def test_strategic_merge_reaches_into_a_container_and_its_environment():
    before = {"containers": [{"name": "m", "image": "i", "env": [{"name": "A", "value": "1"}]}]}
    patch = {"containers": [{"name": "m", "env": [{"name": "B", "value": "2"}]}]}

    merged = strategic(before, patch)

    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert merged == {"containers": [{"name": "m", "image": "i", "env": env}]}


def test_strategic_merge_adds_to_and_deletes_from_plain_lists():
    before = {"finalizers": ["a", "b"]}

    assert strategic(before, {"finalizers": ["c"]}) == {"finalizers": ["a", "b", "c"]}
    assert strategic(before, {"$deleteFromPrimitiveList/finalizers": ["a"]}) == {
        "finalizers": ["b"]
    }


def test_json_patch_adds_moves_and_removes():
    operations = [
        {"op": "test", "path": "/a/0", "value": 1},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "replace", "path": "/a/0", "value": 0},
        {"op": "move", "from": "/b~1c", "path": "/d"},
        {"op": "remove", "path": "/a/1"},
    ]

    assert json_patch({"a": [1, 2], "b/c": "x"}, operations) == {"a": [0, 3], "d": "x"}


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/a", "value": 2}, id="a test that fails"),
        pytest.param({"op": "remove", "path": "/b"}, id="a path that is missing"),
        pytest.param({"op": "replace", "path": "/b", "value": 1}, id="nothing to replace"),
        pytest.param({"op": "add", "path": "/b/c", "value": 1}, id="no parent"),
    ],
)
def test_json_patch_refuses_with_a_bare_422(operation):
    with pytest.raises(ApiError) as refusal:
        json_patch({"a": 1}, [operation])

    status = refusal.value.status()
    assert (status["code"], status["reason"], "details" in status) == (422, "Invalid", False)
