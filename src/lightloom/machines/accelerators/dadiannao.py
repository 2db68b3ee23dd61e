"""The DaDianNao chip: multipliers and adders in tiles, all data in embedded DRAM, four links.

Source: Ro, Lee and Ahn, "Impact of optical interconnects on a multi-chip machine-learning architecture", Electronics
2018, 7, 130: Table 1, Eq. 1, section 4.1. ``catalog/dadiannao.yaml`` is the same chip as a roofline.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import UnknownNameError
from lightloom.core.fields import Bandwidth, Config, Count, Seconds, Size, Watts

FILE = Path(__file__).with_suffix(".yaml")


class ChipLink(Config):
    """A link to a neighbouring chip."""

    bidirectional_bandwidth: Bandwidth
    """Bandwidth of both directions together in bytes per second, as Table 1 prints it."""
    latency: Seconds
    """Latency from a chip to its neighbour, in seconds."""
    phy_power: Watts | None = None
    """Peak watts of one PHY; null when no source gives them."""

    @property
    def bandwidth(self) -> float:
        """Bandwidth of one direction, in bytes per second."""
        return self.bidirectional_bandwidth / 2


class DaDianNao(Config):
    """One chip and the links that it can be built with."""

    frequency: Annotated[float, Field(gt=0)]
    """Clock frequency, in hertz."""
    tiles: Count
    multipliers: Count
    """16-bit multipliers of a tile."""
    adders: Count
    """16-bit adders of a tile."""
    multipliers_per_product: Count
    """16-bit multipliers that make one 32-bit product."""
    adders_per_sum: Count
    """16-bit adders that make one 32-bit sum."""
    local_edram: Size
    """Bytes of a tile's eDRAM."""
    central_edram: Size
    """Bytes of the eDRAM that all tiles share."""
    local_edram_cycles: Count
    """Latency of an access, in clock cycles."""
    central_edram_cycles: Count
    """Latency of an access, in clock cycles."""
    neuron_buffer: Size
    """Bytes of a tile's SRAM buffer."""
    power: Watts
    """Peak watts of the chip without its PHYs."""
    phys: Count
    """Number of links of a chip."""
    edge: Annotated[float, Field(gt=0)]
    """Edge of the square chip, in metres."""
    links: dict[str, ChipLink]
    """The kinds of links that it can be built with, by name."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each value comes from, by field name."""

    @property
    def product_rate(self) -> float:
        """32-bit products a second: 72 · 16 · 606 MHz = 698.1e9."""
        return self.tiles * self.multipliers / self.multipliers_per_product * self.frequency

    @property
    def sum_rate(self) -> float:
        """32-bit sums a second: twice the products, so that adders never bind in a network."""
        return self.tiles * self.adders / self.adders_per_sum * self.frequency

    @property
    def peak(self) -> float:
        """Products and sums a second together, the 2.09 TeraOPS of Table 1."""
        return self.product_rate + self.sum_rate

    @property
    def edram(self) -> float:
        """Bytes of all eDRAM: 16 · 2 + 4 = 36 MiB."""
        return self.tiles * self.local_edram + self.central_edram

    def computation_time(self, products: float, sums: float) -> float:
        """Return the seconds of Eq. 1 for so many 32-bit products and sums: those of the products or of the sums,
        whichever take longer."""
        return max(products / self.product_rate, sums / self.sum_rate)

    def link(self, name: str) -> ChipLink:
        """Return the kind of link with this name, with bandwidth, latency and power.

        Raises:
            UnknownNameError: the chip has no such links.
        """
        if name not in self.links:
            raise UnknownNameError("link of DaDianNao", name, self.links)
        return self.links[name]


def load_dadiannao() -> DaDianNao:
    """Return the chip of Table 1 of the paper from the package's file, with the source of every value."""
    fields = {key: value for key, value in read_yaml(FILE).items() if key != "description"}
    return validate(DaDianNao, fields, FILE.stem)
