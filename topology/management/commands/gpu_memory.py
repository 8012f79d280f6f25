import argparse
from enum import StrEnum
from typing import Any

from django.core.management.base import CommandParser

from topology.catalog.fitting import (
    cheapest_inference_change,
    cheapest_training_change,
    homes_for,
)
from topology.catalog.memory import Estimate, inference_memory, training_memory
from topology.catalog.workload import (
    Checkpointing,
    Inference,
    Offload,
    Optimiser,
    Precision,
    Shape,
    Training,
)
from topology.management.reading import ReadingCommand

TOO_LARGE = 1
_MB = 1_000_000
_FEW = 5


class Command(ReadingCommand):
    help = (
        "Estimate the memory of training or serving a model, part by part, and where it fits. "
        "Needs no database and no service."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("work", choices=["train", "serve"])
        parser.add_argument("parameters", type=_count, help="how many, as 7e9 or 7.5b")
        parser.add_argument("--precision", choices=_words(Precision), default="bf16")
        parser.add_argument("--shape", metavar="LAYERS,HIDDEN,HEADS[,KV_HEADS[,VOCABULARY]]")
        parser.add_argument("--sequence", type=_count, default=0, help="tokens")
        parser.add_argument("--batch", type=_count, default=1, help="sequences at once on a GPU")
        parser.add_argument("--tensor-parallel", type=_count, default=1)
        parser.add_argument("--pipeline-parallel", type=_count, default=1)
        parser.add_argument("--on", metavar="GPU", help="a GPU model that it should fit on")
        training = parser.add_argument_group("training")
        training.add_argument("--data-parallel", type=_count, default=1)
        training.add_argument("--zero", type=int, default=0, help="the ZeRO stage, 0 to 3")
        training.add_argument("--optimiser", choices=_words(Optimiser), default="adam")
        training.add_argument("--offload", choices=_words(Offload), default="none")
        training.add_argument("--checkpointing", choices=_words(Checkpointing), default="none")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            work = _training(options) if options["work"] == "train" else _inference(options)
        except ValueError as error:
            self.refuse(str(error))
        estimate = _estimate(work)
        self._print(estimate)
        if options["on"] is None:
            names = [home.name for home in homes_for(estimate.mib)[:_FEW]]
            self.stdout.write(f"fits {', '.join(names) or 'nowhere'}")
            return
        model = self.model(options["on"])
        if estimate.mib > model.memory_mib:
            self.stdout.write(f"no: {model.key} has {model.memory_mib} MiB")
            self.stdout.write(_advice(work, model.memory_mib))
            raise SystemExit(TOO_LARGE)
        self.stdout.write(f"ok: {model.key} has {model.memory_mib} MiB")

    def _print(self, estimate: Estimate) -> None:
        for name, size in estimate.parts.items():
            self.stdout.write(f"{name} {size / _MB:.0f} MB")
        for name in estimate.unknown:
            self.stdout.write(f"{name} unknown without --shape and --sequence")
        if estimate.host_bytes:
            self.stdout.write(f"on the host {estimate.host_bytes / _MB:.0f} MB")
        self.stdout.write(f"in all {estimate.mib} MiB a GPU")


def _words(kind: type[StrEnum]) -> list[str]:
    return [own.value for own in kind]


def _training(options: dict[str, Any]) -> Training:
    return Training(
        parameters=options["parameters"],
        precision=Precision(options["precision"]),
        optimiser=Optimiser(options["optimiser"]),
        zero_stage=options["zero"],
        offload=Offload(options["offload"]),
        data_parallel=options["data_parallel"],
        tensor_parallel=options["tensor_parallel"],
        pipeline_parallel=options["pipeline_parallel"],
        checkpointing=Checkpointing(options["checkpointing"]),
        micro_batch=options["batch"],
        sequence=options["sequence"],
        shape=_shape(options["shape"]),
    )


def _inference(options: dict[str, Any]) -> Inference:
    return Inference(
        parameters=options["parameters"],
        precision=Precision(options["precision"]),
        tensor_parallel=options["tensor_parallel"],
        pipeline_parallel=options["pipeline_parallel"],
        batch=options["batch"],
        sequence=options["sequence"],
        shape=_shape(options["shape"]),
    )


def _shape(words: str | None) -> Shape | None:
    if words is None:
        return None
    try:
        return Shape(*map(int, words.split(",")))
    except TypeError as error:  # too few numbers, or too many
        raise ValueError(f"--shape {words}: write layers,hidden,heads") from error


def _estimate(work: Training | Inference) -> Estimate:
    return training_memory(work) if isinstance(work, Training) else inference_memory(work)


def _advice(work: Training | Inference, memory_mib: int) -> str:
    """The cheapest change that would fit, in the words of the options."""
    changed: Training | Inference | None = None
    if isinstance(work, Training):
        if training := cheapest_training_change(work, memory_mib):
            changed = training.run
    elif inference := cheapest_inference_change(work, memory_mib):
        changed = inference.model
    if changed is None:
        return "no change that is tried makes it fit"
    words = [
        f"{option} {getattr(changed, name)}"
        for name, option in _OPTIONS.items()
        if getattr(changed, name, None) != getattr(work, name, None)
    ]
    return f"would fit with {' '.join(words)}"


_OPTIONS = {
    "zero_stage": "--zero",
    "offload": "--offload",
    "data_parallel": "--data-parallel",
    "tensor_parallel": "--tensor-parallel",
    "checkpointing": "--checkpointing",
    "micro_batch": "--batch",
    "batch": "--batch",
}


def _count(word: str) -> int:
    """A number, as 4096, 7e9, 7.5b or 350m."""
    units = {"m": 10**6, "b": 10**9}
    unit = units.get(word[-1:].lower(), 1)
    try:
        number = float(word[:-1] if unit > 1 else word) * unit
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{word} is no number") from error
    if not 0 <= number <= 10**15 or number != int(number):
        raise argparse.ArgumentTypeError(f"{word} is no whole number from 0 on")
    return int(number)
