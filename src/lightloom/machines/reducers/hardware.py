"""Latency and power of an averager, from its devices.

    senders ─▶ P ─▶ W_1 ─▶ units ─▶ ... ─▶ W_L ─▶ T ─▶ receivers        columns of MZIs in each box
    modulators                                                           heaters everywhere, lasers in front

Matrices are mapped by economy SVDs. A device without a sourced figure contributes nothing, and the total names it: the
total is then a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from lightloom.core.errors import ConfigError
from lightloom.core.files import cache_directory, kept, source_hash
from lightloom.core.results import content_hash
from lightloom.machines.parts.part import load_part
from lightloom.machines.reducers.built import SYMBOL_RATE, Averaging
from lightloom.photonics.averaging.cascade import build_cascade
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.function import splitting_loss_db, symbols_for
from lightloom.photonics.averaging.networks import Nonlinearity, mzi_count, mzi_of_units
from lightloom.photonics.devices import LIGHT
from lightloom.photonics.meshes.mesh import layout

MEAN_PHASES = 1.5
"""Mean phase of an MZI's heaters together, in units of π: θ is up to π and φ up to 2π. An assumption, as it depends on
the matrices."""


MZI_LENGTH = 3e-4
"""Length of waveguide per column, in metres. An assumption: two heaters of about 0.1 mm and two couplers."""
GROUP_INDEX = 4.2
"""Group index of the waveguide. An assumption: silicon strips, 220 nm high, near 1550 nm."""


def _heater_power() -> float | None:
    """Return the watts of a heater for a phase of π, the static power of part ``heater`` of the catalog; None where it
    states none."""
    figure = load_part("heater").static_power
    return None if figure is None else figure.value


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over devices, and the devices without a figure."""

    known: dict[str, float]
    lacking: tuple[str, ...]

    @property
    def value(self) -> float:
        """Sum of the known figures: a lower bound unless `complete`."""
        return sum(self.known.values())

    @property
    def complete(self) -> bool:
        """True if every device has a figure."""
        return not self.lacking

    @classmethod
    def of(cls, **parts: float | None) -> Total:
        """Return a total of figures, given as keywords by the name of the device, all in one unit; names whose figure
        is None become ``lacking``."""
        known = {name: value for name, value in parts.items() if value is not None}
        return cls(known, tuple(name for name, value in parts.items() if value is None))


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragerLevel:
    """The identical averagers of one level."""

    averagers: int
    ports: int
    """Number of senders of one averager."""
    bits: int
    layers: tuple[int, ...]

    @property
    def signals(self) -> int:
        """Number of PAM4 signals by which a sender sends a code, one for each two bits, rounded up."""
        return symbols_for(self.bits)

    @property
    def columns(self) -> int:
        """Number of columns of MZIs that light passes from a sender to a receiver of this level: those of all matrices,
        P and T included."""
        ports = self.ports * self.signals
        matrices = [(self.layers[0], ports), *((o, i) for i, o in pairwise(self.layers)), (ports, self.layers[-1])]
        return sum(columns(outputs, inputs) for outputs, inputs in matrices)

    @property
    def mzis(self) -> int:
        """Number of MZIs of all averagers, with P and T."""
        units = mzi_of_units(self.ports, self.bits, self.layers[0], "economy")
        return self.averagers * (mzi_count(self.layers, "economy") + units)

    @property
    def units(self) -> int:
        """Number of nonlinear units of all averagers of the level, one for each output of a hidden layer."""
        return self.averagers * sum(self.layers[1:-1])


@dataclass(frozen=True, slots=True)
class AveragerHardware:
    """The levels of averagers from the servers to the root, with their latency and power."""

    servers: int
    levels: tuple[AveragerLevel, ...]

    def latency(self, parts: Averaging) -> Total:
        """Return the seconds from a sender's light to a receiver's code, of all levels, as parts: waveguides, units and
        receivers. ``parts`` states the devices; units and receivers are lacking where it has no figure, waveguides
        never, with 0.3 mm a column and a group index of 4.2 by default. Units count once for each hidden layer."""
        flight = self.depth * (parts.mzi_length or MZI_LENGTH) * (parts.group_index or GROUP_INDEX) / LIGHT
        layers = sum(len(level.layers) - 2 for level in self.levels)
        units = None if parts.unit_latency is None else layers * parts.unit_latency
        return Total.of(waveguides=flight, units=units, receivers=parts.receiver_latency)

    def power(self, parts: Averaging) -> Total:
        """Return the watts while all servers send, of all levels, as parts: heaters, units, amplifiers, lasers,
        modulators and receivers. ``parts`` states the devices and the symbol rate (50 GBd where it does not); those
        without a figure are lacking, but heaters, which then have the catalog's. Every MZI heats 1.5 π on average;
        units count those of hidden layers, amplifiers the outputs of all layers, modulators and receivers each bit of
        every server."""
        bits, rate = self.levels[0].bits, parts.symbol_rate or SYMBOL_RATE
        sent = self.servers * bits * rate
        mzis, units = sum(level.mzis for level in self.levels), sum(level.units for level in self.levels)
        outputs = sum(level.averagers * sum(level.layers[1:]) for level in self.levels)
        return Total.of(
            heaters=_times(_heater_power() if parts.heater_power is None else parts.heater_power, mzis * MEAN_PHASES),
            units=_times(parts.unit_energy, units * rate),
            amplifiers=_times(parts.amplifier_power, outputs),
            lasers=self._lasers(parts),
            modulators=_times(parts.modulator_energy, sent),
            receivers=_times(parts.receiver_energy, sent),
        )

    def _lasers(self, parts: Averaging) -> float | None:
        """Return the watts of electricity of the lasers of all servers, which supply every receiver through all columns
        and splitting; None where ``parts`` lacks sensitivity, loss or efficiency."""
        if parts.receiver_sensitivity is None or parts.loss_db is None or parts.laser_efficiency is None:
            return None
        loss = splitting_loss_db(self.servers, columns=self.depth, loss_db=parts.loss_db)
        return self.levels[0].signals * parts.receiver_sensitivity * 10 ** (loss / 10) / parts.laser_efficiency

    @property
    def depth(self) -> int:
        """Columns of MZIs from a sender to a receiver, of all levels."""
        return sum(level.columns for level in self.levels)

    def launched(self, parts: Averaging) -> float | None:
        """Return the watts of light that a server sends on each lane: what a receiver needs, times the loss of all
        columns; None where ``parts`` lacks the sensitivity of receivers or the loss of an MZI.

        All lanes of all servers share what every receiver needs, so that splitting cancels and the columns' loss stays.
        """
        if parts.receiver_sensitivity is None or parts.loss_db is None:
            return None
        return parts.receiver_sensitivity * 10 ** min(self.depth * parts.loss_db / 10, 300)


def columns(outputs: int, inputs: int) -> int:
    """Return the number of columns of MZIs that light passes in a matrix of ``outputs`` by ``inputs`` that is mapped by
    an economy SVD, in closed form: the depths of its two meshes (triangular where inputs and outputs differ, on the
    larger side, else rectangular) and one column for the singular values between them."""
    side = min(outputs, inputs)
    first = layout("triangular" if inputs > outputs else "rectangular", inputs, side)
    return first.depth + 1 + layout("triangular" if outputs > inputs else "rectangular", side, outputs).depth


def of_layers(servers: int, bits: int, layers: Sequence[int]) -> AveragerHardware:
    """Return the hardware of a single averager for so many servers and codes of ``bits`` bits whose network has
    ``layers`` values in each layer, from the inputs (behind P) to the outputs (before T), both included."""
    return AveragerHardware(servers, (AveragerLevel(averagers=1, ports=servers, bits=bits, layers=tuple(layers)),))


@lru_cache(maxsize=64)
def averager_for(
    ranks: int,
    bits: int,
    *,
    servers: int | None = None,
    noise: float | None = None,
    nonlinearity: Nonlinearity = "relu",
) -> AveragerHardware:
    """Return the hardware of the constructed averager for ``ranks`` ranks: one level, or two if ``servers``, the ports
    of one averager, are fewer than the ranks: ``ranks / servers`` averagers, rounded up, of ``servers`` ports each, and
    one behind them with a port for each of these.

    The layers' widths are cached in the folder ``averagers`` of :func:`~lightloom.core.files.cache_directory`, since
    the search for a network that tolerates noise takes longest.

    Args:
        ranks: number of ranks.
        bits: bits of a code.
        servers: ports of one averager; None for as many as there are ranks.
        noise: noise that the network must tolerate, as a share of full scale; None for exactness alone.
        nonlinearity: nonlinearity of the network's units.

    Raises:
        ConfigError: there are more than ``servers`` squared ranks, which two levels do not reach, or an argument is out
            of range.
        UnsupportedError: no network tolerates the noise.
    """
    groups = 1 if servers is None else -(-ranks // servers)
    if servers is not None and groups > servers:
        raise ConfigError(f"{ranks} ranks: two levels of averagers for {servers} servers each reach {servers**2}")
    key = [ranks, bits, servers, noise, nonlinearity, source_hash("photonics/averaging", "photonics/meshes")]
    path = cache_directory() / "averagers" / f"{content_hash(key)}.json"

    def found() -> list[tuple[int, ...]]:
        """Return the layers of the network, or of both of a cascade."""
        if servers is None or groups == 1:
            return [build(ranks, bits, noise=noise, nonlinearity=nonlinearity).network.layers]
        cascade = build_cascade(groups, servers, bits, nonlinearity, noise)
        return [cascade.first.network.layers, cascade.second.network.layers]

    layers = [tuple(level) for level in kept(path, found)]
    if servers is None or groups == 1:
        return of_layers(ranks, bits, layers[0])
    return AveragerHardware(
        ranks,
        (
            AveragerLevel(averagers=groups, ports=servers, bits=bits, layers=layers[0]),
            AveragerLevel(averagers=1, ports=groups, bits=bits, layers=layers[1]),
        ),
    )


def _times(value: float | None, count: float) -> float | None:
    """Return the value times the count; None where the value is None."""
    return None if value is None else value * count
