"""Where chips sit: on an interposer, packages on a blade, blades in a rack; and what does not fit, refused.

      package          blade                rack
    ┌─────────┐
    │ ┌──┬──┐ │     ▣ ▣ ▣
    │ ├──┼──┤ │     ▣ ▣ ▣          64 blades, 1536 chips
    │ └──┴──┘ │    6 packages
    └─────────┘
      4 chips

Source: Ro, Lee and Ahn (Electronics 2018, 7, 130), sections 3.2 and 3.3, Figs. 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from lightloom.core.errors import UnsupportedError

_MILLIMETRE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A square of square chips on a square interposer, waveguides in the gaps; lengths in metres.

    Raises:
        UnsupportedError: the chips, or the waveguides between them, do not fit (says what would).
    """

    side: int = 2
    """Chips along an edge."""
    chip_edge: float = 8 * _MILLIMETRE
    interposer_edge: float = 25 * _MILLIMETRE
    waveguides: int = 4
    """Waveguides of a link in one direction: 4 · 25 Gb/s or 4 · 100 Gb/s."""
    pitch: float = 0.1 * _MILLIMETRE
    """Between waveguides (an upper limit: "can be under 100 µm")."""

    def __post_init__(self) -> None:
        needed = self.side * self.chip_edge + (self.side + 1) * self.link_width
        if needed > self.interposer_edge * (1 + 1e-12):
            raise UnsupportedError(
                f"{self.side} chips of {self.chip_edge * 1e3:g} mm side by side, with {2 * self.waveguides} waveguides "
                f"in each gap, need {needed * 1e3:g} mm: the interposer has {self.interposer_edge * 1e3:g} mm; fewer "
                "chips, fewer waveguides or a smaller pitch would fit"
            )

    @property
    def chips(self) -> int:
        return self.side**2

    @property
    def link_width(self) -> float:
        """Metres across the waveguides of a link, both directions."""
        return 2 * self.waveguides * self.pitch

    @property
    def gap(self) -> float:
        """Metres between chips, and from chips to the interposer's edge, when spread evenly."""
        return (self.interposer_edge - self.side * self.chip_edge) / (self.side + 1)

    @property
    def fibres(self) -> int:
        """Fibres that leave the package: every outer chip edge is a link."""
        return 4 * self.side * 2 * self.waveguides


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """Packages on blades in a rack; the defaults are the paper's."""

    package: Package = Package()
    packages_per_blade: int = 6
    blades: int = 64

    @property
    def chips_per_blade(self) -> int:
        return self.package.chips * self.packages_per_blade

    @property
    def chips(self) -> int:
        return self.chips_per_blade * self.blades

    def check(self, chips: int, cure: str = "") -> None:
        """Refuse what a rack does not hold.

        Args:
            chips: how many are needed. cure: what else than more racks would make it fit, for the message.

        Raises:
            UnsupportedError: too many chips; says how many blades and racks they take.
        """
        if chips <= self.chips:
            return
        raise UnsupportedError(
            f"{chips} chips need {ceil(chips / self.chips_per_blade)} blades: a rack holds {self.blades} "
            f"({self.blades} · {self.packages_per_blade} packages · {self.package.chips} chips = {self.chips}); "
            f"feasible with {ceil(chips / self.chips)} racks" + (f", or {cure}" if cure else "")
        )
