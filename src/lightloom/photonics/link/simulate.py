"""One fabrication of a link, and the words that its servers receive.

    z = (gain · Re(H x) + bias) · (1 + laser noise) + noise,   x' = unit(z)

Fields are relative to full scale. Gains and biases are set on the fabricated chip (`calibration`), so that loss costs
noise and is no error; gain and bias errors come on top. Biases are fields of the chip's laser that enter in
front of the gain, so that this laser's noise moves no threshold behind the first layer. Behind the last layer T divides
the fields of the signals, and each server detects its own share; receivers follow the carrier's phase.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Codes, Effort, Float32s, Floats, Ints, Mask
from lightloom.core.results import Document
from lightloom.photonics.averaging.averagers import in_chunks
from lightloom.photonics.averaging.function import (
    LEVELS,
    AveragingFunction,
    check_codes,
    digits,
    points_of_servers,
    symbols_for,
)
from lightloom.photonics.averaging.mapped import (
    MappedAverager,
    Part,
    guide_crossings,
    map_averager,
    output_factors,
    set_levels,
)
from lightloom.photonics.averaging.networks import FunctionArguments, LayeredNetwork, light_biases, light_units
from lightloom.photonics.detection import homodyne_variance
from lightloom.photonics.devices import Complex, NonIdealities, amplifier_noise
from lightloom.photonics.link.settings import AMPLIFIER_LIMIT, Calibration, Link
from lightloom.photonics.meshes.disturb import disturb
from lightloom.photonics.meshes.mapping import BALANCED, MeshMapping, decibels, positive
from lightloom.photonics.nonlinear import linear_height

# Senders: levels of PAM4 to fields at the chip.
#
# field of a lane = √(1 + power error) · √(1 + laser noise) · cos(polarisation) · e^{i phase} · level / 3
#
# in units of the field of a full level. Every lane of a server has a laser, a modulator and a fibre of its own, whose
# errors are drawn on their own. A skewed lane's symbols are read off their centre: with raised-cosine
# transitions one symbol long, the neighbour's share at an offset of s symbols is sin²(π s / 2).


@dataclass(frozen=True, slots=True, eq=False)
class Senders:
    """The static errors of the servers' lanes of one fabrication; every array is [servers, signals]."""

    amplitude: Floats
    """Field that reaches the chip's polarisation, relative to the design."""
    skew: Floats
    """Time of arrival in symbols: positive lanes are late."""

    @classmethod
    def draw(cls, servers: int, signals: int, link: Link, rng: np.random.Generator) -> Senders:
        """Return the drawn errors of the lanes of one fabrication: ``signals`` lanes of each of ``servers`` servers.

        ``amplitude`` is the field relative to the design, √(1 + power error) · cos(angle of polarisation), with
        Gaussian errors; ``skew`` is the time of arrival in symbols, limited to one symbol early or late. Both are
        [servers, signals].
        """
        power, angle, late = rng.normal(size=(3, servers, signals))
        amplitude = np.sqrt(np.maximum(1 + link.power_error * power, 0.0)) * np.cos(link.polarisation * angle)
        return cls(amplitude, np.clip(link.skew * late, -1.0, 1.0))


def modulate(codes: Ints, bits: int, link: Link, senders: Senders, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return the fields of all lanes as real and imaginary parts, [2, servers · signals, words], 1 being the highest
    level.

    Consecutive words are consecutive symbols of every lane; the row of a lane is server · signals + signal, most
    significant first. With intensity modulation, powers and not fields are proportional to the levels. A skewed lane
    reads the share sin²(π/2 · skew) of the symbol before (if it is late) or behind its own, where the last word stands
    before the first.

    Args:
        codes: codes of the servers, [servers, words].
        bits: bits per code.
        link: gives the modulation, the lasers' noise and the errors of their phases.
        senders: static errors of the lanes.
        rng: generator of the noise.
    """
    levels = digits(codes, bits) / np.float32(LEVELS - 1)
    fields = np.sqrt(levels) if link.modulation == "intensity" else levels
    if senders.skew.any():
        share = (np.sin(np.pi / 2 * senders.skew) ** 2).astype(np.float32)[..., None]
        beside = np.where((senders.skew > 0)[..., None], np.roll(fields, 1, axis=2), np.roll(fields, -1, axis=2))
        fields = fields + share * (beside - fields)
    strength = np.broadcast_to(senders.amplitude.astype(np.float32)[..., None], fields.shape)
    if link.rin_db is not None:
        strength = strength * laser_noise(link, fields.shape, rng)
    along, across = strength, np.zeros_like(strength)
    if link.phase_lock:
        angles = np.float32(link.phase_lock) * rng.standard_normal(fields.shape, np.float32)
        along, across = strength * np.cos(angles), strength * np.sin(angles)
    return np.stack([fields * along, fields * across]).reshape(2, -1, codes.shape[1])


def laser_noise(link: Link, shape: tuple[int, ...], rng: np.random.Generator) -> Float32s:
    """Return field amplitudes of lasers, around 1, with relative intensity noise over the detectors' bandwidth.

    They are float32 of ``shape``, drawn independently: roots of powers that are Gaussian about 1, with variance RIN ·
    bandwidth, and at least 0; all are 1 if the link has no such noise. Intensity noise is seen where light is detected,
    and only as fast as detectors are.
    """
    if link.rin_db is None:
        return np.ones(shape, np.float32)
    deviation = np.float32(np.sqrt(10 ** (link.rin_db / 10) * link.detector_bandwidth))
    return np.asarray(np.sqrt(np.maximum(1 + deviation * rng.standard_normal(shape, np.float32), 0)), np.float32)


# Balanced homodyne detection, and optical amplification: noise in units of the field of full scale.
#
# photocurrent = 2 R √(P_LO P) Re(field),   variance = 2 e R P_LO B + i_n² B
#
# The oscillator's mean power cancels between the two photodiodes, its shot noise does not. Its relative intensity
# noise multiplies the signal (`simulate`).


def homodyne_noise(link: Link, loss_db: float = 0.0) -> float:
    """Return the standard deviation of a homodyne-detected field, relative to the amplitude of full scale.

    It holds the oscillator's shot noise, if the link has it, and the electrical amplifier's noise. ``loss_db`` is loss
    in front of the detector, by which full scale is weaker there.
    """
    shining = link.local_oscillator if link.shot_noise else 0.0
    current = math.sqrt(homodyne_variance(shining, link.responsivity, link.noise_density, link.detector_bandwidth))
    power = link.full_scale * 10 ** (-loss_db / 10)
    return current / (2 * link.responsivity * math.sqrt(link.local_oscillator * power))


def emitted_noise(link: Link, gains: Floats) -> Floats:
    """Return the field noise per quadrature behind optical amplifiers, relative to full scale, in the shape of
    ``gains``.

    ``gains`` are amplitude gains. The noise is 0 everywhere with electrical gain or without amplifier noise. A gain of
    at most 1 is an attenuator and adds none.
    """
    if link.gain == "electrical" or not link.amplifier_noise:
        return np.zeros_like(gains)
    return amplifier_noise(np.maximum(np.square(gains), 1.0), link.noise_figure_db, link.bandwidth, link.full_scale)


# Transfer functions of the nonlinear units behind a mesh, and which units decide bits.
#
# Amplitudes are relative to full scale. A unit *decides* when no argument that can occur lies between its rails or
# near them, as those of constructed bits do: any limiter serves there. Other units *keep* a value and need a linear
# driver.

DECIDED_MARGIN = 0.25
"""Distance from both rails, in units of the distance between them, that every argument of a deciding unit keeps."""
_POINTS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units of one layer."""

    decides: Mask
    """Which units decide a bit, [units]."""
    ceilings: NDArray[np.float32]
    """Largest output of each unit, [units]."""
    saturates: bool
    """True if outputs end at the ceiling; plain ReLUs go on."""

    def transfer(self, arguments: NDArray[np.float32], link: Link) -> NDArray[np.float32]:
        """Return the outputs [units, words] of arguments [units, words], both amplitudes; negative arguments give 0.

        With ideal clipping outputs equal arguments, up to the ceiling if the units saturate; limiting units give
        ceiling · sin(π/2 · argument / ceiling) where they decide a bit, else ceiling · h · sin(swing · argument /
        ceiling), with the link's ``swing`` and the height h that `linear_height` fits to it; beyond the ceiling the
        argument counts as the ceiling. The arguments may be overwritten.
        """
        np.maximum(arguments, 0, out=arguments)
        if link.unit == "clip":
            return np.minimum(arguments, self.ceilings[:, None], out=arguments) if self.saturates else arguments
        arguments /= self.ceilings[:, None]
        np.minimum(arguments, 1, out=arguments)
        swings = np.where(self.decides, math.pi / 2, link.swing).astype(np.float32)[:, None]
        heights = np.where(self.decides, 1.0, linear_height(link.swing)).astype(np.float32)[:, None]
        return np.asarray(self.ceilings[:, None] * heights * np.sin(swings * arguments), np.float32)


def sent_on(outputs: NDArray[np.float32], link: Link) -> NDArray[np.float32]:
    """Return the fields with which modulators at null send on the outputs of the last layer to T, the matrix that
    divides them among the servers, in units of full scale.

    Outputs of both signs are limited to -1 to 1; limiting modulators send h · sin(swing · output), with the link's
    ``swing`` and the height h of `linear_height`.
    """
    limited = np.clip(outputs, -1, 1)
    if link.unit == "clip":
        return limited
    return np.asarray(linear_height(link.swing) * np.sin(np.float32(link.swing) * limited), np.float32)


def units_of(network: LayeredNetwork, function: AveragingFunction, light_units: tuple[float, ...]) -> list[Units]:
    """Return the units of every hidden layer, in the order of the light: which decide bits, and their ceilings in
    amplitude.

    A clipped unit decides a bit (units without clipping never do) if every argument, as a signal, lies at least 0.25
    below 0 or above 1, tried on all points of the grid or on 65,536 random ones if it has more. A ceiling is 1 for
    clipped units, else the signal's full scale, over the signal that amplitude 1 stands for.

    Args:
        network: the averaging network.
        function: the function that it computes, for the grid.
        light_units: signal that amplitude 1 stands for, at the inputs and behind every layer.
    """
    points = next(iter(function.grid(_POINTS)))
    if function.points > _POINTS:
        rng = np.random.default_rng(0)
        points = np.stack([rng.integers(0, i.maximum + 1, _POINTS) for i in function.inputs])
    signals = network.signals(function.light(points))
    saturates = network.nonlinearity == "clipped"
    units = []
    for layer in range(1, len(network.weights)):
        arguments = network.weights[layer - 1] @ signals[layer - 1] + network.biases[layer - 1][:, None]
        decides = saturates & (np.maximum(-arguments, arguments - 1).min(axis=1) >= DECIDED_MARGIN)
        ceilings = np.ones(len(decides)) if saturates else np.maximum(network.full_scale[layer], 1e-9)
        units.append(Units(decides, (ceilings / light_units[layer]).astype(np.float32), saturates))
    return units


# Words that are tried: half of them uniform, half near-equal, as the gradients of similar batches are.

NEAR = 2
"""Largest difference of a server's code from the common one in near-equal words."""


def draw_words(servers: int, bits: int, count: int, rng: np.random.Generator) -> Ints:
    """Return random codes [servers, count]: each word, a column, is uniform or near-equal with equal odds.

    The codes of a near-equal word are a common one plus -2 to 2 each, cut to the range of ``bits``.
    """
    largest = (1 << bits) - 1
    codes = rng.integers(0, largest + 1, (servers, count))
    near = rng.random(count) < 0.5
    common = codes[0, near]
    codes[:, near] = np.clip(common + rng.integers(-NEAR, NEAR + 1, (servers, common.size)), 0, largest)
    return codes


# Setting gains, biases and levels on a fabricated chip.
#
# none     as designed
# rows     every gain brings its row nearest to the designed one (least squares over the row's elements)
# levels   rows, and the levels of the lanes and of the units' outputs, which make up for the loss of their paths
# words    every gain and bias brings its argument nearest to the designed one over known words (a regression on what
# the detector reads)
#
# Words weigh what signals do together: errors of elements whose signals rise and fall together cancel in the gain,
# and those of their mean values in the bias.

KNOWN_WORDS = 20_000


class Statistics(NamedTuple):
    """Means [signals] and covariances [signals, signals] of the inputs of a matrix over known words."""

    means: Floats
    covariances: Floats


class Calibrated(NamedTuple):
    """Gains, biases and levels that calibration sets at one matrix of a fabricated chip."""

    gains: Floats
    """Amplitude gain of every output, [outputs]."""
    added: Floats
    """Correction added to the bias of every output, [outputs]."""
    levels: Floats
    """Field of every input relative to the designed one, [inputs]."""


def word_statistics(
    network: LayeredNetwork, arguments: FunctionArguments, function: AveragingFunction
) -> list[Statistics]:
    """Return means [signals] and covariances [signals, signals] of signals over 20,000 known words, half of them
    near-equal, for the matrices of the chip in the order of the light.

    They are those of the servers' lanes (for P and the first layer), of the inputs of every further layer, and of T's
    inputs, without errors, and relative to full scale: to the highest PAM4 level of a lane, or to the largest full
    scale of the layer.
    """
    codes = draw_words(arguments.servers, arguments.bits, KNOWN_WORDS, np.random.default_rng(0))
    lanes = digits(codes, arguments.bits).reshape(-1, KNOWN_WORDS) / (LEVELS - 1)
    signals = network.signals(function.light(points_of_servers(codes, arguments.bits, function)))[1:]
    fields = [signal / unit for signal, unit in zip(signals, light_units(network)[1:], strict=True)]
    return [Statistics(x.mean(axis=1), np.atleast_2d(np.cov(x))) for x in (lanes, *fields)]


def calibrated(
    passive: Complex, target: Floats, designed: Floats, statistics: Statistics, how: Calibration
) -> Calibrated:
    """Return the gains, bias corrections and levels that are set for one passive matrix.

    Args:
        passive: fabricated complex matrix without its gains, [outputs, inputs].
        target: the designed real matrix with its gains, [outputs, inputs].
        designed: designed amplitude gains behind it, [outputs].
        statistics: of its inputs over known words; only ``words`` uses them.
        how: ``none`` keeps the design; ``rows`` sets gains so that the elements of each row fit those of ``target``;
            ``levels`` also the levels of inputs; ``words`` sets gains that fit the outputs over the known words, and
            biases that make their means right. With ``rows`` and ``words``, a row that fits no positive gain keeps its
            own.

    Returns:
        The amplitude gains, [outputs]; the corrections to add to biases, [outputs], 0 except with ``words``; and the
        field of every input relative to the designed one, [inputs], 1 except with ``levels``.
    """
    nothing, even = np.zeros_like(designed), np.ones(passive.shape[1])
    if how == "none":
        return Calibrated(designed, nothing, even)
    if how == "levels":
        levels = set_levels(designed[:, None] * passive, target, "levels")
        return Calibrated(designed * levels.outputs, nothing, levels.inputs)
    # No amplifier has a factor below 0: a row that fits no positive gain keeps its own.
    gains = designed * positive(output_factors(designed[:, None] * passive.real, target))
    if how == "rows":
        return Calibrated(gains, nothing, even)
    # A row whose inputs do not vary over the words keeps the gain that fits its elements.
    gains = gains * positive(output_factors(gains[:, None] * passive.real, target, statistics.covariances))
    return Calibrated(gains, (target - gains[:, None] * passive.real) @ statistics.means, even)


def calibrated_chip(
    passive: list[Complex], targets: list[Floats], designed: list[Floats], statistics: Sequence[Statistics], link: Link
) -> list[Calibrated]:
    """Return what is set at every layer (the first one with P, the matrix in front of it) and at T, the matrix behind
    the last one that divides the means among the servers, in the order of the light: gains, corrections of biases, and
    levels of inputs, as `calibrated` returns them.

    Args:
        passive: fabricated matrices [outputs, inputs] without their gains.
        targets: what they should be with their gains.
        designed: amplitude gains behind them, [outputs], those of T at the receivers.
        statistics: of the inputs of each.
        link: what is set by its calibration. Levels are set for the last layer and T together with optical gain, as no
            modulator stands between them.
    """
    how = link.calibration
    made = [calibrated(*each, how) for each in zip(passive, targets, designed, statistics, strict=True)]
    if how == "levels" and link.gain != "electrical":
        last, exit_gains = made[-2], designed[-1]
        light = last.gains[:, None] * passive[-2] * last.levels
        joint = set_levels(exit_gains[:, None] * (passive[-1] @ light), targets[-1] @ targets[-2], "levels")
        made[-2] = last._replace(levels=last.levels * joint.inputs)
        made[-1] = Calibrated(exit_gains * joint.outputs, made[-1].added, np.ones(passive[-1].shape[1]))
    return made


# The averager's chip as the link sees it: passive meshes, the gain of every row, and one fabrication of them.
#
# lanes ─▶ P ─▶ H_1 ─▶ gains ─▶ units ─▶ H_2 ─▶ ... ─▶ H_L ─▶ gains ─▶ T ─▶ servers
#
# A matrix is diag(gains) · H with a passive H. P has no amplifiers: the servers' lanes are as strong as it needs. T
# only divides.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chip:
    """Meshes, gains, biases and units of an averager."""

    mapped: MappedAverager
    units: tuple[Units, ...]
    """Units behind every layer but the last."""
    statistics: tuple[Statistics, ...]
    """Statistics of the signals that enter P, every layer but the first, and T."""

    @property
    def output_scale(self) -> float:
        """Signal value (PAM4 level) that the last layer sends at full scale: the largest full scale of the network's
        outputs."""
        return light_units(self.mapped.network)[-1]

    @property
    def lane_share(self) -> float:
        """Power of a server's lane at P, relative to that of full scale, which P needs without amplifiers: the square
        of its largest amplitude gain."""
        return float(self.mapped.preprocessing.gains.max()) ** 2


def design_chip(network: LayeredNetwork, arguments: FunctionArguments, mapping: MeshMapping = BALANCED) -> Chip:
    """Return the meshes of P (which prepares the inputs of the first layer), of all layers and of T (which divides the
    means among the servers), with units and statistics of signals; the default mapping bears errors best.

    Raises:
        ConfigError: the network carries decimals, or the mapping's form is an approximation.
    """
    mapped = map_averager(network, arguments, mapping.exact())
    function = arguments.function()
    units, statistics = units_of(network, function, light_units(network)), word_statistics(network, arguments, function)
    return Chip(mapped=mapped, units=tuple(units), statistics=tuple(statistics))


def fabricated(part: Part, errors: NonIdealities, rng: np.random.Generator) -> Complex:
    """Return the passive complex matrix of one drawn fabrication of a part, [outputs, inputs], without its amplifiers'
    gains."""
    return np.asarray(disturb(part, errors, rng).matrix() / part.gains[:, None])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FabricatedLayer:
    """A layer on fabricated devices; rows are outputs, or their real parts and then their imaginary parts."""

    matrix: Float32s
    """Weights with the gains, [rows, inputs], or [rows, 2 · inputs] for real and imaginary parts of the inputs."""
    biases: Float32s
    """Bias of every row: [rows, 1]."""
    noise: Float32s
    """Standard deviation of the noise of every row, [rows, 1]."""
    inverse_gains: Float32s
    """From arguments back to the fields on the chip, [rows, 1]."""


class FabricatedLink:
    """One fabrication of the chip, its servers and its receivers.

    Args:
        chip: the chip as designed.
        link: everything that errs.
        seed: seed of the fabrication. Parts have streams of their own, so that links that differ in one part draw the
            same errors in all others.
    """

    def __init__(self, chip: Chip, link: Link, seed: tuple[int, ...] = (0,)) -> None:
        """Draw senders, meshes and receivers from their streams, and calibrate the fabricated chip."""
        self.chip, self.link, self.seed = chip, link, seed
        self.peaks: dict[str, float] = {}
        """Largest power of a signal relative to full scale, by place."""
        mapped, servers = chip.mapped, chip.mapped.arguments.servers
        self.senders = Senders.draw(servers, symbols_for(mapped.arguments.bits), link, self.stream("servers"))
        meshes, errors = self.stream("meshes"), link.non_idealities
        matrices = [fabricated(part, errors, meshes) for part in mapped.matrices]
        *before, behind = [10 ** (-link.crossing_loss_db / 20 * counts) for counts in guide_crossings(mapped.matrices)]
        entry, *passive = [matrix * losses for matrix, losses in zip(matrices, before, strict=True)]
        passive[-1] = behind[:, None] * passive[-1]
        targets = [*mapped.layers.target_matrices, mapped.targets["T"]]
        # Servers' lanes arrive with both quadratures: P and the first layer are one matrix to the first units.
        largest = max(grid_input.maximum / grid_input.denominator for grid_input in mapped.function.inputs)
        scale = largest / light_units(mapped.network)[0]  # 1 unless the network's own full scale differs
        passive[0] = passive[0] @ (scale * mapped.preprocessing.gains[:, None] * entry)
        targets[0] = targets[0] @ (scale * mapped.targets["P"])
        # Receivers make up for the division of T among the servers.
        passive[-1] = passive[-1] * mapped.splitting.gains[:, None]
        receivers = np.full(len(passive[-1]), np.sqrt(servers))
        targets[-1] = receivers[:, None] * targets[-1]
        designed = [*(layer.gains for layer in mapped.layers.matrices), receivers]
        made = calibrated_chip(passive, targets, designed, chip.statistics, link)
        self.raised = float(max(setting.levels.max(initial=1.0) for setting in made)) ** 2
        """Largest factor by which calibration raised the power of a lane or of a unit's output."""
        self.lane_levels = _column(made[0].levels)
        self.layers = [self._layer(index, matrix, made[index]) for index, matrix in enumerate(passive[:-1])]
        self._draw_receivers(passive[-1], made[-1])

    def stream(self, name: str) -> np.random.Generator:
        """Return a generator for one part of the fabrication, seeded by the link's seed and ``name``.

        Every call of the same name starts the same stream.
        """
        return np.random.default_rng([*self.seed, *name.encode()])

    def _layer(self, index: int, passive: Complex, made: Calibrated) -> FabricatedLayer:
        """Return layer ``index``, from 0, on fabricated devices: what calibration set, with drawn errors of gain and
        bias, and the noise of homodyne units or of optical amplifiers and the detectors behind them.

        It has the ``matrix`` [rows, columns] and, as columns [rows, 1], ``biases``, standard deviations of ``noise``
        and ``inverse_gains`` (1 where the gain is 0). Rows are real parts of outputs, and below them imaginary ones in
        the last layer with optical gain; columns are inputs, in the first layer (with P) real and then imaginary parts
        of the lanes.

        ``passive`` is its complex matrix without gains, [outputs, inputs], that of P included in the first layer;
        ``made`` is what calibration set.
        """
        link, gains = self.link, made.gains
        gain_error, bias_error = self.stream(f"layer {index}").normal(size=(2, len(gains)))
        matrix = (gains * (1 + link.gain_error * gain_error))[:, None] * passive * made.levels
        leaves_as_light = index == len(self.chip.mapped.layers.matrices) - 1 and link.gain == "optical"
        real = np.concatenate([matrix.real, -matrix.imag], axis=1) if index == 0 else matrix.real
        imaginary = np.concatenate([matrix.imag, matrix.real], axis=1) if index == 0 else matrix.imag
        if link.gain == "electrical":
            noise = homodyne_noise(link) * gains
        else:
            noise = np.hypot(emitted_noise(link, gains), 0.0 if leaves_as_light else homodyne_noise(link))
        copies = 2 if leaves_as_light else 1
        biases = (light_biases(self.chip.mapped.network)[index] + made.added) * (1 + link.bias_error * bias_error)
        return FabricatedLayer(
            matrix=np.concatenate([real, imaginary][:copies]).astype(np.float32),
            biases=_column(np.concatenate([biases, np.zeros_like(biases)][:copies])),
            noise=_column(np.tile(noise, copies)),
            inverse_gains=_column(np.tile(1 / np.where(gains > 0, gains, 1.0), copies)),
        )

    def _draw_receivers(self, splitting: Complex, made: Calibrated) -> None:
        """Set ``exit``, ``exit_noise`` and ``thresholds``: the matrix, noise and thresholds of the receivers behind T,
        the last passive matrix, which divides the means among the servers, with drawn errors of gains and thresholds.

        ``exit`` is [lanes, signals], or [lanes, 2 · signals] with optical gain, for real and then imaginary parts.
        Thresholds are [lanes, 3], in PAM4 levels.

        ``splitting`` is T's complex matrix without the receivers' gains, [lanes, signals]; ``made`` is what calibration
        set.
        """
        link, rng, gains = self.link, self.stream("receivers"), made.gains
        matrix = (gains * (1 + link.gain_error * rng.normal(size=len(gains))))[:, None] * splitting * made.levels
        copies = [matrix.real, -matrix.imag] if link.gain == "optical" else [matrix.real]
        self.exit = np.concatenate(copies, axis=1).astype(np.float32)
        self.exit_noise = _column(homodyne_noise(link, link.path_loss_db) * gains)
        errors = link.threshold_error * rng.normal(size=(len(gains), LEVELS - 1))
        levels = np.arange(LEVELS - 1) + 0.5 - self.chip.output_scale * made.added[:, None]
        self.thresholds = (levels + errors).astype(np.float32)

    def receive(self, codes: Ints, rng: np.random.Generator) -> Ints:
        """Return the codes that the servers receive for codes [servers, words] that they send: [servers, words].

        Noise is drawn from ``rng``. The largest powers on the chip so far are kept in ``peaks``, by place, relative to
        full scale: ``server lanes at P``, ``meshes`` (in front of the gains) and, with optical gain, ``amplifiers, bias
        subtracted behind them`` and ``... before them``.
        """
        chip, link, words = self.chip, self.link, codes.shape[1]
        lanes = modulate(codes, chip.mapped.arguments.bits, link, self.senders, rng)
        self._note_peak("server lanes at P", self.lane_levels * lanes * np.float32(np.sqrt(chip.lane_share)))
        signals = lanes.reshape(-1, words)
        for index, layer in enumerate(self.layers):
            arguments = layer.matrix @ signals
            self._note_peak("meshes", arguments * layer.inverse_gains)
            if link.gain == "optical":
                self._note_peak("amplifiers, bias subtracted behind them", arguments)
                self._note_peak("amplifiers, bias subtracted before them", arguments + layer.biases)
            if link.rin_db is None:
                arguments += layer.biases
            else:
                # One laser feeds oscillators, biases and carriers of units; servers' lanes have lasers of their own.
                strength = laser_noise(link, (words,), rng)
                if index:
                    arguments *= strength
                arguments += layer.biases * strength
                arguments *= strength
            if layer.noise.any():
                arguments += layer.noise * rng.standard_normal(arguments.shape, np.float32)
            signals = chip.units[index].transfer(arguments, link) if index < len(chip.units) else arguments
        if link.gain == "electrical":
            # Modulators send on what homodyne units detect; amplified light goes on as it is.
            signals = sent_on(signals, link)
        return self._decided(signals, codes.shape, rng)

    def _note_peak(self, place: str, amplitudes: Float32s) -> None:
        """Keep the square of the largest magnitude of ``amplitudes`` as the peak of ``place`` if it exceeds what was
        kept.

        It is a power relative to that of full scale; real and imaginary parts count one by one.
        """
        self.peaks[place] = max(self.peaks.get(place, 0.0), float(np.abs(amplitudes).max(initial=0)) ** 2)

    def _decided(self, fields: Float32s, shape: tuple[int, ...], rng: np.random.Generator) -> Ints:
        """Return the codes that the servers' receivers decide by their thresholds, [servers, words], from the fields in
        front of T, the last passive matrix, which divides them among the servers; the receivers stand behind it.
        ``shape`` is (servers, words).

        ``fields``, relative to full scale, is [signals, words], or [2 · signals, words] of real and then imaginary
        parts with optical gain; noise of the receivers is drawn from ``rng``.
        """
        servers, words = shape
        received = self.exit @ fields
        if self.exit_noise.any():
            received += self.exit_noise * rng.standard_normal(received.shape, np.float32)
        received *= self.chip.output_scale
        levels = np.zeros(received.shape, np.int8)
        for threshold in self.thresholds.T:
            levels += received > threshold[:, None]
        codes: Ints = np.zeros((servers, words), np.int64)
        for digit in np.moveaxis(levels.reshape(servers, -1, words), 1, 0):
            codes = 4 * codes + digit
        return codes


def _column(values: Floats) -> Float32s:
    """Return values [rows] as a float32 column, [rows, 1]."""
    return values.astype(np.float32)[:, None]


# Light and gain of a link in watts and dB: lasers, oscillators, carriers, and the largest power anywhere.


def light(chip: Chip, link: Link, peaks: Mapping[str, float], raised: float = 1.0) -> Document:
    """Return powers in watts of lanes, lasers, oscillators and carriers, the peaks of signals, and gains in dB, as a
    JSON object.

    ``full_scale_at_lane_watts`` is the power of a server's highest level at P times ``raised``,
    ``laser_per_server_lane_watts`` what the lane's laser emits before the path's loss, ``server_lasers_watts`` that of
    all lanes; ``oscillators_watts`` and ``carriers_watts`` are those of all units, with electrical gain also of the
    modulators in front of T. ``peaks_watts`` are by place, ``peak_watts`` is the largest of them, at ``peak_place``;
    ``levels_raised_db`` is ``raised`` in dB, ``largest_gain_db`` the largest designed amplitude gain behind a layer.
    ``beyond_optical_amplifiers`` lists the places of amplifiers whose peak exceeds `AMPLIFIER_LIMIT`, 17.24 dBm.

    Args:
        chip: the averager's chip as designed.
        link: gives full scale, losses and oscillators.
        peaks: largest power of signals by place, relative to full scale; at least one.
        raised: factor by which calibration raised lanes and carriers over the design at most, as a power.
    """
    lane = link.full_scale * chip.lane_share * raised
    laser = lane * 10 ** (link.path_loss_db / 10)
    hidden = sum(len(units.decides) for units in chip.units)
    outputs = len(chip.mapped.layers.matrices[-1].gains) if link.gain == "electrical" else 0
    limiting = link.unit == "limiting"
    decided = sum(int(units.decides.sum()) for units in chip.units) if limiting else hidden + outputs
    kept = linear_height(link.swing) if limiting else 1.0
    carriers = raised * (decided * link.full_scale + (hidden + outputs - decided) * (link.full_scale * kept**2))
    watts = {place: power * link.full_scale for place, power in peaks.items()}
    largest = max(watts, key=lambda place: watts[place])
    lasers = {"laser_per_server_lane_watts": laser, "server_lasers_watts": laser * chip.mapped.preprocessing.shape[1]}
    strongest = [place for place, power in watts.items() if "amplifiers" in place and power > AMPLIFIER_LIMIT]
    return {
        "full_scale_at_lane_watts": lane,
        **lasers,
        "oscillators_watts": (hidden + outputs) * link.local_oscillator,
        "carriers_watts": carriers,
        "peak_watts": watts[largest],
        "peak_place": largest,
        "peaks_watts": watts,
        "largest_gain_db": decibels(chip.mapped.gain),
        "levels_raised_db": 10 * math.log10(raised),
        # Places where more power is wanted than an optical amplifier emits.
        "beyond_optical_amplifiers": strongest,
    }


# An averager of gradients whose codes pass a fabricated link, noise and all.

_AT_ONCE: Effort = 1 << 13


class LinkAverager:
    """Averager on one fabrication of a link; all ranks take what the first server receives.

    Args:
        network: the averaging network.
        arguments: of its function.
        link: everything that errs.
        seed: seed of the noise.
        fabrication: seed of the chip, the servers and the receivers: equal on all ranks, which share one chip.
        mapping: of the network's matrices to meshes.
    """

    def __init__(
        self,
        network: LayeredNetwork,
        arguments: FunctionArguments,
        link: Link,
        seed: int = 0,
        fabrication: int = 0,
        mapping: MeshMapping = BALANCED,
    ) -> None:
        """Design the chip, and fabricate the link from the seed ``fabrication``."""
        self.made = FabricatedLink(design_chip(network, arguments, mapping), link, (fabrication, 0))
        self.servers, self.bits, self.rounding = arguments.servers, arguments.bits, arguments.rounding
        self.arguments = asdict(link)
        self.rng = np.random.default_rng(seed)
        """Generator of the noise; checkpoints store its state."""

    def __call__(self, codes: Codes) -> Ints:
        """Return the mean codes (n,) that the first server receives for codes (servers, n)."""
        return in_chunks(codes, self.servers, self._average, _AT_ONCE)

    def _average(self, codes: Codes) -> Ints:
        """Return the mean codes (n,) that the first server receives for one chunk of codes (servers, n).

        Raises:
            InputError: a code does not fit into the averager's bits.
        """
        received: Ints = self.made.receive(check_codes(codes, self.bits), self.rng)[0]
        return received
