"""What an averager takes in time and power, from its parts: how long light is under way, and what keeps it going.

    senders ─▶ P ─▶ W_1 ─▶ units ─▶ ... ─▶ W_L ─▶ T ─▶ receivers        columns of MZIs in each box
    modulators                                                           heaters everywhere, lasers in front

Matrices are mapped by economy SVDs. A part of which no figure is at hand adds nothing, and the total says that it lacks
it: it is a lower bound then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.cascade import build_cascade
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.realised.area import mzi_count, mzi_of_units
from lightloom.photonics.averaging.realised.networks import Nonlinearity
from lightloom.photonics.meshes.averager_units import splitting_loss_db
from lightloom.photonics.meshes.layout import layout
from lightloom.photonics.pam4 import symbols_for

LIGHT = 299792458.0
"""Metres per second."""
MEAN_PHASES = 1.5
"""Phase that an MZI's heaters hold, in units of π: θ anywhere up to π, φ anywhere up to 2π. An assumption, since it
depends on the matrices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Devices that averagers are made of; None where no source is at hand."""

    mzi_length: float = 3e-4
    """Metres of waveguide in a column. An assumption: two heaters of about 0.1 mm and two couplers."""
    group_index: float = 4.2
    """Of the waveguide. An assumption: silicon strips, 220 nm high, near 1550 nm."""
    unit_latency: float | None = None
    """Seconds in a nonlinear unit (`photonics.nonlinear` says why none is stated)."""
    receiver_latency: float | None = None
    """Seconds from light to a code."""
    heater_power: float | None = 21.4e-3
    """Watts for a phase of π: a TiN heater on a silicon strip, table of thermo-optic shifters in the review
    Micromachines 13, 1509 (2022), its reference 67; heaters without trenches take 10 to 58 mW there."""
    unit_energy: float | None = None
    """Joules of a nonlinear unit for each symbol."""
    receiver_sensitivity: float | None = None
    """Watts that a receiver needs."""
    loss_db: float | None = None
    """Of an MZI, in power."""
    laser_efficiency: float | None = None
    """Light out for electricity in."""
    modulator_energy: float | None = None
    """Joules a bit sent."""
    receiver_energy: float | None = None
    """Joules a bit received."""
    amplifier_power: float | None = None
    """Watts of one amplifier; one stands behind every output of every layer."""
    symbol_rate: float = 50e9
    """Symbols a second of every signal. An assumption: 100 Gb/s a PAM4 lane, eight of which make an 800 Gb/s port."""

    def __post_init__(self) -> None:
        for name in ("mzi_length", "group_index", "symbol_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} = {getattr(self, name)}: expected more than 0")
        if self.laser_efficiency is not None and not 0 < self.laser_efficiency <= 1:
            raise ConfigError(f"laser_efficiency = {self.laser_efficiency}: expected a share above 0")


@dataclass(frozen=True, slots=True)
class Total:
    """A sum of what is known, and what is not."""

    known: dict[str, float]
    lacking: tuple[str, ...]

    @property
    def value(self) -> float:
        """Sum of what is known: a lower bound where something lacks."""
        return sum(self.known.values())

    @property
    def complete(self) -> bool:
        """Whether nothing lacks."""
        return not self.lacking

    @classmethod
    def of(cls, **parts: float | None) -> Total:
        """From figures by name, None where there is none."""
        known = {name: value for name, value in parts.items() if value is not None}
        return cls(known, tuple(name for name, value in parts.items() if value is None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Averagers side by side on one level, all alike."""

    averagers: int
    ports: int
    """Senders of one averager."""
    bits: int
    layers: tuple[int, ...]

    @property
    def signals(self) -> int:
        """PAM4 signals of a sender."""
        return symbols_for(self.bits)

    @property
    def columns(self) -> int:
        """Columns of MZIs from a sender to a receiver."""
        ports = self.ports * self.signals
        matrices = [(self.layers[0], ports), *((o, i) for i, o in pairwise(self.layers)), (ports, self.layers[-1])]
        return sum(columns(outputs, inputs) for outputs, inputs in matrices)

    @property
    def mzis(self) -> int:
        """MZIs of all averagers, P and T included."""
        units = mzi_of_units(self.ports, self.bits, self.layers[0], "economy")
        return self.averagers * (mzi_count(self.layers, "economy") + units)

    @property
    def units(self) -> int:
        """Nonlinear units of all averagers."""
        return self.averagers * sum(self.layers[1:-1])


@dataclass(frozen=True, slots=True)
class AveragerHardware:
    """Levels from the servers to the root."""

    servers: int
    levels: tuple[Level, ...]

    def latency(self, parts: Parts) -> Total:
        """Seconds from a sender's light to a receiver's code, both ways through every level."""
        flight = sum(level.columns for level in self.levels) * parts.mzi_length * parts.group_index / LIGHT
        layers = sum(len(level.layers) - 2 for level in self.levels)
        units = None if parts.unit_latency is None else layers * parts.unit_latency
        return Total.of(waveguides=flight, units=units, receivers=parts.receiver_latency)

    def power(self, parts: Parts) -> Total:
        """Watts of everything while symbols flow."""
        bits, rate = self.levels[0].bits, parts.symbol_rate
        sent = self.servers * bits * rate
        mzis, units = sum(level.mzis for level in self.levels), sum(level.units for level in self.levels)
        outputs = sum(level.averagers * sum(level.layers[1:]) for level in self.levels)
        return Total.of(
            heaters=_times(parts.heater_power, mzis * MEAN_PHASES),
            units=_times(parts.unit_energy, units * rate),
            amplifiers=_times(parts.amplifier_power, outputs),
            lasers=self._lasers(parts),
            modulators=_times(parts.modulator_energy, sent),
            receivers=_times(parts.receiver_energy, sent),
        )

    def _lasers(self, parts: Parts) -> float | None:
        """Watts of electricity for the light that every receiver needs behind all columns and all splitting."""
        if parts.receiver_sensitivity is None or parts.loss_db is None or parts.laser_efficiency is None:
            return None
        depth = sum(level.columns for level in self.levels)
        loss = splitting_loss_db(self.servers, columns=depth, loss_db=parts.loss_db)
        return self.levels[0].signals * parts.receiver_sensitivity * 10 ** (loss / 10) / parts.laser_efficiency

    def energy_per_bit(self, parts: Parts) -> Total:
        """Joules for each bit that one server sends and that it gets back."""
        power, sent = self.power(parts), self.servers * self.levels[0].bits * parts.symbol_rate
        return Total({name: watts / sent for name, watts in power.known.items()}, power.lacking)

    def to_json(self, parts: Parts) -> dict[str, Any]:
        """All of it."""
        latency, power = self.latency(parts), self.power(parts)
        return {
            "levels": len(self.levels),
            "columns": sum(level.columns for level in self.levels),
            "mzi_count": sum(level.mzis for level in self.levels),
            "nonlinear_units": sum(level.units for level in self.levels),
            "latency_s": latency.value,
            "latency_lacks": list(latency.lacking),
            "power_w": power.value,
            "power_lacks": list(power.lacking),
            "energy_per_bit_j": self.energy_per_bit(parts).value,
        }


def columns(outputs: int, inputs: int) -> int:
    """Columns of MZIs of an economy SVD: those of `meshes.map_matrix`, without mapping anything."""
    side = min(outputs, inputs)
    first = layout("triangular" if inputs > outputs else "rectangular", inputs, side)
    last = layout("triangular" if outputs > inputs else "rectangular", side, outputs)
    return first.depth + 1 + last.depth


def of_layers(servers: int, bits: int, layers: Sequence[int]) -> AveragerHardware:
    """One averager around a network of these signals."""
    return AveragerHardware(servers, (Level(averagers=1, ports=servers, bits=bits, layers=tuple(layers)),))


@lru_cache(maxsize=64)
def averager_for(
    ranks: int,
    bits: int,
    *,
    servers: int | None = None,
    noise: float | None = None,
    nonlinearity: Nonlinearity = "relu",
) -> AveragerHardware:
    """The constructed averager that serves ``ranks``: one, or two levels where each has ``servers`` ports only.

    Raises:
        ConfigError: more ranks than two levels reach, or an argument out of range.
        UnsupportedError: no network bears the noise.
    """
    if servers is None or ranks <= servers:
        return of_layers(ranks, bits, build(ranks, bits, noise=noise, nonlinearity=nonlinearity).network.layers)
    groups = -(-ranks // servers)
    if groups > servers:
        raise ConfigError(f"{ranks} ranks: two levels of averagers for {servers} servers each reach {servers**2}")
    if noise is not None:
        raise ConfigError(f"noise = {noise:g}: expected none for two levels, whose networks are chosen for exactness")
    made = build_cascade(groups, servers, bits, nonlinearity)
    first, second = made.first.network.layers, made.second.network.layers
    return AveragerHardware(
        ranks,
        (
            Level(averagers=groups, ports=servers, bits=bits, layers=first),
            Level(averagers=1, ports=groups, bits=bits, layers=second),
        ),
    )


def _times(value: float | None, count: float) -> float | None:
    return None if value is None else value * count
