"""Emulation of an optical averager between processes: codes are exchanged, each rank averages its share of them.

    gradients ─▶ largest exponents ─▶ codes ─┬─▶ share 0 of all ranks ─▶ averager ─▶ mean ─┬─▶ gradients
                 (maximum over ranks)        └─▶ share 1 ...   (on rank 1)                 ┘

The averager sees the codes of all servers at once, as the optical network does, and each rank averages 1/ranks of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist

from lightloom.core.arrays import Bytes, Codes, Float32s
from lightloom.core.errors import InputError
from lightloom.photonics.averaging.averagers import Averager, average_into
from lightloom.photonics.block_quantisation import UNFIT, CodeBuffers
from lightloom.training.hooks.statistics import OpticalCounts
from lightloom.training.transport.gloo_setup import connect_all


@dataclass(frozen=True, slots=True, eq=False)
class BucketBuffers:
    """Memory for one bucket."""

    quantise: CodeBuffers
    """Blocks of the bucket."""
    outgoing: Codes
    """Codes to send, shape (ranks, share)."""
    incoming: Codes
    """Codes received, shape (ranks, share)."""

    @classmethod
    def of(cls, sizes: Sequence[int], ranks: int, bits: int, block: int) -> BucketBuffers:
        """Allocate memory for consecutive parameters of these sizes."""
        quantise = CodeBuffers.of(sizes, bits, block)
        share = -(-sum(sizes) // ranks)
        shape, dtype = (ranks, share), quantise.code_type
        return cls(quantise, np.zeros(shape, dtype), np.zeros(shape, dtype))


class CodeGroup(Protocol):
    """The collectives that averaging codes needs."""

    def largest(self, values: Bytes) -> Bytes:
        """Maximum over ranks of each value."""

    def transpose(self, rows: Codes, incoming: Codes) -> None:
        """Send row k of ``rows`` to rank k; both arrays have shape (ranks, n)."""

    def gather(self, rows: Codes) -> None:
        """Send row k of rank k to all ranks, in place."""


class ExchangeGroup:
    """A gloo group of its own among the ranks of a process group, which DDP and the training loop use meanwhile, in an
    order that may differ between ranks. All ranks must create it, equally often.
    """

    def __init__(self, group: dist.ProcessGroup, timeout: float) -> None:
        store, self.rank, self.ranks = group.get_group_store(), group.rank(), group.size()
        number = store.add(f"lightloom/optical/{self.rank}", 1)
        patience = timedelta(seconds=timeout)
        self._gloo: Any = connect_all(
            lambda own: dist.ProcessGroupGloo(own, self.rank, self.ranks, patience),
            store,
            self.rank,
            self.ranks,
            name=f"optical/group/{number}",
            timeout=timeout,
        )

    def largest(self, values: Bytes) -> Bytes:
        """Maximum over ranks of each value, in a single step, where a ring takes as many steps as ranks."""
        rows = np.empty((self.ranks, values.size), np.uint8)
        rows[self.rank] = values
        self.gather(rows)
        return np.asarray(rows.max(axis=0))

    def transpose(self, rows: Codes, incoming: Codes) -> None:
        """Send row k of ``rows`` to rank k; both arrays have shape (ranks, n)."""
        self._gloo.alltoall_base(_bytes(incoming).view(-1), _bytes(rows).view(-1), [], []).wait()

    def gather(self, rows: Codes) -> None:
        """Send row k of rank k to all ranks, in place; gloo's own all-gather would copy everything once more."""
        pieces = _bytes(rows)
        others = [(self.rank + k) % self.ranks for k in range(1, self.ranks)]
        pending = [self._gloo.recv([pieces[k]], k, 0) for k in reversed(others)]
        pending += [self._gloo.send([pieces[self.rank]], k, 0) for k in others]
        for work in pending:
            work.wait()


class OpticalExchange:
    """Averages flat float32 gradients over ranks, as servers around one averager do."""

    def __init__(self, averager: Averager, group: CodeGroup | None, rank: int, ranks: int) -> None:
        """Average over ``group``, which is None for a single rank."""
        self.averager, self.group, self.rank, self.ranks = averager, group, rank, ranks

    def average(self, values: Float32s, buffers: BucketBuffers) -> OpticalCounts:
        """Replace ``values`` by their mean over ranks; the same bits on all ranks.

        Raises:
            InputError: a rank has NaN, an infinity, or a size of 2^127 or more; raised on all ranks.
        """
        scales = buffers.quantise.scales(values)
        if self.group is not None:
            scales = self.group.largest(scales)
        if scales.size and scales.max() == UNFIT:
            at = int(buffers.quantise.edges[int(scales.argmax())])
            raise InputError(
                f"the gradients of a rank hold NaN, Inf or a size of 2^127 or more, in the block from value {at} of a "
                "bucket: expected finite values"
            )
        codes = buffers.outgoing.reshape(-1)[: values.size]
        buffers.quantise.encode(values, scales, codes)
        self._exchange(buffers)
        buffers.quantise.decode(codes, scales, values)
        return self._counts(values.size, buffers)

    def _exchange(self, buffers: BucketBuffers) -> None:
        """Replace the outgoing codes by mean codes."""
        if self.group is None:
            average_into(self.averager, buffers.outgoing, buffers.outgoing[0])
            return
        self.group.transpose(buffers.outgoing, buffers.incoming)
        average_into(self.averager, buffers.incoming, buffers.outgoing[self.rank])
        self.group.gather(buffers.outgoing)

    def _counts(self, size: int, buffers: BucketBuffers) -> OpticalCounts:
        nbytes_codes = -(-size * buffers.quantise.bits // 8)
        others = self.ranks - 1
        return OpticalCounts(
            nbytes_up=nbytes_codes,
            nbytes_down=nbytes_codes,
            nbytes_exponents=buffers.quantise.blocks,
            nbytes_sent=others * (2 * buffers.outgoing[0].nbytes + buffers.quantise.blocks),
            nbytes_raw=round(2 * others / self.ranks * 4 * size),
            buckets=1,
        )


def _bytes(codes: Codes) -> torch.Tensor:
    """The same memory as bytes, as gloo has no unsigned integers of more than one byte."""
    return torch.from_numpy(codes.view(np.uint8))
