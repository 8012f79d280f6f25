"""GPUs in the parts that quota is counted in, as people read them."""

from scheduling.engine.snapshot import PARTS_PER_GPU


def as_gpus(parts: int) -> int | float:
    """So many GPUs: a whole number where it is one, else with three digits after the point."""
    gpus, rest = divmod(parts, PARTS_PER_GPU)
    return round(parts / PARTS_PER_GPU, 3) if rest else gpus


def as_whole_gpus(parts: int) -> int:
    """So many GPUs at least, each counted that any part of is meant."""
    return -(-parts // PARTS_PER_GPU)
