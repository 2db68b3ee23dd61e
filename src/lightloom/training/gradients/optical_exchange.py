"""Averages by light, emulated between processes: codes are exchanged, each rank averages its share of them.

    gradients ─▶ largest exponents ─▶ codes ─┬─▶ share 0 of all ranks ─▶ averager ─▶ mean ─┬─▶ gradients
                 (maximum over ranks)        └─▶ share 1 ...   (on rank 1)                 ┘

The averager sees the codes of all servers at once, as the optical network does, and each rank averages 1/ranks of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lightloom.core.arrays import Bytes, Codes
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.photonics.averaging.averagers import Averager, average_into
from lightloom.photonics.block_quantisation import UNFIT, CodeBuffers
from lightloom.training.gradients.exchanger import Exchanger
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.group import OwnGroup
from lightloom.training.gradients.state_dict import SavedState, StateDict
from lightloom.training.transport.errors import AgreedError

_RANKS = "ranks"


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


class OpticalExchanger(Exchanger):
    """Quantises gradients and lets an averager average the codes, as servers around it do."""

    def __init__(self, averager: Averager, group: OwnGroup, *, block: int = 256, name: str = "") -> None:
        """Connect the ranks.

        Args:
            averager: for as many servers as there are ranks; its noise and errors should differ between ranks.
            group: connections.
            block: number of values that share a scale; no block spans two tensors.
            name: what the exchange is called in messages; by its averager unless given.

        Raises:
            UnsupportedError: tensors are not in CPU memory.
            ConfigError: the block is out of range.
            TransportError: a rank did not connect in time.
        """
        kind = type(averager).__name__
        name = name or f"optical:{kind},bits={averager.bits},rounding={averager.rounding},block={block}"
        if group.device != "cpu":
            raise UnsupportedError(f"exchange {name} runs in CPU memory, the tensors are on {group.device}")
        CodeBuffers.of([], averager.bits, block)  # checks both
        super().__init__(name, group)
        self.averager, self.block = averager, block
        self._buffers: dict[Geometry, BucketBuffers] = {}

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values`` by their mean over ranks, the same bits on all of them.

        Raises:
            AgreedError: a rank has NaN, an infinity or a size of 2^127 or more.
            TransportError: a rank left or fell silent.
        """
        if geometry not in self._buffers:
            lengths = [piece.length for piece in geometry.pieces]
            self._buffers[geometry] = BucketBuffers.of(lengths, self.group.ranks, self.averager.bits, self.block)
        buffers, flat = self._buffers[geometry], values.numpy()
        scales = self._largest(buffers.quantise.scales(flat))
        if scales.size and scales.max() == UNFIT:
            at = int(buffers.quantise.edges[int(scales.argmax())])
            raise AgreedError(
                f"the gradients of a rank hold NaN, Inf or a size of 2^127 or more, in the block from value {at} of a "
                "bucket: expected finite values"
            )
        codes = buffers.outgoing.reshape(-1)[: flat.size]
        buffers.quantise.encode(flat, scales, codes)
        self._average_codes(buffers)
        buffers.quantise.decode(codes, scales, flat)

    def blocks(self, geometry: Geometry) -> int:
        """Number of blocks of a buffer, each of which has an exponent."""
        return sum(-(-piece.length // self.block) for piece in geometry.pieces)

    def state_dict(self) -> StateDict:
        """State of the generator of this rank's noise and errors, under its rank, if there is one."""
        rng = getattr(self.averager, "rng", None)
        state = {} if rng is None else {f"rank{self.group.rank}": rng.bit_generator.state}
        return {_RANKS: self.group.ranks} | state

    def load_state_dict(self, state_dict: SavedState) -> None:
        # Exchanges attached by name left the number of ranks out of their first checkpoints.
        saved = {_RANKS: self.group.ranks} | dict(state_dict)
        if saved[_RANKS] != self.group.ranks:
            raise ConfigError(f"the checkpoint is of {saved[_RANKS]} ranks, this run has {self.group.ranks}")
        expected, keys = sorted(self.state_dict()), sorted(saved)
        if keys != expected:
            raise ConfigError(f"the checkpoint holds {', '.join(map(str, keys))}: expected {', '.join(expected)}")
        rng = getattr(self.averager, "rng", None)
        if rng is not None:
            rng.bit_generator.state = saved[f"rank{self.group.rank}"]

    def _largest(self, scales: Bytes) -> Bytes:
        """Maximum over ranks of each exponent, in a single step, where a ring takes as many steps as ranks."""
        if self.group.ranks == 1:
            return scales
        rows = torch.empty((self.group.ranks, scales.size), dtype=torch.uint8)
        self.group.all_gather(rows.view(-1), torch.from_numpy(scales), [scales.size] * self.group.ranks)
        return np.asarray(rows.numpy().max(axis=0))

    def _average_codes(self, buffers: BucketBuffers) -> None:
        """Replace the outgoing codes by mean codes."""
        if self.group.ranks == 1:
            average_into(self.averager, buffers.outgoing, buffers.outgoing[0])
            return
        sizes = [buffers.outgoing[0].nbytes] * self.group.ranks
        self.group.all_to_all(_bytes(buffers.incoming), _bytes(buffers.outgoing), sizes, sizes)
        mean = buffers.outgoing[self.group.rank]
        average_into(self.averager, buffers.incoming, mean)
        self.group.all_gather(_bytes(buffers.outgoing), _bytes(mean), sizes)


def rank_seed(seed: int, rank: int) -> int:
    """Return the seed of a rank's noise and errors."""
    return int(np.random.SeedSequence((seed, rank)).generate_state(1)[0])


def _bytes(codes: Codes) -> Tensor:
    """The same memory as flat bytes, as gloo has no unsigned integers of more than one byte."""
    return torch.from_numpy(codes.view(np.uint8)).view(-1)
