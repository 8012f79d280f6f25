"""Configurations of mig-parted: each file is taken or refused as its case says."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.catalog.gpus import MODELS, find_model
from topology.catalog.mig import MigInstance, find_layout, profiles
from topology.layouts.faults import Fault, RefusedError
from topology.layouts.mig_parted import MigConfig, MigEntry, read_mig_configs, write_mig_configs
from topology.layouts.node import (
    MigStrategy,
    after,
    apply_config,
    resources,
    strategy_problems,
)

DATA = Path(__file__).parents[2] / "data" / "gpu"
A100_40, A100_80, A30, L40S = map(find_model, ("A100-40GB", "A100-80GB", "A30", "L40S"))
MIXED_NODE = (A100_80, A30, L40S)


def read(name):
    return {config.name: config for config in read_mig_configs((DATA / f"{name}.yaml").read_text())}


def standing(*words):
    """A GPU's layout from words such as 3g.20gb@4."""
    parts = [word.split("@") for word in words]
    return tuple(MigInstance(int(start), profile) for profile, start in parts)


def sevenths(profile):
    return standing(*[f"{profile}@{start}" for start in range(7)])


ACCEPTED = {
    "off": dict.fromkeys(range(4)),
    "inf-seven": dict.fromkeys(range(4), sevenths("1g.5gb")),
    "train-and-serve": {
        0: standing("4g.20gb@0", "3g.20gb@4"),
        1: standing("4g.20gb@0", "3g.20gb@4"),
        2: None,
        3: None,
    },
    "three-wide": {0: standing("2g.10gb@0", "2g.10gb@2", "3g.20gb@4")},
    "four-small-one-wide": {
        1: standing("1g.5gb@0", "1g.5gb@1", "1g.5gb@2", "1g.5gb@3", "3g.20gb@4")
    },
    "tail": {2: standing("2g.10gb@0", "2g.10gb@2", "2g.10gb@4", "1g.5gb@6")},
}
REFUSED = {
    "two-fours": "GPU 0: A100-40GB holds at most 1 of 4g.20gb, not 2",
    "seven-of-seven-but-full": "GPU 0: A100-40GB has 8 memory slices, not 9",
    "double-memory": "GPU 1: A100-40GB has 8 memory slices, not 11",
    "two-media": "GPU 1: A100-40GB holds at most 1 of 1g.5gb+me, not 2",
    "wrong-board": "GPU 3: A100-40GB has no profile 3g.40gb",
}


def test_every_layout_of_the_file_is_judged():
    assert list(read("mig-layouts-a100-40")) == [*ACCEPTED, *REFUSED]


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_layout_that_the_board_holds_is_placed(name):
    change = apply_config(read("mig-layouts-a100-40")[name], [A100_40] * 4)

    assert (change.problems, change.layouts) == ((), ACCEPTED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_a_layout_that_it_cannot_hold_changes_nothing_and_says_why(name):
    change = apply_config(read("mig-layouts-a100-40")[name], [A100_40] * 4)

    assert change.layouts == {}
    assert [str(problem) for problem in change.problems] == [
        f"mig-configs.{name}[0]: {REFUSED[name]}"
    ]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("last-gpu-only", "[0].devices: 7 is neither `all` nor a list of GPU numbers"),
        ("twice-the-same-gpu", ": GPU 1 is claimed twice"),
        ("out-of-range", "[0]: there is no GPU 8; the node has 0 to 7"),
        ("count-as-text", "[0].mig-devices.1g.10gb: seven is no number of instances"),
    ],
)
def test_each_broken_entry_is_refused_for_its_own_reason(name, problem):
    change = apply_config(read("mig-bad-devices-field")[name], [A100_80] * 8)

    assert [str(own) for own in change.problems] == [f"mig-configs.{name}{problem}"]


def test_gpus_that_are_not_listed_keep_what_they_have():
    change = apply_config(read("mig-mixed-node")["a30-quarters"], MIXED_NODE)
    present = (sevenths("1g.10gb"), None, None)

    assert change.layouts == {1: standing("1g.6gb@0", "1g.6gb@1", "1g.6gb@2", "1g.6gb@3")}
    assert after(present, change) == (present[0], change.layouts[1], None)


def test_each_gpu_is_checked_against_its_own_model():
    change = apply_config(read("mig-mixed-node")["everything-sevenths"], MIXED_NODE)

    assert change.layouts == {}
    assert [str(own).partition(": ")[2] for own in change.problems] == [
        "GPU 1: A30-24GB has no profile 1g.10gb",
        "GPU 2: L40S-48GB has no MIG",
    ]


def test_a_filter_chooses_gpus_by_their_device_id():
    change = apply_config(read("mig-mixed-node")["filtered"], MIXED_NODE)

    assert change.layouts == {0: sevenths("1g.10gb"), 1: standing("2g.12gb@0", "2g.12gb@2")}


def test_switching_mig_off_passes_over_gpus_without_it():
    config = MigConfig("off", (MigEntry(None, (), mig_enabled=False, profiles=()),))

    assert apply_config(config, MIXED_NODE).layouts == {0: None, 1: None}


def test_a_filter_that_meets_a_listed_gpu_claims_it_twice():
    by_number = MigEntry((0,), (), mig_enabled=True, profiles=(("7g.80gb", 1),))
    by_model = MigEntry(None, ("0x20b210de",), mig_enabled=False, profiles=())

    change = apply_config(MigConfig("both", (by_number, by_model)), MIXED_NODE)

    assert [own.fault for own in change.problems] == [Fault.CLAIMED_TWICE]


@pytest.mark.parametrize(
    ("layouts", "is_single"),
    [
        ([sevenths("1g.10gb")] * 2, True),
        ([None, None], True),
        ([sevenths("1g.10gb"), None], False),
        ([sevenths("1g.10gb"), ()], False),
        ([standing("4g.40gb@0", "3g.40gb@4")] * 2, False),
    ],
)
def test_the_single_strategy_wants_one_profile_everywhere(layouts, is_single):
    problems = strategy_problems(MigStrategy.SINGLE, layouts)

    assert [own.fault for own in problems] == ([] if is_single else [Fault.SINGLE])
    assert strategy_problems(MigStrategy.MIXED, layouts) == ()


@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        (MigStrategy.NONE, {"nvidia.com/gpu": 3}),
        (MigStrategy.SINGLE, {"nvidia.com/gpu": 4}),
        (
            MigStrategy.MIXED,
            {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb.me": 1, "nvidia.com/mig-2g.12gb": 2},
        ),
    ],
)
def test_what_the_plugin_calls_the_instances(strategy, names):
    layouts = (standing("1g.10gb+me@0"), standing("2g.12gb@0", "2g.12gb@2"), None)

    assert resources(MIXED_NODE, layouts, strategy) == names


NO_FILE = {
    "no mapping": ("- 1", Fault.NO_MAPPING),
    "another version": ("version: v2\nmig-configs: {a: [{}]}", Fault.VERSION),
    "no version": ("mig-configs: {a: [{}]}", Fault.VERSION),
    "another key": ("version: v1\nmig-confgs: {}", Fault.UNKNOWN_KEY),
    "no configurations": ("version: v1\nmig-configs: {}", Fault.NO_MAPPING),
    "no YAML": ("version: [v1", Fault.NOT_YAML),
    "the same name twice": (
        "version: v1\nmig-configs: {a: [{}], a: [{}]}",
        Fault.NOT_YAML,
    ),
    "a ConfigMap without the key": ("kind: ConfigMap\ndata: {x: y}", Fault.MISSING_KEY),
    "a ConfigMap without data": ("kind: ConfigMap", Fault.NO_MAPPING),
}


@pytest.mark.parametrize(("text", "fault"), NO_FILE.values(), ids=NO_FILE)
def test_what_is_no_such_file_is_refused_as_a_whole(text, fault):
    with pytest.raises(RefusedError) as refused:
        read_mig_configs(text)

    assert refused.value.problem.fault == fault


ENTRIES = {
    "no entries": ("[]", "mig-configs.a", Fault.NO_LIST),
    "no mapping": ("[7]", "mig-configs.a[0]", Fault.NO_MAPPING),
    "an unknown key": (
        "[{devices: all, mig-enabled: false, replicas: 2}]",
        "mig-configs.a[0].replicas",
        Fault.UNKNOWN_KEY,
    ),
    "no devices": ("[{mig-enabled: false}]", "mig-configs.a[0]", Fault.MISSING_KEY),
    "devices in words": (
        "[{devices: some, mig-enabled: false}]",
        "mig-configs.a[0].devices",
        Fault.DEVICES,
    ),
    "a device twice": (
        "[{devices: [1, 1], mig-enabled: false}]",
        "mig-configs.a[0].devices",
        Fault.CLAIMED_TWICE,
    ),
    "neither on nor off": (
        "[{devices: all, mig-enabled: maybe}]",
        "mig-configs.a[0].mig-enabled",
        Fault.NO_BOOLEAN,
    ),
    "instances while off": (
        "[{devices: all, mig-enabled: false, mig-devices: {7g.80gb: 1}}]",
        "mig-configs.a[0].mig-devices",
        Fault.DISABLED_WITH_DEVICES,
    ),
    "no instances while on": (
        "[{devices: all, mig-enabled: true}]",
        "mig-configs.a[0]",
        Fault.MISSING_KEY,
    ),
    "a list of instances": (
        "[{devices: all, mig-enabled: true, mig-devices: [7g.80gb]}]",
        "mig-configs.a[0].mig-devices",
        Fault.NO_MAPPING,
    ),
    "fewer than none": (
        "[{devices: all, mig-enabled: true, mig-devices: {7g.80gb: -1}}]",
        "mig-configs.a[0].mig-devices.7g.80gb",
        Fault.NO_COUNT,
    ),
    "yes as a count": (
        "[{devices: all, mig-enabled: true, mig-devices: {7g.80gb: yes}}]",
        "mig-configs.a[0].mig-devices.7g.80gb",
        Fault.NO_COUNT,
    ),
    "a device id as a number": (
        "[{device-filter: 0x20B210DE, devices: all, mig-enabled: false}]",
        "mig-configs.a[0].device-filter",
        Fault.DEVICE_FILTER,
    ),
}


@pytest.mark.parametrize(("entries", "where", "fault"), ENTRIES.values(), ids=ENTRIES)
def test_a_broken_entry_is_named(entries, where, fault):
    (config,) = read_mig_configs(f"version: v1\nmig-configs: {{a: {entries}}}")

    assert [(own.where, own.fault) for own in config.problems] == [(where, fault)]


def test_a_config_map_is_read_too():
    file = write_mig_configs({"on": [MigEntry((0,), (), mig_enabled=True, profiles=())]})
    indented = "".join(f"    {line}\n" for line in file.splitlines())

    configs = read_mig_configs(f"kind: ConfigMap\ndata:\n  config.yaml: |\n{indented}")

    assert configs == read_mig_configs(file)


WITH_MIG = [model for model in MODELS if model.has_mig]
COUNTS = st.dictionaries(
    st.sampled_from(sorted({name for model in WITH_MIG for name in profiles(model)})),
    st.integers(0, 7),
    max_size=4,
).map(lambda counts: tuple(counts.items()))
GPUS = st.none() | st.lists(st.integers(0, 15), unique=True, min_size=1, max_size=4).map(tuple)
FILTERS = st.lists(st.sampled_from(["0x20B210DE", "0x20B710DE:0x153310DE"]), max_size=2).map(tuple)
ENTRY = st.builds(
    MigEntry, GPUS, FILTERS, mig_enabled=st.just(value=True), profiles=COUNTS
) | st.builds(MigEntry, GPUS, FILTERS, mig_enabled=st.just(value=False), profiles=st.just(()))
NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-", min_size=1, max_size=20) | (
    st.sampled_from(["off", "yes", "null", "1", "1.5", "0x10"])
)


@given(st.dictionaries(NAMES, st.lists(ENTRY, min_size=1, max_size=3), min_size=1, max_size=3))
def test_what_is_written_is_read_again(configs):
    read_again = read_mig_configs(write_mig_configs(configs))

    assert {own.name: own.entries for own in read_again} == {
        name: tuple(entries) for name, entries in configs.items()
    }


@given(st.data())
def test_a_layout_that_a_board_holds_comes_out_as_it_was_wanted(data):
    model = data.draw(st.sampled_from(WITH_MIG))
    wanted = data.draw(st.lists(st.sampled_from(sorted(profiles(model))), max_size=4))
    layout = find_layout(model, wanted)
    counts = tuple((name, wanted.count(name)) for name in dict.fromkeys(wanted))
    entry = MigEntry((1,), (), mig_enabled=True, profiles=counts)
    (config,) = read_mig_configs(write_mig_configs({"wanted": [entry]}))

    change = apply_config(config, [L40S, model])

    if layout is None:
        assert (change.layouts, change.problems[0].fault) == ({}, Fault.MISFIT)
    else:
        assert (change.layouts, change.problems) == ({1: layout}, ())


def test_whoever_shows_a_problem_translates_it():
    german = {"GPU {gpu}: {why}": "GPU {gpu}: {why}!", "{model} has no MIG": "{model} hat kein MIG"}
    config = read("mig-mixed-node")["everything-sevenths"]

    problem = apply_config(config, MIXED_NODE).problems[1]

    assert problem.text(german.__getitem__) == (
        "mig-configs.everything-sevenths[0]: GPU 2: L40S-48GB hat kein MIG!"
    )
