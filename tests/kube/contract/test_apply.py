"""Server-side apply: owners, conflicts, dropped fields."""

import pytest

HEAD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


def apply(kube, data, *, manager, force=False):
    how = {"fieldManager": manager, "force": str(force).lower()}
    return kube.patch(f"{kube.maps}/c", {**HEAD, "data": data}, kind="apply", **how)


def data_of(kube):
    return kube.get(f"{kube.maps}/c").get("data")


def test_apply_creates_and_then_changes(kube):
    created, _ = apply(kube, {"a": "1"}, manager="one")
    changed, _ = apply(kube, {"a": "2"}, manager="one")

    assert (created, changed, data_of(kube)) == (201, 200, {"a": "2"})


def test_applying_the_same_twice_changes_nothing(kube):
    _, first = apply(kube, {"a": "1"}, manager="one")
    _, second = apply(kube, {"a": "1"}, manager="one")

    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_field_of_another_manager_is_a_conflict_unless_forced(kube):
    apply(kube, {"a": "1"}, manager="one")

    code, status = apply(kube, {"a": "2"}, manager="two")
    forced, _ = apply(kube, {"a": "2"}, manager="two", force=True)
    again, _ = apply(kube, {"a": "1"}, manager="one")

    assert (code, status["reason"], forced, again) == (409, "Conflict", 200, 409)
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    ]
    assert data_of(kube) == {"a": "2"}


def test_the_same_value_is_shared_and_stays_until_both_drop_it(kube):
    apply(kube, {"a": "1"}, manager="one")
    apply(kube, {"a": "1", "b": "2"}, manager="two")

    apply(kube, {"b": "2"}, manager="two")
    kept = data_of(kube)
    apply(kube, {}, manager="one")

    assert (kept, data_of(kube)) == ({"a": "1", "b": "2"}, {"b": "2"})


def test_a_field_that_was_merely_written_is_owned_too(kube):
    kube.create(kube.maps, {**HEAD, "data": {"a": "1"}}, fieldManager="writer")

    code, _ = apply(kube, {"a": "2"}, manager="one")

    assert code == 409


@pytest.mark.parametrize(("manager", "gates"), [("owner", []), ("other", ["muster.dev/gate"])])
def test_only_the_manager_that_owns_a_gate_can_drop_it(kube, pod, manager, gates):
    manifest = pod(gated=True)
    kube.patch(f"{kube.pods}/a", manifest, kind="apply", fieldManager="owner")
    bare = pod()

    code, after = kube.patch(f"{kube.pods}/a", bare, kind="apply", fieldManager=manager)

    assert code == 200
    assert [gate["name"] for gate in after["spec"].get("schedulingGates", [])] == gates


def test_apply_needs_to_know_its_manager(kube):
    assert kube.patch(f"{kube.maps}/c", HEAD, kind="apply")[0] == 422
