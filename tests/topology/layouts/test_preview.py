"""What a change of layout would do to a node."""

from dataclasses import replace

from topology.catalog.gpus import find_model
from topology.catalog.mig import find_layout
from topology.catalog.sharing import SharingMode
from topology.layouts.device_plugin import Offer, PluginConfig, PluginSharing
from topology.layouts.faults import Fault
from topology.layouts.node import MigStrategy
from topology.layouts.preview import NodeSetup, Reset, preview_node, text_diff

A100, H100, PRO = map(find_model, ("A100-40GB", "H100-80GB", "RTX-PRO"))
MIXED = PluginConfig("mixed", MigStrategy.MIXED, None)
SINGLE = PluginConfig("single", MigStrategy.SINGLE, None)


def cut(model, *profiles):
    return find_layout(model, profiles)


def preview(models, before, after, plugin=MIXED):
    return preview_node(models, NodeSetup(before, MIXED), NodeSetup(after, plugin))


def test_turning_mig_on_resets_every_gpu_of_an_ampere_node():
    halves = cut(A100, "3g.20gb", "4g.20gb")

    found = preview([A100] * 4, (None,) * 4, (halves, None, None, None))

    assert (found.changed, found.must_end, found.reset) == ((0,), (0, 1, 2, 3), Reset.NODE)
    assert found.before == Offer({"nvidia.com/gpu": 4}, 4)
    assert found.after == Offer(
        {"nvidia.com/gpu": 3, "nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-4g.20gb": 1}, 4
    )


def test_newer_boards_lose_only_what_changes():
    found = preview([H100] * 2, (None, None), (None, cut(H100, *["1g.10gb"] * 7)))

    assert (found.must_end, found.reset, found.vanishing) == ((1,), Reset.NONE, ())


def test_cutting_a_board_anew_resets_nothing():
    found = preview(
        [A100] * 2,
        (cut(A100, "7g.40gb"), cut(A100, "7g.40gb")),
        (cut(A100, "3g.20gb", "3g.20gb"), cut(A100, "7g.40gb")),
    )

    assert (found.must_end, found.reset) == ((0,), Reset.NONE)


def test_resources_that_nobody_will_find_any_more_are_named():
    found = preview([H100], (None,), (cut(H100, "7g.80gb"),))

    assert found.vanishing == ("nvidia.com/gpu",)


def test_where_nobody_has_said_what_is_reset_everybody_has_to_leave():
    found = preview([PRO] * 2, (None, None), (cut(PRO, "4g.96gb"), None))

    assert (found.must_end, found.reset) == ((0, 1), Reset.UNKNOWN)


def test_nothing_changes_where_nothing_is_to():
    found = preview([A100], (None,), (None,))

    assert (found.changed, found.must_end, found.before) == ((), (), found.after)


def test_sets_that_the_driver_may_not_create_are_named():
    """Six of one memory slice and one of two, which has to stand where the driver looks last."""
    found = preview([H100], (None,), (cut(H100, *["1g.10gb"] * 6, "1g.20gb"),))

    assert found.without_order == (0,)


def test_what_the_plugin_would_refuse_is_told():
    uneven = (cut(A100, "3g.20gb", "4g.20gb"),)

    single = preview([A100], (None,), uneven, SINGLE)
    slices = replace(shared_by(SharingMode.TIME_SLICING), strategy=MigStrategy.MIXED)
    shared = preview([A100], (None,), uneven, slices)

    assert [own.fault for own in single.problems] == [Fault.SINGLE]
    assert [own.fault for own in shared.problems] == [Fault.NOT_ON_NODE]


def shared_by(mode):
    sharing = PluginSharing(mode, rename=True, refuse_many=True, replicas=(("nvidia.com/gpu", 4),))
    return PluginConfig(mode, MigStrategy.NONE, sharing)


def test_only_mps_wants_everybody_off_the_node():
    slices = preview([A100] * 2, (None,) * 2, (None,) * 2, shared_by(SharingMode.TIME_SLICING))
    clients = preview([A100] * 2, (None,) * 2, (None,) * 2, shared_by(SharingMode.MPS))

    assert (slices.must_end, slices.after.resources) == ((), {"nvidia.com/gpu.shared": 8})
    assert (clients.must_end, clients.after.gpus) == ((0, 1), 2)


def test_mps_that_stays_as_it_is_wants_nobody_off():
    shared = NodeSetup((None, None), shared_by(SharingMode.MPS))

    assert preview_node([A100] * 2, shared, shared).must_end == ()


def test_texts_are_compared_line_by_line():
    assert text_diff("a: 1\nb: 2\n", "a: 1\nb: 3\n", "config.yaml") == (
        "--- config.yaml (now)",
        "+++ config.yaml (then)",
        "@@ -1,2 +1,2 @@",
        " a: 1",
        "-b: 2",
        "+b: 3",
    )
    assert text_diff("a: 1", "a: 1", "config.yaml") == ()
