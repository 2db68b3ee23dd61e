"""Lists of chunks: rows that carry many chunks name a list of them, which other rows may share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Column, Int32s, Ints


@dataclass(frozen=True, slots=True, eq=False)
class ChunkLists:
    """The lists that the column ``chunk`` numbers, in a schedule whose rows carry several chunks each.

        chunks   0 4 8 1 5 9       list 0    4 8
        first    1 0 3             list 1    0 4 8
        count    2 3 3             list 2    1 5 9

    A row carries the chunks of its list one after the other, on all of its lightpath's channels.
    """

    chunks: Int32s
    """Chunks of all lists, which may overlap: [entry]."""
    first: Int32s
    """Entry of each list's first chunk: [list]."""
    count: Int32s
    """Chunks of each list: [list]."""

    @classmethod
    def of_ranges(cls, chunks: Column, first: Column, count: Column) -> tuple[ChunkLists, Int32s]:
        """Lists of the entries from ``first`` [row] on, ``count`` [row] of them; and the number of each row's list."""
        code = first.astype(np.int64) * (int(count.max(initial=0)) + 1) + count
        code, number = np.unique(code, return_inverse=True)
        begins, counts = np.divmod(code, int(count.max(initial=0)) + 1)
        columns = (np.asarray(column, np.int32) for column in (chunks, begins, counts))
        return cls(*columns), number.astype(np.int32)

    def __len__(self) -> int:
        return len(self.first)

    def chunks_of(self, number: Column) -> Ints:
        """The chunks of these lists [row], one list's after the other's: [sum of counts]."""
        count = self.count[number].astype(np.int64)
        end = np.cumsum(count)
        skipped = np.repeat(self.first[number] - end + count, count)
        return self.chunks[skipped + np.arange(len(skipped))].astype(np.int64)
