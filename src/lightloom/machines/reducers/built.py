"""Fields that files state about averagers, and the averagers that carry the bandwidth of a fabric."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lightloom.core.fields import Bandwidth, Config, Count, JoulesPerBit, Seconds, Watts
from lightloom.core.units import format_bandwidth, format_quantity

# What an averager is made of, and what the bandwidth of a fabric takes of it.

SYMBOL_RATE = 50e9
"""Symbols a second of every lane, an assumption: PAM4 lanes of 100 Gb/s."""
Positive = Annotated[float, Field(gt=0)]


class Averaging(Config):
    """Parts that an averager is made of; devices left out are those of `machines.reducers.hardware`."""

    reducer: str | None = None
    """A reducer of `lightloom onn build --reducers`, whose watts, latency and area all instances then have; null: a
    constructed network of the devices below, most of which have no figure."""
    constants: dict[str, float] | None = None
    """Constants of the reducer to replace, by name, in the units of `onn build --reducers`."""
    wavelengths: Count = 1
    """Instances that share a passive mesh on wavelengths 100 GHz apart; networks only."""
    servers: Count | None = None
    """Ports of one averager; beyond, two levels. Null: one averager for all ranks, however many."""
    bits: Annotated[int, Field(ge=1, le=32, strict=True)] = 8
    """Bits of a code."""
    noise: float | None = None
    """Noise that the network tolerates, as a share of full scale; null asks for exactness alone. Networks of a reducer
    are the sturdiest ones."""
    nonlinearity: Literal["relu", "clipped"] = "relu"
    """Nonlinearity of the network's units."""
    mzi_length: Positive | None = None
    """Metres of waveguide in a column of MZIs."""
    group_index: Positive | None = None
    """Group index of the waveguides."""
    unit_latency: Seconds | None = None
    """Seconds that a nonlinear unit takes."""
    receiver_latency: Seconds | None = None
    """Seconds from light to a code."""
    heater_power: Watts | None = None
    """Watts of a heater for a phase of π."""
    unit_energy: Positive | None = None
    """Joules of a nonlinear unit for each symbol."""
    receiver_sensitivity: Watts | None = None
    """Watts of light that a receiver needs."""
    loss_db: Annotated[float, Field(ge=0)] | None = None
    """Decibels lost in an MZI."""
    laser_efficiency: Annotated[float, Field(gt=0, le=1)] | None = None
    """Watts of light for each watt of electricity."""
    modulator_energy: JoulesPerBit | None = None
    """Joules of each bit sent."""
    receiver_energy: JoulesPerBit | None = None
    """Joules of each bit received."""
    amplifier_power: Watts | None = None
    """Watts of one amplifier; one stands behind every output of every layer."""
    symbol_rate: Positive | None = None
    """Symbols per second on one lane."""

    @model_validator(mode="after")
    def _devices_or_a_reducer(self) -> Self:
        """Raise ValueError for constants or wavelengths without a reducer, and for fields of devices that differ from
        their defaults beside one (all fields but reducer, constants, wavelengths, servers, bits and symbol rate);
        otherwise return the object unchanged."""
        if self.reducer is None:
            if self.constants:
                raise ValueError("constants belong to a reducer: name one, or leave them out")
            if self.wavelengths != 1:
                raise ValueError("wavelengths share the meshes of a reducer: name one, or leave them out")
            return self
        of_reducers = {"reducer", "constants", "wavelengths", "servers", "bits", "symbol_rate"}
        devices = [
            name
            for name, field in type(self).model_fields.items()
            if name not in of_reducers and getattr(self, name) != field.default
        ]
        if devices:
            raise ValueError(
                f"{devices[0]} is a figure of devices, and reducer {self.reducer!r} has its own: expected reducer: "
                "null, or constants of onn build --reducers"
            )
        return self


class BuiltAverager(Config):
    """Averagers and light that the bandwidth of a fabric needs; derived, and shown with the fabric."""

    reducer: str
    """Name of the averager's kind, as ``averaging.reducer`` takes it."""
    instances: Count
    """Averagers beside each other."""
    meshes: Annotated[int, Field(ge=0)] = 0
    """Passive meshes; fewer than instances where wavelengths share them."""
    instance_bandwidth: Bandwidth
    """Bytes per second of a rank through one instance."""
    lanes: Count
    """Lanes of a rank, of all instances."""
    watts: dict[str, float] = Field(default_factory=dict)
    """Watts by part of all instances, with the ranks' optical ends."""
    unknown: tuple[str, ...] = ()
    """Parts without a figure."""
    low: float | None = None
    """Watts in all that 5 % of the draws of all constants stay below."""
    high: float | None = None
    """Watts in all that 5 % of the draws exceed; null where no light suffices in these."""
    area: float | None = None
    """Square metres of photonics."""
    limits: tuple[str, ...] = ()
    """Sentences on the physical limits that the averager exceeds with this number of ranks."""
    needs: tuple[str, ...] = ()
    """Sentences on the conditions that the averager needs, such as locked lasers."""

    def text(self) -> str:
        """Return the averager in one line: reducer, instances, meshes where these are fewer, watts of lasers (local
        oscillators and carriers of units among them), of heaters and of electronics (all else) with the range of their
        sum in 90 % of draws, area of meshes in mm², unknown parts and conditions; what is absent or 0 is left out.
        Watts are those of all instances, and parts of the line are separated by semicolons: ``digit-sum, 2 instances of
        400 Gb/s a rank; lasers 10 W, electronics 5 W (12 W to 20 W in 90 % of draws); needs ...``. The range ends in
        ``no limit`` where no light suffices."""
        groups = {"lasers": ("lasers", "local oscillators", "carriers of units"), "heaters": ("heaters",)}
        known = {name: sum(self.watts.get(part, 0.0) for part in parts) for name, parts in groups.items()}
        known["electronics"] = sum(self.watts.values()) - sum(known.values())
        shown = ", ".join(f"{name} {format_quantity(watts, 'power')}" for name, watts in known.items() if watts > 0)
        meshes = f" on {self.meshes} meshes" if 0 < self.meshes < self.instances else ""
        line = f"{self.reducer}, {instances_text(self.instances, self.instance_bandwidth)}{meshes}; {shown}"
        if self.low is not None:
            most = "no limit" if self.high is None else format_quantity(self.high, "power")
            line += f" ({format_quantity(self.low, 'power')} to {most} in 90 % of draws)"
        if self.area:
            line += f"; {1e6 * self.area:.3g} mm2 of meshes"
        if self.unknown:
            line += f"; not known: {', '.join(self.unknown)}"
        if self.needs:
            line += f"; needs {', '.join(self.needs)}"
        return line


def instances_text(count: int, each: float) -> str:
    """Return a phrase such as ``2 instances of 400 Gb/s a rank``; ``each`` is the bytes per second of a rank through
    one instance."""
    return f"{count} instance{'s' * (count > 1)} of {format_bandwidth(each)} a rank"
