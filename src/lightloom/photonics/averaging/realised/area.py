"""The area of networks in interferometers (MZIs), and the area ratios of the paper's Tables I and II.

Matrices are counted by `photonics.meshes.counts`, in the paper's convention (a full SVD) or the economy one. Counting
P (K x N M) and T (N M x M) as well reproduces the ratios of Table I to the printed digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lightloom.photonics.meshes.counts import Convention, full_count, network_count
from lightloom.photonics.pam4 import symbols_for


def mzi_count(layers: Sequence[int], convention: Convention = "paper", bias: bool = False) -> int:
    """Return the number of interferometers of a network's matrices.

    Args:
        layers: number of signals of the inputs, the hidden layers and the outputs.
        convention: ``paper`` or ``economy``.
        bias: whether biases are optical: a signal of constant light more in every layer but the outputs.
    """
    return network_count([*(n + bias for n in layers[:-1]), layers[-1]], convention=convention)


def mzi_of_units(servers: int, bits: int, inputs: int, convention: Convention = "paper") -> int:
    """Return the number of interferometers of preprocessing P (K x N M) and splitting T (N M x M)."""
    count = symbols_for(bits)
    ports = servers * count
    return full_count(inputs, ports, convention) + full_count(ports, count, convention)


@dataclass(frozen=True, slots=True)
class PaperNetwork:
    """A row of Table I or II; Table II varies the approximated layers of the last row of Table I."""

    bits: int
    servers: int
    layers: tuple[int, ...]
    approximated: tuple[int, ...]
    printed: float
    """Printed area ratio, in percent."""

    def area(self, convention: Convention = "paper", approximated: bool = True, units: bool = True) -> int:
        """Return the number of interferometers, with P and T unless ``units`` is false."""
        network = network_count(self.layers, self.approximated if approximated else (), convention)
        return network + units * mzi_of_units(self.servers, self.bits, self.layers[0], convention)

    def ratio(self, convention: Convention = "paper", units: bool = True) -> float:
        """Return the approximated area in percent of the full area; ``economy`` maps the baseline by economy SVDs."""
        return 100 * self.area(convention, True, units) / self.area(convention, False, units)


_LARGEST = (4, 64, 128, 256, 512, 256, 128, 64, 8)
TABLE_I = (
    PaperNetwork(8, 4, (4, 64, 128, 256, 128, 64, 4), (1, 2, 3, 4, 5, 6), 39.3),
    PaperNetwork(8, 8, (4, 64, 128, 256, 512, 256, 128, 64, 4), (2, 3, 4, 5, 6, 7), 40.9),
    PaperNetwork(8, 16, (4, 64, 128, 256, 512, 1024, 512, 256, 128, 64, 4), (2, 3, 4, 5, 6, 7, 8, 9), 40.4),
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6), 49.3),
)
TABLE_II = (
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6), 49.3),
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6, 7), 47.9),
    PaperNetwork(16, 4, _LARGEST, (4, 5, 6, 7, 8), 47.4),
    PaperNetwork(16, 4, _LARGEST, (3, 4, 5, 6), 43.7),
    PaperNetwork(16, 4, _LARGEST, (3, 4, 5, 6, 7), 42.2),
)
