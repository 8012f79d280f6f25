"""Layouts in the browser: the editor, the preview, a rollout and what one may do with it."""

import pytest

from scheduling.reports.layouts import drift_in
from scheduling.services.layouts.moves import move_node, move_rollout
from tests.factories import (
    LayoutVersionFactory,
    MigInstanceFactory,
    NodeChangeFactory,
    RolloutFactory,
)
from tests.scene import NOON
from tests.scheduling.web.operators.test_policy import part
from topology.catalog.gpus import find_model
from topology.catalog.mig import profiles
from topology.models import Layout, LayoutVersion, NodeChange, Rollout
from topology.states import RolloutState, Step

PASTED = """version: v1
mig-configs:
  own:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 2}}
"""
NEW = "/cluster/layouts/new/"
KIND = "A100-80GB:8"


def editor_form(**said):
    """Halves on GPUs 0 to 3, sevenths on GPU 4; the numbers are those of the board's profiles."""
    usual = {
        "cluster": "demo",
        "kind": KIND,
        "name": "Halves",
        "strategy": "mixed",
        "sharing": "",
        "replicas": "1",
        "action": "save",
    }
    return usual | said


def amounts(part_number, **counts):
    """The number fields of one part. counts: by profile, as g3_40gb=2."""
    names = list(profiles(find_model("A100-80GB")))
    wanted = {f"{name[1]}g.{name[3:]}": count for name, count in counts.items()}
    return {f"part-{part_number}-{names.index(own)}": str(n) for own, n in wanted.items()}


@pytest.fixture
def root(as_person):
    return as_person("root")


def halves(root, scene):
    root.post(NEW, editor_form(**{"part-0": "0-3"}, **amounts(0, g3_40gb=2)))
    return LayoutVersion.objects.get()


def test_a_layout_is_made_and_says_what_a_node_becomes(root, scene):
    version = halves(root, scene)

    page = root.get("/cluster/layouts/of/halves/")

    assert version.cuts == [{"3g.40gb": 2}] * 4 + [None] * 4
    assert version.made_by == scene.root
    assert "4 × nvidia.com/gpu" in part(page, "verdict-offers")
    assert "8 × nvidia.com/mig-3g.40gb" in part(page, "verdict-offers")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            {"part-0": "all", **amounts(0, g4_40gb=2)},
            "A100-80GB holds at most 1 of 4g.40gb, not 2",
        ),
        ({"part-0": "9", **amounts(0, g3_40gb=1)}, "There is no GPU 9; the node has 0 to 7."),
        ({"part-0": "half", **amounts(0, g3_40gb=1)}, "Write the numbers of GPUs as 0-3, 5, or"),
        (amounts(0, g3_40gb=1), "Say which GPUs: 0-3, 5 or all."),
        (
            {
                "part-0": "0-3",
                **amounts(0, g3_40gb=1),
                "part-1": "3",
                **amounts(1, g3_40gb=1),
            },
            "GPU 3 stands in two parts.",
        ),
        (
            {"part-0": "0", "strategy": "single", **amounts(0, g3_40gb=1)},
            "use `mixed`",
        ),
        ({"sharing": "mps", "replicas": "49"}, "48 times at most, not 49"),
        ({"sharing": "time_slicing", "replicas": "1"}, "2 or more"),
    ],
)
def test_what_cannot_be_is_not_saved_and_says_why(root, scene, said, why):
    answer = root.post(NEW, editor_form(**said))

    assert why in answer.content.decode().replace("&#x27;", "'")
    assert Layout.objects.count() == 0


def test_a_number_field_takes_no_more_than_still_fits(root, scene):
    page = root.post(NEW, editor_form(action="check", **{"part-0": "0"}, **amounts(0, g4_40gb=1)))

    field = next(f'id="{name}"' for name in amounts(0, g3_40gb=1))
    html = page.content.decode()
    at = html.index(field)
    assert 'max="1"' in html[at : at + 80]


def test_a_pasted_file_fills_the_form_or_is_refused_with_its_reasons(root, scene):
    bad = PASTED.replace("[0]", "7")

    filled = root.post(NEW, editor_form(action="paste", text=PASTED)).content.decode()
    refused = root.post(NEW, editor_form(action="paste", text=bad))

    assert 'value="0" maxlength="80"' in filled
    assert refused.status_code == 422
    assert "7 is neither `all` nor a list of GPU numbers" in refused.content.decode()
    assert Layout.objects.count() == 0


def test_the_next_save_is_the_next_version(root, scene):
    halves(root, scene)

    root.post(
        "/cluster/layouts/of/halves/", editor_form(**{"part-0": "all"}, **amounts(0, g7_80gb=1))
    )

    found = LayoutVersion.objects.order_by("number").values_list("number", "cuts")
    assert list(found)[1] == (2, [{"7g.80gb": 1}] * 8)


PLAN = {
    "cluster": "demo",
    "wave": "2",
    "max_unavailable": "1",
    "drain": "evict",
    "evict_minutes": "0",
    "node_minutes": "15",
}


def test_the_preview_says_which_jobs_end_and_changes_nothing(root, scene):
    halves(root, scene)
    form = {**PLAN, "nodes": ["a100-01", "a100-02"], "action": "preview"}

    page = root.post("/cluster/layouts/of/halves/rollout/", form)

    assert "2 nodes change." in part(page, "preview-says")
    assert "all its GPUs are reset" in page.content.decode()
    assert Rollout.objects.count() == 0


def test_a_rollout_begins_and_is_stopped_and_reverted(root, scene):
    halves(root, scene)
    form = {**PLAN, "nodes": ["a100-01", "a100-02", "a100-03"], "action": "begin"}

    begun = root.post("/cluster/layouts/of/halves/rollout/", form)
    rollout = Rollout.objects.get()
    states = []
    for act in ("pause", "resume", "revert"):
        root.post(f"/cluster/rollouts/{rollout.pk}/act/", {"act": act})
        rollout.refresh_from_db()
        states.append(rollout.state)

    assert begun["Location"] == f"/cluster/rollouts/{rollout.pk}/"
    found = NodeChange.objects.order_by("node__name").values_list("node__name", "wave")
    assert list(found) == [("a100-01", 1), ("a100-02", 1), ("a100-03", 2)]
    assert states == ["paused", "running", "reverting"]
    assert rollout.evict_after_seconds == 0


def test_no_node_is_in_two_rollouts(root, scene):
    halves(root, scene)
    form = {**PLAN, "nodes": ["a100-01"], "action": "begin"}
    root.post("/cluster/layouts/of/halves/rollout/", form)

    again = root.post("/cluster/layouts/of/halves/rollout/", form)

    assert "Another rollout has one of these nodes in hand" in again.content.decode()
    assert Rollout.objects.count() == 1


def test_a_node_that_left_since_the_preview_is_named_and_nothing_begins(root, scene):
    halves(root, scene)
    form = {**PLAN, "nodes": ["a100-01", "a100-02"], "action": "begin"}
    scene.cluster.nodes.filter(name="a100-02").update(gone_at=NOON)

    response = root.post("/cluster/layouts/of/halves/rollout/", form)

    assert response.status_code == 422
    assert "or are of another kind by now: a100-02" in response.content.decode()
    assert Rollout.objects.count() == 0


@pytest.mark.parametrize("field", ["wave", "max_unavailable"])
def test_no_more_nodes_at_a_time_than_a_rollout_has(root, scene, field):
    halves(root, scene)

    response = root.post(
        "/cluster/layouts/of/halves/rollout/",
        {**PLAN, "nodes": ["a100-01"], "action": "begin", field: "99999"},
    )

    assert (response.status_code, list(response.context["form"].errors)) == (422, [field])


def test_a_node_that_failed_is_named_with_what_was_seen(root, scene):
    version = LayoutVersionFactory(layout__cluster=scene.cluster, layout__gpu_model="A100-80GB")
    rollout = RolloutFactory(version=version)
    change = NodeChangeFactory(rollout=rollout, node=scene.nodes[4], step=Step.VERIFY)
    numbers = {"planned": {"nvidia.com/mig-3g.40gb": 16}, "found": {"nvidia.com/gpu": 8}}
    move_node(change, Step.FAILED, at=NOON, mishap="wrong_counts", numbers=numbers)
    move_rollout(rollout, RolloutState.PAUSED, at=NOON)

    page = root.get(f"/cluster/rollouts/{rollout.pk}/")

    assert f"Failed: {scene.nodes[4].name}." in part(page, "rollout-says")
    assert "planned 16 × nvidia.com/mig-3g.40gb, found 8 × nvidia.com/gpu" in page.content.decode()
    assert 'id="resume"' not in page.content.decode()
    assert 'id="revert"' in page.content.decode()


def test_a_node_that_is_no_longer_as_it_was_verified_is_on_the_list(root, scene):
    version = LayoutVersionFactory(
        layout__cluster=scene.cluster, layout__gpu_model="A100-80GB", cuts=[{"3g.40gb": 2}] * 8
    )
    node = scene.nodes[4]
    NodeChangeFactory(rollout__version=version, node=node, step=Step.VERIFIED)
    node.layout_seen = {"offers": {"nvidia.com/mig-3g.40gb": 16}}
    node.save()
    before = drift_in(scene.cluster)
    node.layout_seen = {"offers": {"nvidia.com/gpu": 8}}
    node.save()

    page = root.get("/cluster/layouts/")

    assert before == []
    assert part(page, "layouts-say") == "1 node is not as it was verified."
    again = f"/cluster/layouts/of/{version.layout.slug}/rollout/?node={node.name}"
    assert f'href="{again}"' in page.content.decode()


def test_the_way_from_a_node_that_drifted_proposes_it_and_no_more(root, scene):
    LayoutVersionFactory(
        layout__cluster=scene.cluster,
        layout__slug="halves",
        layout__gpu_model="A100-80GB",
        cuts=[{"3g.40gb": 2}] * 8,
    )
    path = f"/cluster/layouts/of/halves/rollout/?node={scene.nodes[4].name}"

    proposed = [node.name for node, chosen, _taken in root.get(path).context["lines"] if chosen]
    sent = root.post(path, {"cluster": scene.cluster.slug, "nodes": [scene.nodes[5].name]})

    assert proposed == [scene.nodes[4].name]
    chosen = [node.name for node, chosen, _taken in sent.context["lines"] if chosen]
    assert chosen == [scene.nodes[5].name]


@pytest.mark.parametrize(
    "path",
    [
        "/cluster/layouts/",
        NEW,
        "/cluster/layouts/of/halves/",
        "/cluster/layouts/of/halves/rollout/",
        "/cluster/rollouts/1/",
    ],
)
def test_only_operators_come_here(as_person, scene, path):
    assert as_person("omar").get(path).status_code == 403


def test_the_page_of_a_node_draws_its_slices(as_person, scene):
    node = scene.nodes[4]
    for gpu in node.gpus.filter(index__lt=2):
        gpu.mode = "mig"
        gpu.save()
        MigInstanceFactory(gpu=gpu, profile="3g.40gb", start=4)

    page = as_person("omar").get(f"/cluster/nodes/{node.name}/").content.decode()

    assert 'aria-label="3g.40gb"' in page
    assert "GPU 0-1" in page
    assert "GPU 2-7" in page
