"""What stands in for the light between ranks: codes travel, each rank averages its share of them.

    gradients ─▶ largest exponents ─▶ codes ─┬─▶ share 0 of all ranks ─▶ averager ─▶ mean ─┬─▶ gradients
                 (maximum over ranks)        └─▶ share 1 ...   (on rank 1)                 ┘

The averager sees the codes of all servers at once, as the network does, and works on 1/ranks of them in each rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.distributed import PrefixStore  # type: ignore[attr-defined]

from lightloom.core.arrays import Float32s
from lightloom.core.errors import InputError
from lightloom.photonics.averaging.averagers import Averager, average_into
from lightloom.photonics.block_quantisation import UNFIT, CodeBuffers
from lightloom.training.hooks.optical_statistics import OpticalCounts
from lightloom.training.transport.rendezvous import wait_for_all


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Memory for one bucket: its blocks, the codes going out and coming in, (ranks, share) each."""

    quantise: CodeBuffers
    out: NDArray[Any]
    into: NDArray[Any]

    @classmethod
    def of(cls, sizes: Sequence[int], ranks: int, bits: int, block: int) -> Place:
        """For parameters of these sizes, one behind the other."""
        quantise = CodeBuffers.of(sizes, bits, block)
        share = -(-sum(sizes) // ranks)
        shape, kind = (ranks, share), quantise.code_type
        return cls(quantise, np.zeros(shape, kind), np.zeros(shape, kind))


class Links:
    """Connections of their own among the ranks of a group: DDP and the training loop use the group's meanwhile, in an
    order that may differ from rank to rank. Every rank of the group must make them, equally often.
    """

    def __init__(self, group: dist.ProcessGroup, timeout: float) -> None:
        store, self.rank, self.ranks = group.get_group_store(), group.rank(), group.size()
        number = store.add(f"lightloom/optical/{self.rank}", 1)
        own = PrefixStore(f"lightloom/optical/links/{number}", store)
        self._gloo: Any = dist.ProcessGroupGloo(own, self.rank, self.ranks, timedelta(seconds=timeout))
        wait_for_all(own, self.ranks, "connected", timeout)

    def largest(self, values: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The largest over ranks of each value: a single step, where a ring would take as many as it has ranks."""
        rows = np.empty((self.ranks, values.size), np.uint8)
        rows[self.rank] = values
        self.gather(rows)
        largest: NDArray[np.uint8] = rows.max(axis=0)
        return largest

    def transpose(self, rows: NDArray[Any], into: NDArray[Any]) -> None:
        """Row k of every rank goes to rank k; rows (ranks, n)."""
        self._gloo.alltoall_base(_bytes(into).view(-1), _bytes(rows).view(-1), [], []).wait()

    def gather(self, rows: NDArray[Any]) -> None:
        """Row k of rank k goes to all ranks, in place; gloo's own all-gather would copy everything once more."""
        pieces = _bytes(rows)
        others = [(self.rank + k) % self.ranks for k in range(1, self.ranks)]
        waiting = [self._gloo.recv([pieces[k]], k, 0) for k in reversed(others)]
        waiting += [self._gloo.send([pieces[self.rank]], k, 0) for k in others]
        for work in waiting:
            work.wait()


class OpticalExchange:
    """Averages flat float32 gradients over ranks, as servers around one averager do."""

    def __init__(self, averager: Averager, links: Links | None, rank: int, ranks: int) -> None:
        """``links`` is None for a rank alone."""
        self.averager, self.links, self.rank, self.ranks = averager, links, rank, ranks

    def average(self, values: Float32s, place: Place) -> OpticalCounts:
        """Put the mean over ranks into ``values``; the same bits on all ranks.

        Raises:
            InputError: on all ranks, when one has NaN, an infinity, or a size of 2^127 or more.
        """
        scales = place.quantise.scales(values)
        if self.links is not None:
            scales = self.links.largest(scales)
        if scales.size and scales.max() == UNFIT:
            at = int(place.quantise.edges[int(scales.argmax())])
            raise InputError(
                f"the gradients of a rank hold NaN, Inf or a size of 2^127 or more, in the block from value {at} of a "
                "bucket on: expected finite values, which alone share a scale"
            )
        codes = place.out.reshape(-1)[: values.size]
        place.quantise.encode(values, scales, codes)
        self._exchange(place)
        place.quantise.decode(codes, scales, values)
        return self._counts(values.size, place)

    def _exchange(self, place: Place) -> None:
        """Codes in ``place.out`` become mean codes."""
        if self.links is None:
            average_into(self.averager, place.out, place.out[0])
            return
        self.links.transpose(place.out, place.into)
        average_into(self.averager, place.into, place.out[self.rank])
        self.links.gather(place.out)

    def _counts(self, size: int, place: Place) -> OpticalCounts:
        nbytes_codes = -(-size * place.quantise.bits // 8)
        others = self.ranks - 1
        return OpticalCounts(
            nbytes_up=nbytes_codes,
            nbytes_down=nbytes_codes,
            nbytes_exponents=place.quantise.blocks,
            nbytes_sent=others * (2 * place.out[0].nbytes + place.quantise.blocks),
            nbytes_raw=round(2 * others / self.ranks * 4 * size),
            buckets=1,
        )


def _bytes(codes: NDArray[Any]) -> torch.Tensor:
    """The same memory; gloo knows no unsigned integers of more than a byte."""
    return torch.from_numpy(codes.view(np.uint8))
