"""The in-network averager of OptINC as a fabric: light from every rank is averaged on its way back to every rank.

rank i ──up i──▶ ╔══════════╗ ──down j──▶ rank j        what enters in a step leaves in the same step
                 ║ averager ║
                 ╚══════════╝

``averaging`` says what the averager is made of; levels, latency, power and how many instances the bandwidth takes
follow from it (`machines.reducers.capacity`, or `machines.reducers.hardware` for a network of given devices), but for
what is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnitError
from lightloom.core.fields import Bandwidth, Config, Count, JoulesPerBit, Seconds, Watts
from lightloom.core.units import format_bandwidth, format_quantity, parse
from lightloom.machines.fabrics.bills.grids import averager_bill
from lightloom.machines.fabrics.derived import Footprint
from lightloom.machines.fabrics.packets import StarGeometry
from lightloom.machines.parts.bill import Bill, BillChoices
from lightloom.machines.parts.part import Kind

if TYPE_CHECKING:
    from lightloom.machines.reducers.capacity import Capacity
    from lightloom.machines.reducers.hardware import AveragerHardware, Parts


# What an averager is made of, and what the bandwidth of a fabric takes of it.

SYMBOL_RATE = 50e9
"""Symbols a second of every lane, an assumption: PAM4 lanes of 100 Gb/s."""
Positive = Annotated[float, Field(gt=0)]


class Averaging(Config):
    """Parts that an averager is made of; devices left out are those of `machines.reducers.hardware.Parts`."""

    reducer: str | None = None
    """A reducer of `lightloom onn compare-reducers`, whose watts, latency and area all instances then have; null: a
    constructed network of the devices below, most of which have no figure."""
    constants: dict[str, float] | None = None
    """Constants of the reducer to replace, by name, in the units of `compare-reducers`."""
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
                "null, or constants of onn compare-reducers"
            )
        return self

    def derived(self, ranks: int, bandwidth: float) -> dict[str, Any]:
        """Return the fields of a fabric of ``bandwidth`` bytes a second a rank, and where they come from.

        Raises:
            ConfigError: more ranks than two levels reach.
            UnsupportedError: no network bears the noise, or there is no such reducer for so many ranks.
        """
        return self._of_reducer(ranks, bandwidth) if self.reducer else self._of_devices(ranks, bandwidth)

    def _of_reducer(self, ranks: int, bandwidth: float) -> dict[str, Any]:
        from lightloom.machines.reducers.capacity import capacity

        assert self.reducer is not None
        made = capacity(
            self.reducer,
            ranks,
            bandwidth,
            bits=self.bits,
            symbol_rate=self.symbol_rate or SYMBOL_RATE,
            ports=self.servers,
            wavelengths=self.wavelengths,
            given=self.constants,
        )
        built = BuiltAverager.of(made)
        origin = f"{self.reducer} of lightloom onn compare-reducers"
        most = "no limit" if made.high is None else f"{made.high:.3g}"
        sources = {
            "levels": f"derived: {origin}",
            "averaging_latency": f"assumption: derived from {origin}, fibres left out",
            "power_per_rank": (
                f"assumption: derived from {origin}, {made.assumed} of whose constants are assumptions; all instances "
                f"{made.low:.3g} to {most} W in 90 % of draws{_of_levels(made.levels)}"
            ),
            "energy_per_bit": "derived: every part draws its power busy or idle, in power_per_rank",
            "built": f"derived: {instances_text(made.instances, made.instance_bandwidth)}",
        }
        return {
            "levels": made.levels,
            "averaging_latency": made.latency / made.levels,
            "power_per_rank": made.total / ranks,
            "energy_per_bit": 0.0,
            "built": built,
            "sources": sources,
        }

    def _of_devices(self, ranks: int, bandwidth: float) -> dict[str, Any]:
        """Return the fields from a constructed network of the given devices; energy only where all its parts are
        known."""
        from lightloom.machines.reducers.capacity import instance_bandwidth, instances_for
        from lightloom.machines.reducers.hardware import Parts, averager_for

        given = {"reducer", "constants", "wavelengths", "servers", "bits", "noise", "nonlinearity"}
        parts = Parts(**self.model_dump(exclude_none=True, exclude=given))
        made = averager_for(ranks, self.bits, servers=self.servers, noise=self.noise, nonlinearity=self.nonlinearity)
        levels, latency, power = len(made.levels), made.latency(parts), made.power(parts)
        lacking = f"; a lower bound without {', '.join(latency.lacking)}" if latency.lacking else ""
        columns = sum(level.columns for level in made.levels)
        count = instances_for(bandwidth, self.bits, parts.symbol_rate)
        each = instance_bandwidth(self.bits, parts.symbol_rate)
        built = BuiltAverager(
            reducer="constructed network",
            instances=count,
            meshes=count,
            instance_bandwidth=each,
            lanes=count * made.levels[0].signals,
            watts={name: watts * count for name, watts in power.known.items()},
            unknown=power.lacking,
            limits=_limits(made, parts),
        )
        fields: dict[str, Any] = {"levels": levels, "averaging_latency": latency.value / levels, "built": built}
        sources = {
            "levels": f"derived: averagers of {self.servers or ranks} ports for {ranks} ranks",
            "averaging_latency": f"derived: {columns} columns of MZIs in all{lacking}",
            "built": f"derived: {instances_text(count, each)}",
        }
        if power.complete:
            fields |= {"power_per_rank": power.value * count / ranks, "energy_per_bit": 0.0}
            sources["power_per_rank"] = f"derived: {', '.join(power.known)}; {count} instances"
            sources["energy_per_bit"] = "derived: every part draws its power busy or idle, in power_per_rank"
        return fields | {"sources": sources}


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

    @classmethod
    def of(cls, made: Capacity) -> BuiltAverager:
        """Make it of a computed capacity."""
        names = (
            "reducer",
            "instances",
            "meshes",
            "instance_bandwidth",
            "lanes",
            "low",
            "high",
            "area",
            "limits",
            "needs",
        )
        return cls(watts=dict(made.watts), **{name: getattr(made, name) for name in names})

    def text(self) -> str:
        """Return it in a line for people."""
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


def _of_levels(levels: int) -> str:
    """Return how the light of several levels came about: it was not simulated."""
    return (
        "" if levels == 1 else "; light of two levels is one level's, scaled by the noise they must bear, not simulated"
    )


def _limits(made: AveragerHardware, parts: Parts) -> tuple[str, ...]:
    """Return what keeps an averager from being built: light that no modulator bears, and the loss that asks for it."""
    from lightloom.machines.reducers.constants import published

    launched, borne = made.launched(parts), published()["modulator_limit"]
    if launched is None or parts.loss_db is None or launched <= borne.si(borne.value):
        return ()
    columns = f"{made.depth} columns of interferometers of {parts.loss_db:g} dB"
    bear = f"{borne.value:g} {borne.unit} ({borne.source.partition(':')[0]})"
    return (
        f"{format_quantity(launched, 'power')} of light a lane at the servers' modulators, which bear {bear}: "
        f"{columns} lose {made.depth * parts.loss_db:.4g} dB; its watts and joules are not those of anything built",
    )


def instances_text(count: int, each: float) -> str:
    """Return how many instances of which bandwidth there are."""
    return f"{count} instance{'s' * (count > 1)} of {format_bandwidth(each)} a rank"


_DERIVED = ("derived", "assumption: derived")
"""How the sources of derived fields begin."""


class OpticalAverager(StarGeometry):
    """A star around an averaging optical neural network (OptINC, Fig. 2); it cannot carry rank-to-rank transfers."""

    kind: Literal["optical-averager"] = "optical-averager"
    bandwidth: Bandwidth = 800e9
    """Bytes per second of a rank's port, per direction."""
    averaging: Averaging | None = None
    """Parts that the averager is made of: gives the fields below, and the power of a rank, where they are left out."""
    levels: Count = 1
    """Averagers in cascade between a rank and the root."""
    averaging_latency: Seconds = 0.0
    """Seconds that light and receivers spend in one level, both ways."""
    built: BuiltAverager | None = None
    """Averagers and light that the bandwidth needs; derived from ``averaging``."""

    in_network_reduction: ClassVar[bool] = True
    stated_power_of: ClassVar[tuple[Kind, ...] | None] = ("transceiver", "averager")

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("averaging") is None or type(data.get("ranks")) is not int:
            return data
        try:
            averaging = Averaging.model_validate(data["averaging"])
        except ValidationError:
            return data  # the field itself complains, and says where
        try:
            bandwidth = parse(data.get("bandwidth", cls.model_fields["bandwidth"].default), "bandwidth")
        except UnitError:
            return data
        if not 0 < bandwidth < float("inf"):
            return data
        derived = averaging.derived(data["ranks"], bandwidth) if data["ranks"] > 1 else {"sources": {}}
        sources = {key: text for key, text in derived.pop("sources").items() if key not in data}
        given = data.get("sources")
        if not isinstance(given, Mapping | None):
            return data
        return {**derived, **data, "sources": sources | dict(given or {})}

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        watts, unknown = (self.built.watts, self.built.unknown) if self.built is not None else ({}, ())
        return averager_bill(self.ranks, self.bandwidth, watts, unknown, choices)

    @property
    def built_of(self) -> str:
        return "" if self.built is None else self.built.text()

    @property
    def warnings(self) -> tuple[str, ...]:
        return () if self.built is None else self.built.limits

    def stated_fields(self) -> dict[str, object]:
        """Return the fields without those that follow from ``averaging``."""
        derived = set()
        if self.averaging is not None:
            derived = {name for name, source in self.sources.items() if source.startswith(_DERIVED)}
        fields = {name: value for name, value in super().stated_fields().items() if name not in derived}
        return fields | {"sources": {name: text for name, text in self.sources.items() if name not in derived}}

    @property
    def taps(self) -> int:
        return self.ranks

    @property
    def port_bandwidth(self) -> float:
        return self.bandwidth

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        up = np.asarray(destination) == self.switch_rank
        return Footprint.of([(np.where(up, 0, self.ranks), np.where(up, source, destination), 1, self.ranks)])

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        up = np.asarray(destination) == self.switch_rank
        return self.hop_latency + np.where(up, self.levels * self.averaging_latency, 0.0)

    def diameter_latency(self) -> float:
        return 2 * self.hop_latency + self.levels * self.averaging_latency
