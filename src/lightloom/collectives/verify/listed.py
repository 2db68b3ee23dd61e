"""What the verifier proves of rows that carry lists of chunks, and which rows carry each chunk.

A row of a list stands for a row of the same lightpath for each of its chunks, so that light is proved as it is, and the
replay of a chunk takes every row whose list has it. Chunks are replayed some at a time, which bounds memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Int32s, Ints
from lightloom.core.effort import Effort
from lightloom.core.errors import VerificationError

_AT_ONCE: Effort = 1 << 25
"""Chunks of rows that are replayed at once, but for those of one chunk."""


def check_lists(schedule: Schedule) -> None:
    """Prove that the lists of chunks name what exists, in a schedule that can have them.

    Raises:
        VerificationError: the first violation found.
    """
    lists = schedule.lists
    if lists is None:
        return
    if schedule.queued or schedule.folding is not None or schedule.pipeline is not None or schedule.collective.sizes:
        raise VerificationError(
            "only steps of all ranks and pieces, of chunks of one size, carry lists of chunks: unfold the schedule"
        )
    if lists.first.shape != lists.count.shape or lists.chunks.ndim != 1 or lists.first.ndim != 1:
        raise VerificationError(f"lists begin at {lists.first.shape} places with {lists.count.shape} counts of chunks")
    wild = (lists.count < 1) | (lists.first < 0) | (lists.first > len(lists.chunks) - lists.count.astype(np.int64))
    if wild.any():
        at = int(np.argmax(wild))
        raise VerificationError(
            f"list {at} has {lists.count[at]} chunks from entry {lists.first[at]} on: expected 1 or more of "
            f"{len(lists.chunks)} entries"
        )
    outside = (lists.chunks < 0) | (lists.chunks >= schedule.chunks)
    if outside.any():
        at = int(np.argmax(outside))
        raise VerificationError(f"entry {at} of the lists: chunk {lists.chunks[at]} is not in 0..{schedule.chunks - 1}")


class ChunkRows(NamedTuple):
    """The rows that carry some chunks."""

    first_chunk: int
    rows: Int32s
    """By chunk, and of each chunk in the order in which they were given."""
    begins: Ints
    """Place of each chunk's first row in ``rows``: [chunk + 1]."""


def rows_by_chunk(schedule: Schedule, rows: Ints, chunks: int) -> Iterator[ChunkRows]:
    """Rows of chunks 0 to ``chunks`` − 1, all of them at once or, of lists, some at a time."""
    from lightloom.collectives.verify import _replay_kernels as kernels

    lists = schedule.lists
    if lists is None:
        yield ChunkRows(0, *kernels.by_chunk(schedule.chunk, rows, chunks))
        return
    listed = kernels.Lists(lists.chunks, lists.first, lists.count)
    ends = np.cumsum(kernels.count_listed(schedule.chunk, listed, chunks))
    first = 0
    while first < chunks:
        before = ends[first - 1] if first else 0
        stop = max(int(np.searchsorted(ends, before + _AT_ONCE, side="right")), first + 1)
        begins = np.concatenate([[0], ends[first:stop] - before])
        yield ChunkRows(first, kernels.by_listed_chunk(schedule.chunk, rows, listed, first, begins), begins)
        first = stop
