"""Whole numbers in read-only arrays: what a snapshot is made of.

Sums of integers do not depend on their order, and a write to a read-only array raises at the line
that is wrong. Shapes are checked once, where an array enters.
"""

from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

NEVER: Final = 2**62
"""An instant later than every other: the end of a job without a walltime."""

UNLIMITED: Final = 2**50
"""More than any node has of anything: the capacity of a resource that nobody counts."""


def frozen(array: npt.ArrayLike, shape: tuple[int, ...], what: str) -> IntArray:
    """A read-only int64 copy of `array`.

    Raises ValueError for another shape, TypeError for anything that is not whole numbers.
    """
    copy = np.array(array).reshape(shape) if 0 in shape else np.array(array)
    copy = copy.astype(np.int64, casting="unsafe" if copy.size == 0 else "safe")
    if copy.shape != shape:
        raise ValueError(f"{what} is {copy.shape}, expected {shape}")
    copy.flags.writeable = False
    return copy


def frozen_flags(array: npt.ArrayLike, shape: tuple[int, ...], what: str) -> BoolArray:
    """A read-only copy of `array` as truth values; raises ValueError for another shape."""
    copy = np.array(array, dtype=np.bool_)
    copy = copy.reshape(shape) if 0 in shape else copy
    if copy.shape != shape:
        raise ValueError(f"{what} is {copy.shape}, expected {shape}")
    copy.flags.writeable = False
    return copy


AnyArray = TypeVar("AnyArray", bound=npt.NDArray[Any])


def read_only(array: AnyArray) -> AnyArray:
    """A view of `array` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
