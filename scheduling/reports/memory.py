"""What a model would take of each GPU, on which devices of the clusters it fits, and what helps."""

from collections.abc import Sequence
from dataclasses import dataclass

from topology.catalog.fitting import cheapest_inference_change, cheapest_training_change
from topology.catalog.memory import Estimate, inference_memory, training_memory
from topology.catalog.workload import Inference, Training
from topology.models import Cluster
from topology.reports.partitions import Device, devices_of


@dataclass(frozen=True, slots=True)
class Fit:
    """A device beside what is needed. left_mib: below 0 where the device is too small."""

    device: Device
    left_mib: int

    @property
    def is_enough(self) -> bool:
        return self.left_mib >= 0

    @property
    def short_mib(self) -> int:
        return -self.left_mib


@dataclass(frozen=True, slots=True)
class Memory:
    """The answer for one piece of work.

    fits: every device, those with room first, the smallest of them first. change: where none has
    room, the cheapest other way to run it on the largest, if there is one; else None.
    """

    work: Training | Inference
    estimate: Estimate
    fits: tuple[Fit, ...]
    change: Training | Inference | None = None

    @property
    def largest(self) -> Device | None:
        return max((fit.device for fit in self.fits), key=lambda own: own.memory_mib, default=None)


def memory_of(work: Training | Inference, clusters: Sequence[Cluster]) -> Memory:
    """How much memory `work` takes, and where in these clusters it fits. Two queries.

    Slices cannot talk to each other: they are left out for what several GPUs do together.
    """
    estimate = training_memory(work) if isinstance(work, Training) else inference_memory(work)
    devices = [own for own in devices_of(clusters) if work.gpus == 1 or not own.profile]
    fits = [Fit(own, own.memory_mib - estimate.mib) for own in devices]
    fits.sort(key=lambda fit: not fit.is_enough)
    needs_change = bool(fits) and not fits[0].is_enough
    most = max((fit.device.memory_mib for fit in fits), default=0)
    return Memory(work, estimate, tuple(fits), _change(work, most) if needs_change else None)


def _change(work: Training | Inference, memory_mib: int) -> Training | Inference | None:
    if isinstance(work, Training):
        training = cheapest_training_change(work, memory_mib)
        return training.run if training else None
    inference = cheapest_inference_change(work, memory_mib)
    return inference.model if inference else None
