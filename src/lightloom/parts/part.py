"""A component of a cluster, as its YAML file describes it."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from lightloom.core.described import Described
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.parts.figure import Decibels, EnergyPerBit, Figure, MeanTime, Power, Price, Share

Kind = Literal[
    "transceiver",
    "engine",
    "cable",
    "fibre",
    "nic",
    "switch-port",
    "node-link",
    "circuit-switch",
    "circuit-switch-port",
    "light-source",
    "modulator",
    "receiver",
    "serialiser",
    "ring",
    "interferometer",
    "phase-shifter",
    "amplifier",
    "converter",
    "logic",
    "splitter",
    "averager",
    "board",
    "host",
    "stated",
]
"""What a component is; ``stated`` stands for figures that a fabric's own file states."""
KINDS: tuple[Kind, ...] = get_args(Kind)

FigureName = Literal["dollars", "static_power", "dynamic_energy", "mtbf"]
"""A figure that every component has, or lacks."""
FIGURES: tuple[FigureName, ...] = get_args(FigureName)
_WORDS = {
    "dollars": "price",
    "static_power": "power",
    "dynamic_energy": "dynamic energy",
    "mtbf": "mean time between failures",
}


class Part(Described):
    """One component: what it costs, draws and how long it lasts; null is unknown, and totals name it."""

    name: str
    kind: Kind
    description: Annotated[str, Field(min_length=1)]
    """One line for people."""
    rate: Bandwidth | None = None
    """Bytes per second through it, per direction; null where it has no rate of its own (fibre, an optical switch)."""
    radix: Count | None = None
    """Ports of a switch; of a port, those of the switch that it belongs to."""
    reach: Annotated[float, Field(gt=0)] | None = None
    """Metres that a link over it may be long."""
    dollars: Price | None = None
    static_power: Power | None = None
    """Watts, busy or idle."""
    static_energy: EnergyPerBit | None = None
    """Joules of every bit that it could carry, drawn busy or idle, where the power grows with the rate."""
    dynamic_energy: EnergyPerBit | None = None
    """Joules of every bit that passes it, on top of ``static_power``."""
    mtbf: MeanTime | None = None
    """Mean time between failures."""
    reconfiguration_time: Seconds | None = None
    """Seconds in which a circuit switch sets new circuits."""
    link_up_time: Seconds | None = None
    """Seconds from new circuits until the links over them carry data."""
    loss: Decibels | None = None
    """What light loses in it."""
    gain: Decibels | None = None
    """What light gains in it."""
    efficiency: Share | None = None
    """Light for electricity, of a light source."""
    fits: tuple[str, ...] = ()
    """Accelerators of the catalog that a board or a host is for."""
    serves: Count = 1
    """Ranks of one: 8 of a host with eight boards."""
    covers: dict[FigureName, tuple[Kind, ...]] = Field(default_factory=dict)
    """Kinds of other components whose figures these hold already: a host's measured power holds its network cards."""
    holds: dict[Kind, Bandwidth] = Field(default_factory=dict)
    """Bytes per second, for each rank it serves, of such components that it holds at most; of others, all."""
    counted_elsewhere: dict[FigureName, str] = Field(default_factory=dict)
    """Figures that another component's hold, and why: such a null is not missing."""
    unknown: dict[FigureName, str] = Field(default_factory=dict)
    """Why a figure is null, where there is more to say than that no source was found."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each other field's value comes from, by field name."""

    def heading(self) -> str:
        return f"{self.kind} {self.name}"

    @model_validator(mode="after")
    def _null_is_explained_once(self) -> Self:
        if self.static_power is not None and self.static_energy is not None:
            raise ValueError("static_power and static_energy are the same watts: expected one of them")
        for name in (*self.counted_elsewhere, *self.unknown):
            if self.figure(name) is not None:
                raise ValueError(f"{name} has a figure and a reason to have none: expected one of them")
        return self

    def figure(self, name: FigureName) -> Figure | None:
        """Return one figure of the component; None where it is unknown or counted elsewhere.

        The static power is in joules per bit where it grows with the rate.
        """
        figure: Figure | None = getattr(self, name)
        return self.static_energy if figure is None and name == "static_power" else figure

    def missing(self, name: FigureName) -> str | None:
        """Return what is unknown, as ``price of nic-800g``; None where it is known or counted elsewhere."""
        if self.figure(name) is not None or name in self.counted_elsewhere:
            return None
        return f"{_WORDS[name]} of {self.name}"
