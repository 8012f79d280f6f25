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
    """A read-only int64 copy of `array`, or itself if it is one that nobody can write to.

    Raises ValueError for another shape, TypeError for anything that is not whole numbers.
    """
    if isinstance(array, np.ndarray) and array.dtype == np.int64 and _is_fixed(array, shape):
        return array
    copy = np.array(array).reshape(shape) if 0 in shape else np.array(array)
    copy = copy.astype(np.int64, casting="unsafe" if copy.size == 0 else "safe")
    if copy.shape != shape:
        raise ValueError(f"{what} is {copy.shape}, expected {shape}")
    copy.flags.writeable = False
    return copy


def frozen_flags(array: npt.ArrayLike, shape: tuple[int, ...], what: str) -> BoolArray:
    """As `frozen`, of truth values."""
    if isinstance(array, np.ndarray) and array.dtype == np.bool_ and _is_fixed(array, shape):
        return array
    copy = np.array(array, dtype=np.bool_)
    copy = copy.reshape(shape) if 0 in shape else copy
    if copy.shape != shape:
        raise ValueError(f"{what} is {copy.shape}, expected {shape}")
    copy.flags.writeable = False
    return copy


def _is_fixed(array: npt.NDArray[Any], shape: tuple[int, ...]) -> bool:
    """Whether nobody can write to it: a view may be of something that changes."""
    return array.base is None and not array.flags.writeable and array.shape == shape


AnyArray = TypeVar("AnyArray", bound=npt.NDArray[Any])


def read_only(array: AnyArray) -> AnyArray:
    """A view of `array` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
