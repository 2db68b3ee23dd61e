"""Interferometers (MZIs) that matrices take, and the area ratios of the paper's Tables I and II.

    paper      outputs x inputs by SVD: (m (m + 1) + n (n - 1)) / 2                           (section II-B)
    economy    the same by an economy SVD: m n, as the modes that meet no singular value need no mesh
    approximated in blocks of s = min(m, n): max / min * s (s + 1) / 2                        (eq. 4)

The ratios of Table I come out to the printed digit only with P (K x N M) and T (N M x M) counted too, mapped by SVD.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from lightloom.core.errors import InputError
from lightloom.photonics.pam4 import symbols_for

Convention = Literal["paper", "economy"]


def mzi_of_matrix(outputs: int, inputs: int, convention: Convention = "paper", approximated: bool = False) -> int:
    """Interferometers of one matrix.

    Raises:
        InputError: an approximated matrix whose larger side is no multiple of the smaller, or an unknown convention.
    """
    if convention not in ("paper", "economy"):
        raise InputError(f"convention = {convention!r}: expected paper or economy")
    if approximated:
        small, large = sorted((outputs, inputs))
        if large % small:
            raise InputError(f"a matrix of {outputs} x {inputs} does not part into squares of {small}")
        return large // small * small * (small + 1) // 2
    if convention == "economy":
        return outputs * inputs
    return (outputs * (outputs + 1) + inputs * (inputs - 1)) // 2


def mzi_count(
    layers: Sequence[int],
    convention: Convention = "paper",
    approximated: Collection[int] = (),
    bias: bool = False,
) -> int:
    """Interferometers of a network.

    Args:
        layers: signals: inputs, hidden layers, outputs.
        convention: for the matrices that are not approximated.
        approximated: matrices in the form of eq. 4, counted from 1.
        bias: whether a constant light, carried along, brings the biases: one more signal everywhere but in the outputs.
    """
    sizes = [n + bias for n in layers[:-1]] + [layers[-1]]
    return sum(
        mzi_of_matrix(m, n, convention, layer in approximated) for layer, (n, m) in enumerate(pairwise(sizes), 1)
    )


def mzi_of_units(servers: int, bits: int, inputs: int, convention: Convention = "paper") -> int:
    """Interferometers of preprocessing P (K x N M) and splitting T (N M x M)."""
    count = symbols_for(bits)
    ports = servers * count
    return mzi_of_matrix(inputs, ports, convention) + mzi_of_matrix(ports, count, convention)


@dataclass(frozen=True, slots=True)
class PaperNetwork:
    """A row of Table I, or of Table II, which varies the last of them."""

    bits: int
    servers: int
    layers: tuple[int, ...]
    approximated: tuple[int, ...]
    printed: float
    """The area ratio in the paper, percent."""

    def area(self, convention: Convention = "paper", approximated: bool = True, units: bool = True) -> int:
        """Interferometers, with P and T unless ``units`` is false."""
        chosen = self.approximated if approximated else ()
        extra = mzi_of_units(self.servers, self.bits, self.layers[0], convention) if units else 0
        return mzi_count(self.layers, convention, chosen) + extra

    def ratio(self, convention: Convention = "paper", units: bool = True) -> float:
        """Approximated over unapproximated area, percent; with ``economy`` the baseline is mapped by economy SVDs."""
        return 100 * self.area(convention, True, units) / self.area(convention, False, units)


_LARGEST = (4, 64, 128, 256, 512, 256, 128, 64, 8)
TABLE_I = (
    PaperNetwork(8, 4, (4, 64, 128, 256, 128, 64, 4), (1, 2, 3, 4, 5, 6), 39.3),
    PaperNetwork(8, 8, (4, 64, 128, 256, 512, 256, 128, 64, 4), (2, 3, 4, 5, 6, 7), 40.9),
    PaperNetwork(
        8, 16, (4, 64, 128, 256, 512, 1024, 512, 256, 128, 64, 4), (2, 3, 4, 5, 6, 7, 8, 9), 40.4
    ),
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6), 49.3),
)  # fmt: skip
TABLE_II = (
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6), 49.3),
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6, 7), 47.9),
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6, 7, 8), 47.4),
    PaperNetwork(16, 4, _LARGEST, (3, 4, 5, 6), 43.7),
    PaperNetwork(16, 4, _LARGEST, (3, 4, 5, 6, 7), 42.2),
)
