"""Parts of GPUs that are given out by amounts: a number for each, and never more than there is."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count

from scheduling.engine.ledger import WHOLE_MILLI
from scheduling.models import PlacementGpu
from scheduling.services.devices import DeviceGone
from topology.models import Gpu, GpuMode


def take_seats(rows: Sequence[PlacementGpu]) -> None:
    """Number those of the ledger's new rows that are parts of GPUs, before they are written.

    The sum over one GPU is no constraint that the database could keep, so its row is locked until
    the transaction ends. Raises DeviceGone where the parts on a GPU would be more than it has.
    Two queries if there are such rows, else none.
    """
    parts = [row for row in rows if row.milli is not None]
    if not parts:
        return
    wanted = {row.gpu_id for row in parts}
    locked = Gpu.objects.select_for_update().filter(pk__in=wanted).order_by("pk")
    held: dict[int, list[PlacementGpu]] = defaultdict(list)
    gpus = {gpu.pk: gpu for gpu in locked}
    for row in PlacementGpu.objects.filter(gpu__in=wanted, released_at=None):
        held[row.gpu_id].append(row)
    for row in parts:
        taken = {own.share for own in held[row.gpu_id]}
        row.share = next(number for number in count() if number not in taken)
        held[row.gpu_id].append(row)
    for pk, own in held.items():
        if not _fits(gpus[pk], own):
            raise DeviceGone


def _fits(gpu: Gpu, rows: Iterable[PlacementGpu]) -> bool:
    """Whether a GPU has as much as all of `rows` hold together; whoever holds it whole has all."""
    amounts = [(row.milli, row.mib) for row in rows]
    milli = sum(WHOLE_MILLI if own is None else own for own, _ in amounts)
    mib = sum(own or 0 for _, own in amounts)
    return gpu.mode == GpuMode.HAMI and milli <= WHOLE_MILLI and mib <= (gpu.memory_mib or 0)
