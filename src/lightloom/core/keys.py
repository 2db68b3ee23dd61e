"""Rows of several columns told apart by one number each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.core.arrays import Codes, Ints, Mask

_LARGEST = 1 << 62


def packed(columns: Sequence[Codes | Mask]) -> Ints:
    """Return a key for each row, equal where all columns are, in the order of the first column, then the next: [row].

    Columns hold numbers of 0 and more, [row] each. Keys that would not fit 64 bits are numbered anew on the way.
    """
    key = np.asarray(columns[0], np.int64)
    for column in columns[1:]:
        width = int(column.max(initial=0)) + 1
        if int(key.max(initial=0)) >= _LARGEST // width:
            key = np.unique(key, return_inverse=True)[1]
        key = key * width + column
    return key
