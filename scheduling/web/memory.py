"""The memory calculator beside the form of a new job."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from scheduling.reports.memory import Memory, memory_of
from topology.catalog.transformers import TRANSFORMERS
from topology.catalog.workload import (
    Checkpointing,
    Inference,
    Optimiser,
    Precision,
    Training,
)
from topology.web.clusters import clusters_of

TRAINING, SERVING = "training", "inference"
BILLION = 10**9
GPUS_PER_NODE = 8  # what a member is proposed to have at most
MOST_DIGITS = 10  # longer texts are no count and no key
MODELS = {own.key: own for own in TRANSFORMERS}
PARTS: Mapping[str, Promise] = {
    "weights": gettext_lazy("weights"),
    "gradients": gettext_lazy("gradients"),
    "master_weights": gettext_lazy("weights in 32 bits"),
    "moments": gettext_lazy("optimiser"),
    "activations": gettext_lazy("activations"),
    "working": gettext_lazy("for a moment only"),
    "kv_cache": gettext_lazy("KV cache"),
    "reserve": gettext_lazy("CUDA and libraries"),
}
CHECKPOINTINGS = {
    Checkpointing.NONE: gettext_lazy("keep all"),
    Checkpointing.SELECTIVE: gettext_lazy("compute attention again, as FlashAttention does"),
    Checkpointing.FULL: gettext_lazy("compute all again"),
}
OPTIMISERS = {
    Optimiser.ADAM: "Adam",
    Optimiser.ADAM_8BIT: gettext_lazy("Adam, 8 bits"),
    Optimiser.MOMENTUM: gettext_lazy("SGD with momentum"),
    Optimiser.SGD: "SGD",
}
CHANGED = ("zero_stage", "checkpointing", "micro_batch", "batch", "tensor_parallel", "gpus")


class MemoryForm(forms.Form):
    """What the calculator asks; ends in one Training or Inference."""

    task = forms.ChoiceField(
        label=gettext_lazy("Task"),
        choices=[(TRAINING, gettext_lazy("training")), (SERVING, gettext_lazy("inference"))],
        initial=TRAINING,
    )
    model = forms.ChoiceField(label=gettext_lazy("Model"), required=False, initial="llama-3.1-8b")
    billions = forms.FloatField(
        label=gettext_lazy("Parameters, in billions"),
        required=False,
        min_value=0.001,
        max_value=100_000,
        help_text=gettext_lazy("Of another model."),
    )
    precision = forms.ChoiceField(
        label=gettext_lazy("Precision"),
        choices=[(own.value, own.value.upper()) for own in Precision],
        initial=Precision.BF16.value,
    )
    gpus = forms.IntegerField(
        label=gettext_lazy("GPUs in all"), min_value=1, max_value=65_536, initial=1
    )
    tensor = forms.IntegerField(
        label=gettext_lazy("Tensor parallel"), min_value=1, max_value=1024, initial=1
    )
    pipeline = forms.IntegerField(
        label=gettext_lazy("Pipeline parallel"), min_value=1, max_value=1024, initial=1
    )
    batch = forms.IntegerField(
        label=gettext_lazy("Sequences at once"),
        min_value=1,
        max_value=65_536,
        initial=1,
        help_text=gettext_lazy("On each GPU: the micro-batch."),
    )
    sequence = forms.IntegerField(
        label=gettext_lazy("Tokens of each"), min_value=1, max_value=10_000_000, initial=4096
    )
    optimiser = forms.ChoiceField(
        label=gettext_lazy("Optimiser"), choices=list(OPTIMISERS.items()), initial="adam"
    )
    zero = forms.TypedChoiceField(
        label=gettext_lazy("ZeRO stage"), choices=[(n, n) for n in range(4)], coerce=int, initial=0
    )
    checkpointing = forms.ChoiceField(
        label=gettext_lazy("Activations"),
        choices=list(CHECKPOINTINGS.items()),
        initial=Checkpointing.SELECTIVE.value,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, prefix="memory", **kwargs)
        named = [(own.key, own.name) for own in TRANSFORMERS]
        self.fields["model"].choices = [*named, ("", _("another"))]

    @property
    def model_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in ("task", "model", "billions", "precision")]

    @property
    def usual_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in ("gpus", "tensor", "pipeline", "batch", "sequence")]

    @property
    def training_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in ("optimiser", "zero", "checkpointing")]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("model") == "" and cleaned.get("billions", 0) is None:
            self.add_error("billions", _("Say how many, or choose a model."))
        if not self.errors:
            self._check(cleaned)
        return cleaned

    def _check(self, cleaned: dict[str, Any]) -> None:
        """What several fields must agree on."""
        gpus, split = cleaned["gpus"], cleaned["tensor"] * cleaned["pipeline"]
        if gpus % split:
            problem = _("It must be a multiple of tensor × pipeline parallel, here %(split)d.")
            self.add_error("gpus", problem % {"split": split})
        if cleaned["task"] == TRAINING and cleaned["precision"] not in ("fp32", "fp16", "bf16"):
            self.add_error("precision", _("Training needs FP32, FP16 or BF16."))

    def to_work(self) -> Training | Inference:
        """The work of a valid form. GPUs beyond tensor × pipeline hold copies of the model."""
        asked = self.cleaned_data
        model = MODELS.get(asked["model"])
        parameters = model.parameters if model else round(asked["billions"] * BILLION)
        shared = {
            "parameters": parameters,
            "precision": Precision(asked["precision"]),
            "tensor_parallel": asked["tensor"],
            "pipeline_parallel": asked["pipeline"],
            "sequence": asked["sequence"],
            "shape": model.shape if model else None,
        }
        if asked["task"] == SERVING:
            return Inference(batch=asked["batch"], **shared)
        return Training(
            optimiser=Optimiser(asked["optimiser"]),
            zero_stage=asked["zero"],
            checkpointing=Checkpointing(asked["checkpointing"]),
            data_parallel=asked["gpus"] // (asked["tensor"] * asked["pipeline"]),
            micro_batch=asked["batch"],
            **shared,
        )


def calculator(request: HttpRequest, job: forms.Form) -> dict[str, Any]:
    """The calculator as asked in the address, and its answer; unasked, it proposes the GPUs of
    `job`'s form.
    """
    if "memory-task" not in request.GET:
        return {"memory_form": MemoryForm(initial={"gpus": _gpus_of(job)}), "memory": None}
    form = MemoryForm(request.GET)
    answer = memory_of(form.to_work(), clusters_of(request)) if form.is_valid() else None
    return {"memory_form": form, "memory": answer and _shown(answer, form)}


def _shown(answer: Memory, form: MemoryForm) -> dict[str, Any]:
    sizes = answer.estimate.parts.items()
    return {
        "answer": answer,
        "parts": [(PARTS[name], -(-size // (1 << 20))) for name, size in sizes if size],
        "unknown": [PARTS[name] for name in answer.estimate.unknown],
        "gpus": form.cleaned_data["gpus"],
        "change": _words(answer, form),
    }


def _words(answer: Memory, form: MemoryForm) -> list[str]:
    """What is different about the run that would fit, in the words of the form."""
    if answer.change is None:
        return []
    labels = {
        "zero_stage": form.fields["zero"].label,
        "micro_batch": form.fields["batch"].label,
        "batch": form.fields["batch"].label,
        "tensor_parallel": form.fields["tensor"].label,
        "checkpointing": form.fields["checkpointing"].label,
        "gpus": form.fields["gpus"].label,
    }
    pairs = [(name, getattr(answer.change, name, None)) for name in CHANGED]
    return [
        f"{labels[name]}: {CHECKPOINTINGS.get(value, value)}"
        for name, value in pairs
        if value != getattr(answer.work, name, None)
    ]


def _gpus_of(job: forms.Form) -> int:
    """Members times GPUs of each as the job's form has them; 1 where they are no numbers."""
    names = ("members", "gpus_per_member")
    return max(1, _product({name: str(job[name].value() or "") for name in names}) or 1)


def taken_over(sent: Mapping[str, str]) -> dict[str, str]:
    """Values for the job's form from the button that chose a device: `flavor:profile:GPUs`.

    Members stay as they are where they make as many GPUs already.
    """
    flavor, _colon, rest = sent.get("use", "").partition(":")
    profile, _colon, count = rest.partition(":")
    gpus = _number(count)
    if _number(flavor) is None or not gpus:
        return {}
    chosen = {"flavor": flavor, "device": profile}
    if _product(sent) == gpus:
        return chosen
    each = 1 if profile else _each(gpus)
    return chosen | {"members": str(gpus // each), "gpus_per_member": str(each)}


def _product(sent: Mapping[str, str]) -> int | None:
    members, each = _number(sent.get("members", "")), _number(sent.get("gpus_per_member", ""))
    return None if members is None or each is None else members * each


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < MOST_DIGITS else None


def _each(gpus: int) -> int:
    """GPUs of one member: all on one node where that may be, else the most that come out even."""
    return next(each for each in range(min(gpus, GPUS_PER_NODE), 0, -1) if gpus % each == 0)
