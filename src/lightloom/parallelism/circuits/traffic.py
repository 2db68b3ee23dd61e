"""Traffic between ranks: bytes of every ordered pair that has something to send."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError
from lightloom.fabrics.base import Fabric


@dataclass(frozen=True, slots=True)
class Traffic:
    """Demands between ranks, in ascending order of (source, destination); every array has shape [pair]."""

    ranks: int
    source: Ints
    destination: Ints
    nbytes: Floats
    """Bytes to send, above 0."""

    @classmethod
    def of(cls, matrix: Any) -> Self:
        """Read a dense or sparse matrix [ranks, ranks] of bytes, source by destination.

        Raises:
            InputError: not square, an entry negative or not finite, traffic of a rank to itself, or none at all.
        """
        shape = np.shape(matrix)
        if len(shape) != 2 or shape[0] != shape[1]:
            raise InputError(f"traffic has shape {shape}: expected (ranks, ranks), source by destination")
        entries = sparse.coo_array(matrix).astype(np.float64)
        entries.sum_duplicates()
        wrong = np.flatnonzero(~(np.isfinite(entries.data) & (entries.data >= 0)))
        if len(wrong):
            where = f"from rank {entries.row[wrong[0]]} to rank {entries.col[wrong[0]]}"
            raise InputError(f"traffic {where} is {entries.data[wrong[0]]} bytes: expected a finite number, 0 or more")
        present = entries.data > 0
        source = entries.row[present].astype(np.int64)
        destination = entries.col[present].astype(np.int64)
        nbytes = entries.data[present]
        if not len(nbytes):
            raise InputError("traffic is 0 bytes between all ranks: there is no circuit to assign")
        itself = np.flatnonzero(source == destination)
        if len(itself):
            rank = source[itself[0]]
            raise InputError(f"traffic from rank {rank} to itself: expected a diagonal of 0 bytes")
        order = np.lexsort((destination, source))
        return cls(shape[0], source[order], destination[order], nbytes[order])

    def __len__(self) -> int:
        return len(self.nbytes)

    @property
    def relative(self) -> Floats:
        """Each demand as a share of the largest, shape [pair]."""
        relative: Floats = self.nbytes / self.nbytes.max()
        return relative

    def with_bytes(self, nbytes: Floats) -> Traffic:
        """Return the pairs that still have bytes above 0."""
        sending = nbytes > 0
        return replace(self, source=self.source[sending], destination=self.destination[sending], nbytes=nbytes[sending])

    def find(self, source: Ints, destination: Ints) -> Ints:
        """Position of each ordered pair, or −1 where it has no demand."""
        keys = self.source * self.ranks + self.destination
        requested = source * self.ranks + destination
        position = np.minimum(np.searchsorted(keys, requested), len(keys) - 1)
        return np.where(keys[position] == requested, position, -1)

    def period(self) -> int:
        """Return the smallest rotation of the ranks, a divisor of their number, that leaves the traffic unchanged."""
        for shift in range(1, self.ranks):
            if self.ranks % shift == 0:
                rotated = self.find((self.source + shift) % self.ranks, (self.destination + shift) % self.ranks)
                if (rotated >= 0).all() and np.array_equal(self.nbytes[rotated], self.nbytes):
                    return shift
        return self.ranks

    def check_fits(self, fabric: Fabric) -> None:
        """Refuse a fabric of another size.

        Raises:
            InputError: the numbers of ranks differ.
        """
        if self.ranks != fabric.ranks:
            raise InputError(f"traffic of {self.ranks} ranks on a fabric of {fabric.ranks}: expected the same number")
