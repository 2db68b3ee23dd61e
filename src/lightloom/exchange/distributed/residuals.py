"""Error feedback: what encodings took away, kept by tensor and added to the next gradient.

Residuals lie in flat buffers with the geometry of the gradients that they are added to. When the same tensors come in
another buffer, as after DDP rebuilt its buckets, their residuals move.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from math import prod
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from lightloom.core.arrays import Ints
from lightloom.core.errors import ConfigError, UnsupportedError

# Checkpoints of hooks: what ``state_dict`` returns and ``load_state_dict`` takes.

StateDict: TypeAlias = dict[str, Any]
"""Tensors and plain values by key, for ``torch.save`` and ``torch.distributed.checkpoint``."""
SavedState: TypeAlias = Mapping[str, Any]
"""State as a checkpoint returns it: read only, by key."""


def with_prefix(state: SavedState, prefix: str) -> StateDict:
    """Return a copy of the state in which every key begins with ``prefix``."""
    return {f"{prefix}{key}": value for key, value in state.items()}


def without_prefix(state: SavedState, prefix: str) -> StateDict:
    """Return a copy of the state with ``prefix`` removed from every key, the inverse of ``with_prefix``.

    Raises:
        ConfigError: a key does not begin with it; prefixes name ranks, so the state is of another one.
    """
    for key in state:
        if not str(key).startswith(prefix):
            raise ConfigError(f"the checkpoint holds {key!r}, expected {prefix}...: it is of another rank")
    return {str(key).removeprefix(prefix): value for key, value in state.items()}


# Where the tensors of a flat buffer lie, and how their blocks are shared out to the ranks that add them up.
#
# buffer   | weight, blocks 0 1 2 3 | bias, block 0 |        4 ranks
# share k  | block k of weight      | bias on rank crc32("bias") mod 4 |
#
# Each tensor is cut by itself, at multiples of the block, so that what is encoded together does not depend on the
# bucket that a tensor travels in: DDP rebuilds its buckets after the first step, and a resumed run continues bit for
# bit.


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of one tensor's values in a flat buffer; positions and lengths in values."""

    tensor: str
    """Name of the tensor."""
    start: int
    """Position in the tensor."""
    offset: int
    """Position in the buffer."""
    length: int


class Geometry:
    """The pieces of a flat buffer, which cover it. Compared by identity."""

    def __init__(self, pieces: Sequence[Piece], size: int, shapes: Sequence[tuple[str, tuple[int, ...]]] = ()) -> None:
        """Check that ``pieces`` cover ``size`` values, each once.

        Args:
            pieces: in any order; those of no values are left out.
            size: number of values in the buffer.
            shapes: (name, shape) of the tensors that lie in the buffer whole, for methods that need matrices.

        Raises:
            UnsupportedError: a value of the buffer belongs to no tensor or to two.
        """
        self.pieces = tuple(sorted((piece for piece in pieces if piece.length), key=lambda piece: piece.offset))
        self.size = size
        self.shapes = tuple(shapes)
        end = 0
        for piece in self.pieces:
            if piece.offset != end:
                break
            end += piece.length
        if end != size:
            raise UnsupportedError(
                f"the gradients of the tensors cover {end} of the {size} values of their buffer: value {end} belongs "
                "to no tensor or to two; report this, as replicas would diverge"
            )

    @classmethod
    def joined(cls, tensors: Sequence[tuple[str, tuple[int, ...]]], size: int | None = None) -> Geometry:
        """Return the geometry of tensors that lie in the buffer whole, one after the other.

        Args:
            tensors: (name, shape) of each tensor, in their order in the buffer.
            size: number of values in the buffer, which the tensors must cover; the sum of theirs unless given.

        Raises:
            UnsupportedError: the tensors do not have ``size`` values.
        """
        ends = list(accumulate((prod(shape) for _, shape in tensors), initial=0))
        pieces = [Piece(name, 0, offset, prod(shape)) for (name, shape), offset in zip(tensors, ends, strict=False)]
        return cls(pieces, ends[-1] if size is None else size, tensors)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the tensors that have values in the buffer."""
        return frozenset(piece.tensor for piece in self.pieces)

    @cached_property
    def description(self) -> str:
        """Number of values and the name of the one tensor, or the number of tensors, for messages: ``8 values of
        'weight'``, ``99 values of 3 tensors``."""
        tensors = sorted(self.names)
        return f"{self.size} values of {repr(tensors[0]) if len(tensors) == 1 else f'{len(tensors)} tensors'}"

    @cached_property
    def digest(self) -> bytes:
        """Hash (16 bytes) of the names, shapes and places of all tensors, by which ranks compare geometries."""
        return blake2b(repr((self.pieces, self.size, self.shapes)).encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The part of a buffer that one rank adds up, in blocks in the order of the wire. Compared by identity."""

    runs: Ints
    """Shape [runs, 3]: position of a run in the buffer, its values, and its first block on the wire."""
    blocks: int
    """Number of blocks in which the runs go on the wire."""
    block: int
    """Number of values in a block."""

    @classmethod
    def of(cls, runs: Sequence[tuple[int, int]], block: int) -> Share:
        """Return the share that is made of runs of a buffer, each of which begins a new block on the wire; the last
        block of each may be partly filled. The share's ``runs`` are int64 [runs, 3]: offset, length and first block.

        Args:
            runs: (offset, length) of each run in the buffer, in values, in the order of the wire.
            block: number of values in a block.
        """
        table = np.array(runs, np.int64).reshape(-1, 2)
        starts = np.concatenate([[0], np.cumsum(-(-table[:, 1] // block))])
        return cls(np.column_stack([table, starts[:-1]]), int(starts[-1]), block)

    def slots(self, padding: int, device: torch.device) -> Tensor:
        """Return the buffer position of the value in each slot of the share's blocks, in the order of the wire, int64
        [slots] on ``device``; ``padding`` where a block's slot is empty."""
        slots = np.full(self.blocks * self.block, padding, np.int64)
        for offset, length, block in self.runs:
            slots[block * self.block : block * self.block + length] = np.arange(offset, offset + length)
        return torch.from_numpy(slots).to(device)


def cut_shares(geometry: Geometry, ranks: int, block: int) -> list[Share]:
    """Return the shares of all ranks, by rank: the parts of a buffer that each rank adds up, as tables of runs (offset,
    length, first block on the wire).

    Each piece of the geometry is cut at multiples of ``block`` values, counted from its begin, into one part a rank,
    about equally large; if it has fewer blocks than ranks, some ranks get none. The first part goes to the rank that
    the CRC-32 of its tensor's name gives modulo ``ranks``, the others to the ranks after it in turn.
    """
    shares: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
    for piece in geometry.pieces:
        blocks = -(-piece.length // block)
        first = zlib.crc32(piece.tensor.encode()) % ranks
        for k in range(ranks):
            begin, end = blocks * k // ranks * block, min(blocks * (k + 1) // ranks * block, piece.length)
            if end > begin:
                # Rotated by the name, so that not all short tensors go to the last rank.
                shares[(first + k) % ranks].append((piece.offset + begin, end - begin))
    return [Share.of(share, block) for share in shares]


_RANKS = "ranks"


class Residuals:
    """Residuals of one rank by tensor; a ``Stateful`` for checkpoints.

    Every rank has its own residuals, and a checkpoint needs all of them. Keys contain the rank, so that
    ``torch.distributed.checkpoint`` distinguishes them.
    """

    def __init__(self, rank: int, ranks: int, sizes: Mapping[str, int] | None = None) -> None:
        """Begin with zeros for the tensors in ``sizes`` (values by name), or without any residuals."""
        self.rank, self.ranks = rank, ranks
        self._complete = sizes is not None
        self._stored = {name: torch.zeros(size) for name, size in (sizes or {}).items()}
        self._buffers: dict[Geometry, Tensor] = {}
        self._zero: set[Geometry] = set()

    def buffer(self, geometry: Geometry, device: torch.device | str = "cpu") -> Tensor:
        """Return the residuals that belong to a buffer, flat float32, zeros at first: not a copy, so that the caller
        adds, encodes and leaves errors in place.

        Args:
            geometry: tensors in the buffer.
            device: where the residuals are to lie; used only when this geometry is new.

        Raises:
            ConfigError: a loaded residual has another number of values than its tensor.
        """
        self._zero.discard(geometry)
        if geometry not in self._buffers:
            self._move_into(geometry, torch.device(device))
        return self._buffers[geometry]

    def drain(self, geometry: Geometry, device: torch.device | str = "cpu") -> Tensor | None:
        """Return a copy of the residuals of a buffer, flat float32, and set them to zero; None if they were drained and
        have not been used since, but zeros where none was kept yet.

        Args:
            geometry: tensors in the buffer.
            device: where the residuals are to lie; used only when this geometry is new.

        Raises:
            ConfigError: a loaded residual has another number of values than its tensor.
        """
        if geometry in self._zero:
            return None
        buffer = self.buffer(geometry, device)
        copy = buffer.clone()
        buffer.zero_()
        self._zero.add(geometry)
        return copy

    def by_tensor(self) -> dict[str, Tensor]:
        """Return copies of all residuals by tensor's name, flat float32, in CPU memory, zeros for tensors that were
        known from the beginning and not exchanged yet."""
        residuals = {name: values.clone() for name, values in self._stored.items()}
        for geometry in self._buffers:
            residuals |= self._collect(geometry)
        return residuals

    def state_dict(self) -> StateDict:
        """Return copies of the residuals under ``rank<i>/<tensor>``, and the number of ranks under ``ranks``."""
        return {_RANKS: self.ranks, **{self._key(name): values for name, values in self.by_tensor().items()}}

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank; tensors that it does not hold keep their residuals, unless all
        tensors were known from the beginning: then it must hold just these.

        Raises:
            ConfigError: it is of another rank or number of ranks, or, where all tensors were known, of other tensors or
                numbers of values; otherwise a wrong number shows when the residual is used.
        """
        if state_dict.get(_RANKS) != self.ranks:
            raise ConfigError(f"the checkpoint is of {state_dict.get(_RANKS)} ranks, this run has {self.ranks}")
        prefix = self._key("")
        names = {str(key).removeprefix(prefix) for key in state_dict if str(key).startswith(prefix)}
        if len(names) != len(state_dict) - 1:
            raise ConfigError(f"the checkpoint holds residuals of another rank than {self.rank}")
        present = self.by_tensor()
        if self._complete:
            check_names(names, set(present))
        loaded = {}
        for name in names:
            values = torch.as_tensor(state_dict[self._key(name)]).detach().float().flatten().clone()
            if self._complete:
                check_values(f"the residual of {name!r}", values.numel(), present[name].numel())
            loaded[name] = values
        self._stored = present | loaded
        self._buffers.clear()
        self._zero.clear()

    def _move_into(self, geometry: Geometry, device: torch.device) -> None:
        """Make the buffer of residuals of a geometry on a device from what is kept of its tensors, zeros for new ones;
        other buffers with any of these tensors are dissolved, their residuals moved or kept by tensor. Raises
        ConfigError where a kept residual has another number of values."""
        for other in [other for other in self._buffers if other.names & geometry.names]:
            self._stored |= self._collect(other)
            del self._buffers[other]
            self._zero.discard(other)
        buffer = torch.zeros(geometry.size, device=device)
        lengths = _lengths(geometry)
        for piece in geometry.pieces:
            if (stored := self._stored.get(piece.tensor)) is None:
                continue
            check_values(f"the residual of {piece.tensor!r}", stored.numel(), lengths[piece.tensor])
            values = stored[piece.start : piece.start + piece.length]
            buffer[piece.offset : piece.offset + piece.length].copy_(values)
        for name in geometry.names:
            self._stored.pop(name, None)
        self._buffers[geometry] = buffer

    def _collect(self, geometry: Geometry) -> dict[str, Tensor]:
        """Return the residuals in a geometry's buffer by tensor, flat, in CPU memory, each as long as the end of its
        last piece; 0 for values that lie in no piece."""
        buffer = self._buffers[geometry].cpu()
        tensors = {name: torch.zeros(length) for name, length in _lengths(geometry).items()}
        for piece in geometry.pieces:
            values = buffer[piece.offset : piece.offset + piece.length]
            tensors[piece.tensor][piece.start : piece.start + piece.length] = values
        return tensors

    def _key(self, name: str) -> str:
        """Return the checkpoint's key of a tensor's residual, ``rank<i>/<tensor>``."""
        return f"rank{self.rank}/{name}"


def _lengths(geometry: Geometry) -> dict[str, int]:
    """Return the number of values of each tensor, by name, as far as a geometry shows it: the end of its last piece."""
    lengths: dict[str, int] = {}
    for piece in geometry.pieces:
        lengths[piece.tensor] = max(lengths.get(piece.tensor, 0), piece.start + piece.length)
    return lengths


def check_names(names: set[str], expected: set[str]) -> None:
    """Check that ``names``, the parameters in a checkpoint, are those of the model, ``expected``.

    Raises:
        ConfigError: they differ; the message names the first, in alphabetical order, that only one of them has.
    """
    if names != expected:
        raise ConfigError(f"checkpoint and model differ in parameter {min(names ^ expected)!r}")


def check_values(what: str, values: int, expected: int) -> None:
    """Check that ``values``, the number of values of ``what`` in a checkpoint, is that of the parameter, ``expected``.

    Raises:
        ConfigError: it is another number.
    """
    if values != expected:
        raise ConfigError(f"{what} has {values} values, the parameter {expected}: the checkpoint is of another model")
