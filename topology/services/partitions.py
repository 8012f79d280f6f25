"""How boards are cut and shared, as seen: the rows of their MIG instances."""

from collections.abc import Sequence
from datetime import datetime

from topology.models import Gpu, MigInstance

Slices = Sequence[tuple[str, int]]


def observe_slices(gpus: Sequence[tuple[Gpu, Slices]], *, at: datetime) -> bool:
    """Bring the instances of each board to the (profile, start) seen on it; True if any changed.

    An instance that is no longer there is marked gone: placements of the past name it. One that
    comes back is the same: a job may hold it, and it was out of sight only.
    at: wall clock.
    """
    known = MigInstance.objects.filter(gpu__in=[gpu for gpu, _ in gpus])
    in_order = sorted(known, key=lambda own: (own.gone_at is None, own.pk))
    rows = {(own.gpu_id, own.profile, own.start): own for own in in_order}
    seen = {(gpu.pk, profile, start) for gpu, slices in gpus for profile, start in slices}
    lost = [own.pk for key, own in rows.items() if own.gone_at is None and key not in seen]
    back = [own.pk for key, own in rows.items() if own.gone_at is not None and key in seen]
    new = sorted(seen - rows.keys())
    if lost:
        MigInstance.objects.filter(pk__in=lost).update(gone_at=at)
    if back:
        MigInstance.objects.filter(pk__in=back).update(gone_at=None)
    MigInstance.objects.bulk_create(
        MigInstance(gpu_id=gpu, profile=profile, start=start) for gpu, profile, start in new
    )
    return bool(lost or back or new)
