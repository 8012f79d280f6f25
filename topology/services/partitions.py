"""How boards are cut and shared, as seen: the rows of their MIG instances."""

from collections.abc import Sequence
from datetime import datetime

from topology.models import Gpu, MigInstance

Slices = Sequence[tuple[str, int]]


def observe_slices(gpus: Sequence[tuple[Gpu, Slices]], *, at: datetime) -> bool:
    """Bring the instances of each board to the (profile, start) seen on it; True if any changed.

    An instance that is no longer there is marked gone: placements of the past name it.
    at: wall clock.
    """
    present = MigInstance.objects.filter(gpu__in=[gpu for gpu, _ in gpus], gone_at=None)
    rows = {(own.gpu_id, own.profile, own.start): own.pk for own in present}
    seen = {(gpu.pk, profile, start) for gpu, slices in gpus for profile, start in slices}
    lost = [rows[key] for key in rows.keys() - seen]
    new = sorted(seen - rows.keys())
    if lost:
        MigInstance.objects.filter(pk__in=lost).update(gone_at=at)
    MigInstance.objects.bulk_create(
        MigInstance(gpu_id=gpu, profile=profile, start=start) for gpu, profile, start in new
    )
    return bool(lost or new)
