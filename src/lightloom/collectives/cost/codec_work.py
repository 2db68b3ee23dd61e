"""What a codec has to do in each step of a schedule, on the rank that has most to do.

Between hops (``in_line=False``, a codec in software), as ``training.transport`` does it: a rank encodes a chunk
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
    sent: Ints
    """Messages that the busiest rank sends in each step; it encodes no more of them than chunks."""
    received: Ints

    def times(self, nbytes: float, encode: float, decode: float, calls: tuple[float, float] = (0.0, 0.0)) -> CodecTimes:
        """For a collective of ``nbytes`` of values, at rates in bytes of values per second.

        Args:
            nbytes: of all values.
            encode: rate of encoding.
            decode: rate of decoding.
            calls: seconds to encode and to decode a message, whatever its size.
        """
        chunk = nbytes / self.chunks
        encoding, decoding = (work.astype(np.float64) for work in (self.encoded, self.decoded))
        encoded = np.minimum(self.encoded, np.maximum(self.sent, 1)) * calls[0]
        decoded = np.minimum(self.decoded, np.maximum(self.received, 1)) * calls[1]
        return CodecTimes(encoding * (chunk / encode) + encoded, decoding * (chunk / decode) + decoded, self.in_line)


def codec_work(schedule: Schedule, *, in_line: bool) -> CodecWork:
    """Linear in the rows of the schedule, with a flag for every rank and chunk; of a folded one, for every rank and the
    chunks of one period of owners, since turned by a period all ranks do the same.

    The busiest ranks of encoding and decoding may differ; their times are added, an upper estimate where they do.
    """
    from lightloom.collectives.cost import _cost_kernels as kernels

    schedule = schedule.of_single_chunks()
    ranks, chunks = schedule.collective.ranks + 1, schedule.chunks  # in-network schedules number the switch last
    if schedule.folding is not None:
        ranks, share = schedule.folding.period, schedule.chunks // schedule.collective.ranks
        owner = schedule.chunk.astype(np.int64) // share
        schedule, chunks = schedule.moved(owner // ranks, back=True), ranks * share
    ends = schedule.source.astype(np.int64), schedule.destination.astype(np.int64)
    reads, writes = (end * chunks + schedule.chunk for end in ends)
    sender, receiver = (end % ranks for end in ends)
    order, path = rows_by_step(schedule), schedule.lightpath
    rows = kernels.CodedRows(order, schedule.step, path, reads, writes, sender, receiver, schedule.reduces)
    coded_as = np.full((schedule.collective.ranks + 1) * chunks, -1, np.int32)
    count, most = np.zeros((2, ranks), np.int64), np.zeros((2, schedule.steps), np.int64)
    kernels.codec_work(rows, in_line, coded_as, count, most)
    encoded, decoded = most
    sent, received = (_messages(schedule, end) for end in (sender, receiver))
    return CodecWork(encoded, decoded, schedule.chunks, in_line, sent, received)


def _messages(schedule: Schedule, end: Ints) -> Ints:
    """Most lightpaths of a step that have the same rank at one end, sources or destinations: [steps]."""
    ranks, paths = schedule.collective.ranks + 1, int(schedule.lightpath.max()) + 1
    place = schedule.step.astype(np.int64) * ranks + end
    ends = np.unique(place * paths + schedule.lightpath) // paths
    rank_of_step, counts = np.unique(ends, return_counts=True)
    most = np.zeros(schedule.steps, np.int64)
    np.maximum.at(most, rank_of_step // ranks, counts)
    return most
