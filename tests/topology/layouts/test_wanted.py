"""Files made from a wanted layout, which give that layout when they are read and applied."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.catalog.gpus import MODELS, find_model
from topology.catalog.mig import MigInstance, find_layout, profiles
from topology.layouts.documents import config_map, read_document, write_document
from topology.layouts.faults import Fault, RefusedError
from topology.layouts.mig_parted import MigEntry, read_mig_configs
from topology.layouts.node import MigStrategy, apply_config
from topology.layouts.operator_values import (
    OperatorChoice,
    operator_values,
    write_operator_values,
)
from topology.layouts.wanted import entries_for, is_label_value, put_mig_config

A100 = find_model("A100-80GB")
HALVES = (MigInstance(0, "3g.40gb"), MigInstance(4, "3g.40gb"))
WITH_MIG = [model for model in MODELS if model.has_mig]


@st.composite
def layouts(draw, model):
    wanted = draw(st.lists(st.sampled_from(sorted(profiles(model))), max_size=4))
    return find_layout(model, wanted) if draw(st.booleans()) else None


@st.composite
def nodes(draw):
    """Models of a node's GPUs, and a wanted layout of each."""
    models = draw(st.lists(st.sampled_from(WITH_MIG), min_size=1, max_size=8))
    return models, [draw(layouts(model)) for model in models]


def bundle(layout):
    return None if layout is None else Counter(own.profile for own in layout)


@given(nodes())
def test_what_is_written_makes_each_gpu_what_was_wanted(node):
    models, wanted = node
    (config,) = read_mig_configs(put_mig_config("", "wanted", entries_for(wanted)))

    change = apply_config(config, models)

    assert change.problems == ()
    assert {gpu: bundle(own) for gpu, own in change.layouts.items()} == {
        gpu: bundle(own) for gpu, own in enumerate(wanted)
    }


def test_equal_gpus_share_an_entry():
    assert entries_for([HALVES, None, HALVES, ()]) == (
        MigEntry((0, 2), (), mig_enabled=True, profiles=(("3g.40gb", 2),)),
        MigEntry((1,), (), mig_enabled=False, profiles=()),
        MigEntry((3,), (), mig_enabled=True, profiles=()),
    )
    assert entries_for([HALVES, HALVES])[0].gpus is None


def test_other_configurations_stay_as_they_are():
    before = put_mig_config("", "theirs", entries_for([None]))

    added = put_mig_config(before, "ours", entries_for([HALVES]))
    replaced = put_mig_config(added, "ours", entries_for([()]))

    assert [own.name for own in read_mig_configs(replaced)] == ["theirs", "ours"]
    assert read_mig_configs(replaced)[0] == read_mig_configs(before)[0]
    assert read_mig_configs(replaced)[1].entries[0].profiles == ()


@pytest.mark.parametrize(
    ("name", "is_good"),
    [
        ("all-1g.5gb.me", True),
        ("a", True),
        ("x" * 63, True),
        ("x" * 64, False),
        ("", False),
        ("1g.5gb+me", False),
        ("-a", False),
        ("a\n", False),
    ],
)
def test_a_configuration_has_a_name_that_a_label_can_have(name, is_good):
    assert is_label_value(name) == is_good
    if not is_good:
        with pytest.raises(RefusedError) as refused:
            put_mig_config("", name, ())
        assert refused.value.problem.fault == Fault.LABEL_VALUE


def test_a_config_map_holds_its_texts_line_by_line():
    file = put_mig_config("", "halves", entries_for([HALVES]))

    written = write_document(config_map("layouts", "gpu-operator", {"config.yaml": file}))

    assert "  config.yaml: |\n    version: v1\n" in written
    assert read_mig_configs(written) == read_mig_configs(file)


def test_operator_values_have_the_charts_keys():
    choice = OperatorChoice(
        driver=False,
        mig_config_map="muster-mig",
        plugin_config_map="muster-plugin",
        plugin_default="exclusive",
        rdma=True,
        host_mofed=True,
    )

    assert operator_values(choice) == {
        "nfd": {"enabled": True},
        "driver": {"enabled": False, "rdma": {"enabled": True, "useHostMofed": True}},
        "toolkit": {"enabled": True},
        "mig": {"strategy": "mixed"},
        "migManager": {
            "enabled": True,
            "config": {"name": "muster-mig", "default": "all-disabled"},
        },
        "devicePlugin": {
            "enabled": True,
            "config": {"name": "muster-plugin", "default": "exclusive"},
        },
        "gfd": {"enabled": True},
        "dcgmExporter": {"enabled": True},
    }
    assert read_document(write_operator_values(choice)) == operator_values(choice)


def test_without_mig_there_is_no_mig_manager():
    values = operator_values(
        OperatorChoice(mig_strategy=MigStrategy.NONE, mig_config_map="muster-mig")
    )

    assert (values["mig"], values["migManager"]) == ({"strategy": "none"}, {"enabled": False})
    assert "rdma" not in values["driver"]
