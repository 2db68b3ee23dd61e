"""Forward error correction: what a Reed-Solomon code costs a link in rate and in time.

400 Gb/s Ethernet (IEEE 802.3bs) sends PAM-4 in blocks of RS(544, 514): 514 symbols of 10 bits are data. A receiver
corrects up to t = 15 symbols of a block, and has to see the whole block before it knows which.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReedSolomon:
    """A code of ``length`` symbols of which ``data`` carry data.

    Raises:
        ValueError: not more symbols than data, or more than the symbols' field allows.
    """

    length: int
    data: int
    symbol_bits: int

    def __post_init__(self) -> None:
        if not 0 < self.data < self.length < 2**self.symbol_bits:
            raise ValueError(
                f"RS({self.length}, {self.data}) with symbols of {self.symbol_bits} bits: expected "
                f"0 < data < length < {2**self.symbol_bits}"
            )

    @property
    def corrects(self) -> int:
        """Wrong symbols of a block that can be corrected."""
        return (self.length - self.data) // 2

    @property
    def rate(self) -> float:
        """Share of the line that carries data."""
        return self.data / self.length

    def block_time(self, bandwidth: float) -> float:
        """Seconds in which a block arrives, at ``bandwidth`` bytes of data a second."""
        return self.data * self.symbol_bits / 8 / bandwidth

    def solver_cycles(self) -> int:
        """Clock cycles of an iterative (Berlekamp-Massey) solver of the key equation: one for each check symbol."""
        return 2 * self.corrects


RS_544_514 = ReedSolomon(544, 514, 10)
"""IEEE 802.3bs, clause 119."""
DECODER_CYCLES = 47
"""Cycles that RS(544, 514) adds to a link, as Ro, Lee and Ahn cite them (section 4.1)."""
