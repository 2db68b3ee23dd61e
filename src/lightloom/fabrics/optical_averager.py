"""The in-network averager of OptINC as a fabric: light from every rank is averaged on its way back to every rank.

rank i ──up i──▶ ╔══════════╗ ──down j──▶ rank j        what enters in a step leaves in the same step
                 ║ averager ║
                 ╚══════════╝

``averaging`` says what the averager is made of; levels, latency and energy then follow from its networks and meshes
(`photonics.averaging.hardware`), but for those that are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, ValidationError, model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.fields import Bandwidth, Config, Count, JoulesPerBit, Seconds, Watts
from lightloom.fabrics.footprint import Footprint
from lightloom.fabrics.star import StarGeometry

Positive = Annotated[float, Field(gt=0)]


class Averaging(Config):
    """What an averager is made of; devices left out are those of `photonics.averaging.hardware.Parts`."""

    servers: Count | None = None
    """Ports of one averager; beyond, two levels. Null: one averager for all ranks, however many."""
    bits: Annotated[int, Field(ge=1, le=32, strict=True)] = 8
    """Bits of a code."""
    noise: float | None = None
    """Noise that the network tolerates, as a share of full scale; null asks for exactness alone."""
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
    """Symbols a second."""

    def derived(self, ranks: int) -> dict[str, Any]:
        """Fields of the fabric, and where they come from; energy only where all its parts are known.

        Raises:
            ConfigError: more ranks than two levels reach.
            UnsupportedError: no network bears the noise.
        """
        from lightloom.photonics.averaging.hardware import Parts, averager_for

        chosen = self.model_dump(exclude_none=True, exclude={"servers", "bits", "noise", "nonlinearity"})
        parts = Parts(**chosen)
        made = averager_for(ranks, self.bits, servers=self.servers, noise=self.noise, nonlinearity=self.nonlinearity)
        levels, latency, energy = len(made.levels), made.latency(parts), made.energy_per_bit(parts)
        lacking = f"; a lower bound without {', '.join(latency.lacking)}" if latency.lacking else ""
        columns = sum(level.columns for level in made.levels)
        fields: dict[str, Any] = {"levels": levels, "averaging_latency": latency.value / levels}
        sources = {
            "levels": f"derived: averagers of {self.servers or ranks} ports for {ranks} ranks",
            "averaging_latency": f"derived: {columns} columns of MZIs in all{lacking}",
        }
        if energy.complete:
            # A bit crosses the fabric twice, up and down; each way is charged half.
            fields["energy_per_bit"] = energy.value / 2
            sources["energy_per_bit"] = "derived: " + ", ".join(energy.known)
        return fields | {"sources": sources}


class OpticalAverager(StarGeometry):
    """A star around an averaging optical neural network (OptINC, Fig. 2); it cannot carry rank-to-rank transfers."""

    kind: Literal["optical-averager"] = "optical-averager"
    bandwidth: Bandwidth = 800e9
    """Bytes per second of a rank's port, per direction."""
    averaging: Averaging | None = None
    """What the averager is made of: gives the three fields below where they are left out."""
    levels: Count = 1
    """Averagers in cascade between a rank and the root."""
    averaging_latency: Seconds = 0.0
    """Seconds that light and receivers spend in one level, both ways."""

    in_network_reduction: ClassVar[bool] = True

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("averaging") is None or type(data.get("ranks")) is not int:
            return data
        try:
            averaging = Averaging.model_validate(data["averaging"])
        except ValidationError:
            return data  # the field itself complains, and says where
        derived = averaging.derived(data["ranks"]) if data["ranks"] > 1 else {"sources": {}}
        sources = {key: text for key, text in derived.pop("sources").items() if key not in data}
        given = data.get("sources")
        if not isinstance(given, Mapping | None):
            return data
        return {**derived, **data, "sources": sources | dict(given or {})}

    @property
    def taps(self) -> int:
        return self.ranks

    def link_bandwidth(self) -> Floats:
        return np.full(self.links, self.bandwidth)

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        up = np.asarray(destination) == self.switch_rank
        return Footprint.of([(np.where(up, 0, self.ranks), np.where(up, source, destination), 1, self.ranks)])

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        up = np.asarray(destination) == self.switch_rank
        return self.hop_latency + np.where(up, self.levels * self.averaging_latency, 0.0)

    def diameter_latency(self) -> float:
        return 2 * self.hop_latency + self.levels * self.averaging_latency
