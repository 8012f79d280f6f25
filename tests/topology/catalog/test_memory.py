"""What training and inference hold, against examples that others have published."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.catalog.boards import boards
from topology.catalog.fitting import (
    cheapest_inference_change,
    cheapest_training_change,
    homes,
    homes_for,
)
from topology.catalog.memory import MIB, inference_memory, training_memory
from topology.catalog.workload import (
    Checkpointing,
    Inference,
    Offload,
    Optimiser,
    Precision,
    Shape,
    Training,
)

GB = 10**9
SEVEN_BILLION = Training(parameters=7 * GB, precision=Precision.FP16)
GPT3 = Shape(layers=96, hidden=12_288, heads=96)
MT_NLG = Shape(layers=105, hidden=20_480, heads=128)
LLAMA_7B = Shape(layers=32, hidden=4_096, heads=32, vocabulary=32_000)
LLAMA_70B = Shape(layers=80, hidden=8_192, heads=64, kv_heads=8)


def about(gb):
    return pytest.approx(gb * GB, rel=0.01)


def test_seven_billion_parameters_in_mixed_precision():
    parts = training_memory(SEVEN_BILLION).parts

    assert {
        name: parts[name] for name in ("weights", "gradients", "master_weights", "moments")
    } == {
        "weights": about(14),
        "gradients": about(14),
        "master_weights": about(28),
        "moments": about(56),
    }


def test_master_weights_are_counted_where_they_are_kept():
    without = replace(SEVEN_BILLION, master_weights=False)

    assert training_memory(without).states == about(84)


@pytest.mark.parametrize(("stage", "gb"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.88)])
def test_zero_divides_the_states_as_its_paper_says(stage, gb):
    run = Training(parameters=7_500_000_000, data_parallel=64, zero_stage=stage)

    assert training_memory(run).states == about(gb)


@pytest.mark.parametrize(
    ("optimiser", "gb"),
    [
        (Optimiser.ADAM, 56),
        (Optimiser.ADAM_8BIT, 14),
        (Optimiser.MOMENTUM, 28),
        (Optimiser.SGD, 0),
    ],
)
def test_optimisers_hold_different_moments(optimiser, gb):
    run = replace(SEVEN_BILLION, optimiser=optimiser)

    assert training_memory(run).parts["moments"] == about(gb)


def test_full_precision_needs_no_master_weights():
    run = replace(SEVEN_BILLION, precision=Precision.FP32)

    assert training_memory(run).parts["master_weights"] == 0
    assert training_memory(run).states == about(7 * 16)


def test_tensor_and_pipeline_parallelism_divide_everything():
    run = replace(SEVEN_BILLION, tensor_parallel=4, pipeline_parallel=2)

    assert training_memory(run).states == about(112 / 8)


def test_offload_of_the_optimiser_leaves_the_weights():
    run = replace(SEVEN_BILLION, zero_stage=2, offload=Offload.OPTIMISER)
    estimate = training_memory(run)

    assert (estimate.states, estimate.host_bytes) == (about(14), about(98))


def test_offload_of_the_parameters_leaves_one_operator():
    run = replace(
        SEVEN_BILLION, zero_stage=3, offload=Offload.PARAMETERS, sequence=1, shape=LLAMA_7B
    )
    estimate = training_memory(run)

    assert (estimate.states, estimate.host_bytes) == (0, about(112))
    assert estimate.parts["working"] == 16 * 4_096**2


@pytest.mark.parametrize(("shape", "saved"), [(GPT3, 0.70), (MT_NLG, 0.65)])
def test_computing_attention_again_saves_what_its_paper_says(shape, saved):
    run = Training(
        parameters=175 * GB,
        pipeline_parallel=2,
        tensor_parallel=8,
        sequence_parallel=True,
        sequence=2_048,
        shape=shape,
    )
    selective = replace(run, checkpointing=Checkpointing.SELECTIVE)

    kept = training_memory(selective).parts["activations"]

    assert 1 - kept / training_memory(run).parts["activations"] == pytest.approx(saved, abs=0.005)


def test_activations_are_those_of_the_papers_formula():
    """Per layer s x b x h x (10 + 24/t + 5as/(ht)) bytes, or (34 + 5as/h)/t with the sequence
    divided too.
    """
    run = Training(
        parameters=175 * GB,
        pipeline_parallel=8,
        tensor_parallel=8,
        micro_batch=2,
        sequence=2_048,
        shape=GPT3,
    )
    values = 2_048 * 2 * 12_288

    assert training_memory(run).parts["activations"] == 96 * values * (10 + 3 + 10)
    divided = training_memory(replace(run, sequence_parallel=True))
    assert divided.parts["activations"] == 96 * values * (34 + 80) // 8
    full = training_memory(replace(run, checkpointing=Checkpointing.FULL))
    assert full.parts["activations"] == 96 * values * 2


def test_the_kv_cache_of_a_token_is_what_its_paper_says():
    opt = Shape(layers=40, hidden=5_120, heads=40)
    model = Inference(parameters=13 * GB, sequence=1, shape=opt)

    assert inference_memory(model).parts["kv_cache"] == 800 * 1024


def test_fewer_kv_heads_need_less_cache_and_are_divided_no_further_than_one():
    model = Inference(
        parameters=70 * GB, sequence=4_096, batch=16, tensor_parallel=8, shape=LLAMA_70B
    )
    parts = inference_memory(model).parts

    assert parts["weights"] == about(140 / 8)
    assert parts["kv_cache"] == 2 * 80 * 1 * 128 * 4_096 * 16 * 2
    more = replace(model, tensor_parallel=16)
    assert inference_memory(more).parts["kv_cache"] == parts["kv_cache"]


@pytest.mark.parametrize(
    ("precision", "gb"),
    [(Precision.FP32, 28), (Precision.BF16, 14), (Precision.FP8, 7), (Precision.INT4, 3.5)],
)
def test_weights_are_served_in_their_precision(precision, gb):
    model = Inference(parameters=7 * GB, precision=precision)

    assert inference_memory(model).parts["weights"] == about(gb)


def test_what_needs_the_models_shape_is_unknown_without_it():
    assert training_memory(SEVEN_BILLION).unknown == ("activations",)
    assert inference_memory(Inference(parameters=GB)).unknown == ("kv_cache",)


def test_mib_are_rounded_up():
    assert training_memory(Training(parameters=1), reserve=0).mib == 1
    assert training_memory(Training(parameters=MIB), reserve=0).mib == 16


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"zero_stage": 4}, "no ZeRO stage 4"),
        ({"parameters": 0}, "parameters must be at least 1"),
        ({"precision": Precision.INT4}, "int4 cannot be trained"),
        ({"offload": Offload.OPTIMISER, "zero_stage": 1}, "needs ZeRO stage 2 or 3"),
        ({"offload": Offload.PARAMETERS, "zero_stage": 2}, "needs ZeRO stage 3"),
    ],
)
def test_a_run_that_cannot_be_is_refused(change, why):
    with pytest.raises(ValueError, match=why):
        replace(SEVEN_BILLION, **change)


def test_a_shape_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="no multiple of 12 heads"):
        Shape(layers=1, hidden=100, heads=12)


def names_for(gb):
    return [home.name for home in homes_for(gb * GB // MIB)]


def test_what_fits_on_which_board_or_slice():
    """14 GB of weights: too much for a fifth of 80 GB, and just right for half of 40 GB."""
    fitting = names_for(14)

    assert "A100-40GB 3g.20gb" in fitting
    assert "A30-24GB" in fitting
    assert "A100-80GB 1g.10gb" not in fitting
    assert "A100-40GB 2g.10gb" not in fitting
    assert "A100-40GB" not in names_for(56)
    assert "A100-80GB" in names_for(56)
    assert "A100-80GB 7g.80gb" in names_for(84)
    assert names_for(85)[0] == "H100-80GB 7g.80gb"


def test_memory_of_instances_is_less_than_their_part_of_the_board():
    for home in homes():
        assert 0 < home.memory_mib <= home.model.memory_mib


def test_memory_that_nobody_has_published_is_worked_out_on_the_low_side():
    """No published one has less than nine tenths of its part, which is what the others get."""
    parts = {
        home: home.model.memory_mib * profile.width / board.placement_units
        for home in homes()
        if home.profile
        for board in [boards()[home.model.key]]
        for profile in [board.profiles[home.profile]]
    }

    assert all(home.memory_mib >= 0.9 * part for home, part in parts.items() if home.is_measured)
    assert all(
        home.memory_mib == int(0.9 * part) for home, part in parts.items() if not home.is_measured
    )


def test_the_smallest_comes_first():
    sizes = [home.memory_mib for home in homes_for(0)]

    assert sizes == sorted(sizes)
    assert homes_for(10**9) == ()


def test_seven_billion_parameters_on_eight_gpus_need_a_zero_stage_and_no_more():
    run = replace(SEVEN_BILLION, data_parallel=8)

    change = cheapest_training_change(run, 40_960)

    assert change.run == replace(run, zero_stage=1)


def test_a_large_model_is_spread_over_more_gpus():
    change = cheapest_training_change(Training(parameters=70 * GB), 81_920)

    assert change.run.gpus > 1
    assert change.estimate.mib <= 81_920


def test_offload_is_proposed_where_the_host_has_room():
    run = replace(SEVEN_BILLION, zero_stage=2)

    change = cheapest_training_change(run, 24_576, host_mib=100_000)

    assert change.run == replace(run, offload=Offload.OPTIMISER)
    assert change.run.gpus < cheapest_training_change(run, 24_576).run.gpus


def test_what_no_change_makes_fit_has_none():
    assert cheapest_training_change(Training(parameters=10**15), 40_960) is None
    assert cheapest_inference_change(Inference(parameters=10**15), 40_960) is None


def test_a_served_model_that_fits_nowhere_is_divided():
    model = Inference(parameters=70 * GB, sequence=4_096, batch=8, shape=LLAMA_70B)

    change = cheapest_inference_change(model, 81_559)

    assert (change.model.tensor_parallel, change.model.batch) == (2, 8)


SHAPES = st.sampled_from([GPT3, LLAMA_7B, LLAMA_70B])
RUNS = st.builds(
    Training,
    parameters=st.integers(1, 10**12),
    precision=st.sampled_from([Precision.FP16, Precision.BF16, Precision.FP32]),
    optimiser=st.sampled_from(Optimiser),
    data_parallel=st.sampled_from([1, 2, 8, 64]),
    tensor_parallel=st.sampled_from([1, 2, 4]),
    pipeline_parallel=st.sampled_from([1, 4]),
    sequence_parallel=st.booleans(),
    micro_batch=st.integers(1, 16),
    sequence=st.sampled_from([0, 512, 4_096]),
    shape=SHAPES,
)


@given(RUNS)
def test_each_zero_stage_divides_more_of_the_states(run):
    states = [training_memory(replace(run, zero_stage=stage)).states for stage in range(4)]

    assert states == sorted(states, reverse=True)


@given(RUNS)
def test_more_of_anything_that_divides_never_takes_more(run):
    for name in ("data_parallel", "tensor_parallel", "pipeline_parallel"):
        more = replace(run, zero_stage=3, **{name: getattr(run, name) * 2})
        assert training_memory(more).total <= training_memory(replace(run, zero_stage=3)).total


@given(RUNS)
def test_checkpointing_keeps_fewer_activations(run):
    kept = [
        training_memory(replace(run, checkpointing=own)).parts.get("activations", 0)
        for own in Checkpointing
    ]

    assert kept == sorted(kept, reverse=True)


@given(RUNS, st.integers(2_000, 200_000))
def test_a_proposed_change_fits_and_one_that_fits_already_is_left_alone(run, memory_mib):
    change = cheapest_training_change(run, memory_mib)
    own = training_memory(run)

    if own.mib <= memory_mib:
        assert change.run == run
    elif change is not None:
        assert training_memory(change.run).mib <= memory_mib
        assert (change.run.parameters, change.run.precision) == (run.parameters, run.precision)
