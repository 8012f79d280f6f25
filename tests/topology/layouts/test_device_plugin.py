"""Configurations of the device plugin: what a node would offer, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.catalog.gpus import find_model
from topology.catalog.mig import MigInstance
from topology.catalog.sharing import SharingMode
from topology.layouts.device_plugin import (
    Offer,
    PluginConfig,
    PluginSharing,
    config_named,
    node_problems,
    offer,
    read_plugin_configs,
    write_plugin_config,
)
from topology.layouts.faults import Fault, RefusedError
from topology.layouts.node import MigStrategy

DATA = Path(__file__).parents[2] / "data" / "gpu"
A100, V100 = find_model("A100-80GB"), find_model("V100-16GB")
SEVENTHS = tuple(MigInstance(start, "1g.10gb") for start in range(7))


def read(name):
    return read_plugin_configs((DATA / f"{name}.yaml").read_text())


def test_misplaced_keys_are_named_with_their_place():
    (config,) = read("timeslicing-misplaced-keys")

    assert [(own.where, own.fault) for own in config.problems] == [
        ("any: flags.renameByDefault", Fault.MISPLACED_KEY),
        ("any: flags.failRequestsGreaterThanOne", Fault.MISPLACED_KEY),
    ]
    assert all("sharing.timeSlicing" in str(own) for own in config.problems)


def test_what_misplaced_keys_would_do_is_told():
    (config,) = read("timeslicing-misplaced-keys")

    assert offer(config, [A100] * 4, [None] * 4) == Offer({"nvidia.com/gpu": 64}, 4)
    assert (config.sharing.rename, config.sharing.refuse_many) == (False, False)


@pytest.mark.parametrize(
    ("name", "models", "layouts", "offered"),
    [
        ("exclusive", [A100] * 2, [None] * 2, {"nvidia.com/gpu": 2}),
        ("notebooks", [A100] * 2, [None] * 2, {"nvidia.com/gpu.shared": 8}),
        ("mig-notebooks", [A100], [SEVENTHS], {"nvidia.com/mig-1g.10gb.shared": 14}),
        (
            "mig-notebooks",
            [A100] * 2,
            [SEVENTHS, None],
            {"nvidia.com/mig-1g.10gb.shared": 14, "nvidia.com/gpu": 1},
        ),
    ],
)
def test_each_node_offers_what_its_configuration_says(name, models, layouts, offered):
    config = config_named(read("timeslicing-per-node"), name)

    assert config.problems == ()
    assert node_problems(config, models, layouts) == ()
    assert offer(config, models, layouts) == Offer(offered, len(models))


def test_a_request_for_two_shares_is_refused_where_the_pool_says_so():
    configs = {own.name: own for own in read("timeslicing-per-node")}

    assert configs["notebooks"].sharing.refuse_many
    assert configs["exclusive"].sharing is None


def test_a_label_that_names_no_configuration_is_refused():
    with pytest.raises(RefusedError) as refused:
        config_named(read("timeslicing-per-node"), "notebook")

    assert str(refused.value) == (
        "there is no configuration notebook; there are exclusive, notebooks, mig-notebooks"
    )


def sharing(text):
    return f"version: v1\nsharing: {text}"


GPU = "resources: [{name: nvidia.com/gpu, replicas: 4"
BROKEN = {
    "no version": ("flags: {}", "version", Fault.VERSION),
    "an unknown key": ("version: v1\nsharign: {}", "sharign", Fault.UNKNOWN_KEY),
    "an unknown key below": (
        "version: v1\nflags: {migStartegy: single}",
        "flags.migStartegy",
        None,
    ),
    "a strategy at the top": (
        "version: v1\nmigStrategy: single",
        "migStrategy",
        Fault.MISPLACED_KEY,
    ),
    "an unknown strategy": (
        "version: v1\nflags: {migStrategy: both}",
        "flags.migStrategy",
        Fault.STRATEGY,
    ),
    "slices and clients": (
        sharing(f"{{timeSlicing: {{{GPU}}}]}}, mps: {{{GPU}}}]}}}}"),
        "sharing",
        Fault.BOTH_SHARINGS,
    ),
    "no resources": (sharing("{timeSlicing: {}}"), "sharing.timeSlicing", Fault.NO_LIST),
    "resources by name": (
        sharing("{timeSlicing: {resources: {nvidia.com/gpu: 4}}}"),
        "sharing.timeSlicing.resources",
        Fault.NO_LIST,
    ),
    "one replica": (
        sharing("{timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}"),
        "sharing.timeSlicing.resources[0].replicas",
        Fault.REPLICAS,
    ),
    "replicas in words": (
        sharing("{timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: four}]}}"),
        "sharing.timeSlicing.resources[0].replicas",
        Fault.REPLICAS,
    ),
    "another maker's resource": (
        sharing("{timeSlicing: {resources: [{name: amd.com/gpu, replicas: 2}]}}"),
        "sharing.timeSlicing.resources[0].name",
        Fault.RESOURCE_NAME,
    ),
    "some devices": (
        sharing(f"{{timeSlicing: {{{GPU}, devices: [0, 1]}}]}}}}"),
        "sharing.timeSlicing.resources[0].devices",
        Fault.DEVICES_IGNORED,
    ),
    "a name of one's own": (
        sharing(f"{{timeSlicing: {{{GPU}, rename: nvidia.com/quarter}}]}}}}"),
        "sharing.timeSlicing.resources[0].rename",
        Fault.RENAME_IGNORED,
    ),
    "the same resource twice": (
        sharing(f"{{timeSlicing: {{{GPU}}}, {{name: nvidia.com/gpu, replicas: 2}}]}}}}"),
        "sharing.timeSlicing.resources[1]",
        Fault.RESOURCE_TWICE,
    ),
    "clients on instances": (
        sharing("{mps: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2}]}}"),
        "sharing.mps.resources[0].name",
        Fault.MPS_ON_MIG,
    ),
    "many clients at once": (
        sharing(f"{{mps: {{failRequestsGreaterThanOne: false, {GPU}}}]}}}}"),
        "sharing.mps.failRequestsGreaterThanOne",
        Fault.MPS_ALWAYS_FAILS_MANY,
    ),
    "neither true nor false": (
        sharing(f"{{timeSlicing: {{renameByDefault: 1, {GPU}}}]}}}}"),
        "sharing.timeSlicing.renameByDefault",
        Fault.NO_BOOLEAN,
    ),
    "no mapping": ("- 1", "", Fault.NO_MAPPING),
}


@pytest.mark.parametrize(("text", "where", "fault"), BROKEN.values(), ids=BROKEN)
def test_what_the_plugin_would_pass_over_is_refused(text, where, fault):
    (config,) = read_plugin_configs(text)
    (problem,) = config.problems

    assert problem.where.startswith(where)
    assert problem.fault == (fault or Fault.UNKNOWN_KEY)


def config_with(mode, replicas, name="nvidia.com/gpu"):
    sharing = PluginSharing(mode, rename=True, refuse_many=True, replicas=((name, replicas),))
    return PluginConfig("shared", MigStrategy.MIXED, sharing)


def test_clients_are_limited_by_the_board():
    problems = node_problems(config_with(SharingMode.MPS, 20), [A100, V100, V100], [None] * 3)

    assert [str(own) for own in problems] == [
        "shared: sharing: V100-16GB can be shared by mps 16 times at most, not 20"
    ]
    assert node_problems(config_with(SharingMode.MPS, 16), [V100], [None]) == ()


def test_what_the_node_has_not_cannot_be_shared():
    config = config_with(SharingMode.TIME_SLICING, 2, "nvidia.com/mig-1g.10gb")

    assert [own.fault for own in node_problems(config, [A100], [None])] == [Fault.NOT_ON_NODE]


RESOURCES = st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"])
SLICES = st.builds(
    PluginSharing,
    st.just(SharingMode.TIME_SLICING),
    rename=st.booleans(),
    refuse_many=st.booleans(),
    replicas=st.dictionaries(RESOURCES, st.integers(2, 64), min_size=1).map(
        lambda found: tuple(found.items())
    ),
)
CLIENTS = st.builds(
    PluginSharing,
    st.just(SharingMode.MPS),
    rename=st.booleans(),
    refuse_many=st.just(value=True),
    replicas=st.integers(2, 48).map(lambda count: (("nvidia.com/gpu", count),)),
)


@given(
    st.builds(PluginConfig, st.just(""), st.sampled_from(MigStrategy), st.none() | SLICES | CLIENTS)
)
def test_what_is_written_is_read_again_and_accepted(config):
    assert read_plugin_configs(write_plugin_config(config)) == (config,)


@given(st.integers(1, 8), st.integers(2, 64), st.booleans())
def test_shares_are_never_taken_for_gpus(gpus, replicas, rename):
    shared = PluginSharing(
        SharingMode.TIME_SLICING,
        rename,
        refuse_many=False,
        replicas=(("nvidia.com/gpu", replicas),),
    )

    offered = offer(PluginConfig("", MigStrategy.NONE, shared), [A100] * gpus, [None] * gpus)

    assert (sum(offered.resources.values()), offered.gpus) == (gpus * replicas, gpus)
