"""What a codec has to do in each step of a schedule, on the rank that has most to do.

Between hops (``in_line=False``, a codec in software), as ``training.ring_exchange`` does it: a rank encodes a chunk
whose sum has changed, passes on the bytes of what it only forwards, decodes what arrives, and adopts its own decoded
chunk before it hands out a finished sum. In line with the link (a codec in the network card) every chunk that leaves is
encoded and every chunk that arrives is decoded, while the link sends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.collectives.cost.order import rows_by_step
from lightloom.collectives.cost.stepped import CodecTimes
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Ints


@dataclass(frozen=True, slots=True)
class CodecWork:
    """Chunks that the busiest rank encodes and decodes in each step, whatever their size; shape [steps]."""

    encoded: Ints
    decoded: Ints
    chunks: int
    in_line: bool

    def times(self, nbytes: float, encode: float, decode: float) -> CodecTimes:
        """For a collective of ``nbytes`` of values, at rates in bytes of values per second."""
        chunk = nbytes / self.chunks
        encoding, decoding = (work.astype(np.float64) for work in (self.encoded, self.decoded))
        return CodecTimes(encoding * (chunk / encode), decoding * (chunk / decode), self.in_line)


def codec_work(schedule: Schedule, *, in_line: bool) -> CodecWork:
    """Linear in the rows of the schedule, with a flag for every rank and chunk.

    The busiest ranks of encoding and decoding may differ; their times are added, an upper estimate where they do.
    """
    from lightloom.collectives.cost import _cost_kernels as kernels

    ranks = schedule.collective.ranks + 1  # in-network schedules number the switch behind the last rank
    coded_as = np.full(ranks * schedule.chunks, -1, np.int32)
    columns = (schedule.step, schedule.lightpath, schedule.source, schedule.destination, schedule.chunk)
    rows = kernels.CodedRows(rows_by_step(schedule), *columns, schedule.reduces)
    count, most = np.zeros((2, ranks), np.int64), np.zeros((2, schedule.steps), np.int64)
    kernels.codec_work(rows, schedule.chunks, in_line, coded_as, count, most)
    encoded, decoded = most
    return CodecWork(encoded, decoded, schedule.chunks, in_line)
