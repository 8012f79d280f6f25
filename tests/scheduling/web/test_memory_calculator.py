"""The memory calculator beside the form of a new job."""

import pytest

from scheduling.models import Job
from tests.factories import MigInstanceFactory
from topology.models import Gpu, ResourceFlavor

SERVING_8B = {
    "memory-task": "inference",
    "memory-model": "llama-3.1-8b",
    "memory-precision": "bf16",
    "memory-gpus": "1",
    "memory-tensor": "1",
    "memory-pipeline": "1",
    "memory-batch": "1",
    "memory-sequence": "8192",
    "memory-optimiser": "adam",
    "memory-zero": "0",
    "memory-checkpointing": "selective",
}


@pytest.fixture
def kinds(scene):
    """H100 and A100 with 80 GB, one board of which has a slice of 3g.40gb, and L40S."""
    products = {"H100-SXM": 81_559, "A100-80GB": 81_920, "L40S": 46_068}
    for name, memory in products.items():
        ResourceFlavor.objects.filter(name=name).update(
            gpu_model=f"NVIDIA-{'A100-SXM4-80GB' if name == 'A100-80GB' else name}",
            gpu_memory_mib=memory,
        )
    cut = Gpu.objects.filter(node__flavor__name="A100-80GB").first()
    Gpu.objects.filter(pk=cut.pk).update(mode="mig")
    MigInstanceFactory(gpu=cut, profile="3g.40gb")
    return scene


def asked(client, **changes):
    query = SERVING_8B | {f"memory-{name}": value for name, value in changes.items()}
    return client.get("/jobs/new/", query)


def names_of(answer, *, fitting):
    fits = answer.context["memory"]["answer"].fits
    return [
        (fit.device.flavor.name, fit.device.profile) for fit in fits if fit.is_enough is fitting
    ]


def test_a_served_model_fits_where_its_weights_and_cache_do(as_omar, kinds):
    answer = asked(as_omar)

    estimate = answer.context["memory"]["answer"].estimate
    # 8.03 G weights of 2 bytes; 32 layers × 8 heads × 128 × a key and a value × 8192 tokens × 2
    assert (estimate.parts["weights"], estimate.parts["kv_cache"]) == (16_060_000_000, 1 << 30)
    assert names_of(answer, fitting=True) == [
        ("A100-80GB", "3g.40gb"),
        ("L40S", ""),
        ("H100-SXM", ""),
        ("A100-80GB", ""),
    ]


def test_training_counts_the_optimiser_and_says_what_would_make_it_fit(as_omar, kinds):
    answer = asked(as_omar, task="training", gpus="2", sequence="2048")

    page = answer.content.decode()
    assert names_of(answer, fitting=True) == []
    # Slices cannot talk to each other, so two GPUs that train together are whole ones.
    assert names_of(answer, fitting=False) == [("L40S", ""), ("H100-SXM", ""), ("A100-80GB", "")]
    assert answer.context["memory"]["answer"].estimate.parts["moments"] == 8 * 8_030_000_000
    assert "It would fit on A100-80GB with:" in page
    assert "ZeRO stage: 2" in page


def test_of_a_model_without_a_known_shape_the_cache_is_not_counted(as_omar, kinds):
    answer = asked(as_omar, model="", billions="7")

    assert answer.context["memory"]["answer"].estimate.parts["weights"] == 14_000_000_000
    assert "not counted: only for the models of the list" in answer.content.decode()


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("billions", {"model": ""}),
        ("gpus", {"gpus": "3", "tensor": "2"}),
        ("precision", {"task": "training", "precision": "int4"}),
        ("sequence", {"sequence": "many"}),
        ("model", {"model": "nobody-knows-it"}),
    ],
)
def test_what_makes_no_sense_is_said_beside_its_field(as_omar, kinds, field, changes):
    answer = asked(as_omar, **changes)

    assert answer.status_code == 200
    assert list(answer.context["memory_form"].errors) == [field]
    assert f'id="id_memory-{field}_error"' in answer.content.decode()


def test_asked_by_htmx_only_the_answer_comes(as_omar, kinds):
    answer = as_omar.get("/jobs/new/", SERVING_8B, headers={"HX-Request": "true"})

    page = answer.content.decode()
    assert page.lstrip().startswith('<div id="memory-answer"')
    assert "job-form" in page  # the buttons are of the job's form
    assert "<html" not in page


def test_the_calculator_begins_with_the_gpus_of_the_job(as_omar):
    form = as_omar.get("/jobs/new/?template=pytorch-ddp").context["memory_form"]

    assert form["gpus"].value() == 16


@pytest.mark.parametrize(
    ("use", "counts", "expected"),
    [
        ("{a100}:3g.40gb:1", ("1", "1"), ("3g.40gb", "1", "1")),
        ("{a100}:3g.40gb:4", ("1", "1"), ("3g.40gb", "4", "1")),
        ("{a100}::16", ("4", "4"), ("", "4", "4")),
        ("{a100}::16", ("1", "4"), ("", "2", "8")),
        ("{a100}::12", ("1", "1"), ("", "2", "6")),
        ("{a100}::2", ("two", "1"), ("", "1", "2")),
    ],
)
def test_a_device_is_taken_over_and_what_was_typed_stays(as_omar, kinds, use, counts, expected):
    flavor = ResourceFlavor.objects.get(name="A100-80GB")
    typed = {"name": "half written", "members": counts[0], "gpus_per_member": counts[1]}

    answer = as_omar.post("/jobs/new/", {**typed, "use": use.format(a100=flavor.pk)})

    form = answer.context["form"]
    got = tuple(str(form[name].value()) for name in ("device", "members", "gpus_per_member"))
    assert (answer.status_code, form["name"].value()) == (200, "half written")
    assert (form["flavor"].value(), got) == (str(flavor.pk), expected)
    assert "The form asks for that device now." in answer.content.decode()
    assert not Job.objects.filter(name="half written").exists()


@pytest.mark.parametrize("use", ["", "nonsense", "1:3g.40gb:0", "x::1", "1::" + "9" * 40])
def test_a_button_that_nobody_made_changes_nothing(as_omar, kinds, use):
    answer = as_omar.post("/jobs/new/", {"name": "mine", "members": "1", "use": use})

    assert answer.context["form"]["members"].value() == "1"
    assert not answer.context["form"]["flavor"].value()
