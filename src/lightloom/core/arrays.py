"""Array types by dtype and meaning, defined once for every package.

Kernels state their arguments with these, so that a signature says what an array holds. Shapes stand in docstrings.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
"""Counts and indices: ranks, rows, links, chunks, bytes."""
Int32s = NDArray[np.int32]
"""Indices of large tables, where memory matters."""
Floats = NDArray[np.float64]
"""Quantities in SI units: seconds, bytes per second, joules, phases."""
Float32s = NDArray[np.float32]
"""Gradients and parameters as training holds them."""
Mask = NDArray[np.bool_]
"""True where a row, rank or link is selected."""
Bytes = NDArray[np.uint8]
"""Encoded streams and message buffers."""
Bits = NDArray[np.uint32]
"""Bit patterns of float32 values."""
Codes = NDArray[np.integer[Any]]
"""Quantised gradients, of any integer type."""
Column = NDArray[Any]
"""One column of a table, of the dtype that the column states."""


_Array = TypeVar("_Array", bound=NDArray[Any])


def read_only(array: _Array) -> _Array:
    """Return a contiguous view of the array, or of a copy of it where it is not contiguous, that nothing can be written
    through.

    Kernels are compiled for each type of their arguments, and whether an array can be written belongs to its type: what
    comes now from a frozen table and now from a calculation is passed in one form.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view  # type: ignore[return-value]


# Rows of several columns told apart by one number each.

_LARGEST = 1 << 62


def packed(columns: Sequence[Codes | Mask]) -> Ints:
    """Return a whole number for each row of several columns: equal for rows that are equal in all columns, and smaller
    for a row that comes first when rows are sorted by the first column, then the next: [row]. The numbers have no other
    meaning.

    ``columns`` is at least one array of whole numbers of 0 and more, or of booleans, [row] each. Numbers that would not
    fit 64 bits are replaced by their ranks on the way.
    """
    key = np.asarray(columns[0], np.int64)
    for column in columns[1:]:
        width = int(column.max(initial=0)) + 1
        if int(key.max(initial=0)) >= _LARGEST // width:
            key = np.unique(key, return_inverse=True)[1]
        key = key * width + column
    return key


def first_rows(columns: Sequence[Codes | Mask]) -> tuple[Ints, Ints]:
    """Return two arrays of indices from 0: the first row of each distinct combination of the columns' values,
    combinations sorted by the first column, then the next, [combination], and for each row the index of its combination
    there, [row]. ``columns`` are as for :func:`packed`."""
    _, first, own = np.unique(packed(columns), return_index=True, return_inverse=True)
    return first, own


# The type of constants that decide how much is tried, kept or held in memory at once.
#
# Such a constant can be one more or one less without any result being wrong.

Effort = int
"""A number of rows, bytes, rounds or entries."""
