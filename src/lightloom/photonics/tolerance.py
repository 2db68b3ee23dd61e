"""Find the averager with the fewest interferometers that tolerates given errors, or say how much can be tolerated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError, InputError, UnknownNameError, UnsupportedError
from lightloom.core.results import Advance, Document, attributes, ignore
from lightloom.core.units import parse
from lightloom.photonics.averaging import networks
from lightloom.photonics.averaging.averagers import IdealAverager
from lightloom.photonics.averaging.compiler import Realisation, realise
from lightloom.photonics.averaging.construct import Construction, sturdy_circuits, sturdy_realisations
from lightloom.photonics.averaging.function import LEVELS, digits
from lightloom.photonics.averaging.mapped import Calibration, MappedAverager, Setting, map_averager, set_levels
from lightloom.photonics.devices import ERRORS, LARGEST, NonIdealities, amplifier_noise
from lightloom.photonics.link.settings import AMPLIFIER_LIMIT, RANGES, SOURCES, Link
from lightloom.photonics.link.simulate import draw_words
from lightloom.photonics.link.word_errors import WrongWords, clopper_pearson
from lightloom.photonics.meshes.calibration.calibrate import Conditions, target_of, try_calibration
from lightloom.photonics.meshes.calibration.fit import Fields
from lightloom.photonics.meshes.correction import corrected
from lightloom.photonics.meshes.disturb import Disturbed, Evaluate, fabricated_matrices
from lightloom.photonics.meshes.mapping import (
    BALANCED,
    Form,
    MappedMatrix,
    MeshMapping,
    compact_count,
    connected_components,
    decibels,
    full_count,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrices = NDArray[np.complex128]
    Noise = Sequence[Floats | None]
    Rng = np.random.Generator


# Averagers that a search tries: constructions, windows, copies and mappings, by their interferometers.

MAPPINGS = {"compact": MeshMapping(form="compact", components=True), "balanced": BALANCED}
"""Mappings of connected components: with the fewest interferometers, and to square meshes that balance loss."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A construction and a mapping of it."""

    construction: Construction
    arguments: networks.FunctionArguments
    mapping: str
    mzis: int
    """Interferometers of P, the layers and T."""

    @property
    def name(self) -> str:
        """Construction, window, copies if above 1, ``regenerated`` if bits are, and mapping, as one text: ``msb-first,
        window 1/4, 2 copies, compact``."""
        return f"{self.construction.name}, window {self.how.window}{self.how.words}, {self.mapping}"

    @property
    def how(self) -> Realisation:
        """Options of the construction's nonlinear units: window (share of the gap between two levels that a ramp
        takes), copies, and whether bits are regenerated."""
        return self.construction.realised.realisation

    def mapped(self) -> MappedAverager:
        """Return the meshes of P, every layer and T, mapped as the candidate says."""
        return map_averager(self.construction.network, self.arguments, MAPPINGS[self.mapping])


def candidates(
    arguments: networks.FunctionArguments, nonlinearity: networks.Nonlinearity = "clipped", advance: Advance = ignore
) -> list[Candidate]:
    """Return all averagers that a search tries, those with the fewest interferometers first.

    These are every circuit of the function (`sturdy_circuits`) with every window (share of the gap between two levels
    that a ramp takes), number of copies and regeneration of its units (`sturdy_realisations`), in both `MAPPINGS`,
    ``compact`` and ``balanced``; none is proved or tried yet. Of equal ones those with fewer copies come first, then
    those with a wider window.

    Args:
        arguments: servers, bits and the other arguments of the averaging function.
        nonlinearity: ``clipped`` or ``relu``.
        advance: called with 1 after every pair of a circuit and a realisation.

    Raises:
        InputError: the nonlinearity is unknown, or an argument of the function is out of range.
    """
    function = arguments.function()
    units = list(networks.unit_matrices(arguments).values())
    around = {mapping: sum(component_count(matrix, how.form) for matrix in units) for mapping, how in MAPPINGS.items()}
    made = []
    for (name, circuit), how in product(sturdy_circuits(function), sturdy_realisations(nonlinearity)):
        construction = Construction(name, function, realise(circuit, function, how))
        matrices = networks.light_matrices(construction.network)
        for mapping, meshes in MAPPINGS.items():
            mzis = around[mapping] + sum(component_count(matrix, meshes.form) for matrix in matrices)
            made.append(Candidate(construction=construction, arguments=arguments, mapping=mapping, mzis=mzis))
        advance(1)
    return sorted(made, key=lambda candidate: (candidate.mzis, candidate.how.copies, -candidate.how.window))


def component_count(matrix: networks.Matrix, form: Form) -> int:
    """Return the number of interferometers of a matrix mapped by its connected components, without decomposing it.

    ``matrix`` is [outputs, inputs]. ``compact`` counts every component without modes beyond its rank; any other form
    counts its full singular value decomposition, M(M+1)/2 + N(N−1)/2.
    """
    total = 0
    for rows, columns in connected_components(matrix):
        if form == "compact":
            rank = max(1, int(np.linalg.matrix_rank(matrix[np.ix_(rows, columns)])))
            total += compact_count(rows.size, columns.size, rank)
        else:
            total += full_count(rows.size, columns.size)
    return total


# Many fabrications of an averager at once: real matrices between detections, and amplifier noise.
#
# lanes ─▶ P ─▶ H_1 ─▶ gains ─▶ unit ─▶ H_2 ─▶ gains ─▶ ... unit ─▶ H_L ─▶ gains ─▶ T ─▶ receivers
# └────── first ──────────────┘└────── hidden ────────┘           └───────── last ───────────┘
#
# Light stays a complex field from one detection to the next, so that P and the first layer, and the last layer and T,
# are multiplied as complex matrices. Units and receivers detect real parts. All amplitudes are relative to full
# scale.

_LINK = Link()


def noise_behind(gains: Floats, full_scale: float) -> Floats:
    """Return the standard deviation of a quadrature behind optical amplifiers, as a share of the amplitude of full
    scale.

    ``gains`` are amplitude gains, ``full_scale`` is the power of full scale in watts; the result has the shape of
    ``gains``. Noise figure (6 dB) and bandwidth (50 GHz) are the defaults of `Link`; a gain of at most 1 adds no noise.
    """
    return amplifier_noise(np.maximum(np.square(gains), 1.0), _LINK.noise_figure_db, _LINK.bandwidth, full_scale)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FabricatedAveragers:
    """``count`` fabrications of an averager; matrices are [count, outputs, inputs]."""

    mapped: MappedAverager
    hidden: tuple[Floats, ...]
    """Real matrices to the units of every hidden layer; the first one is that of P and layer 1."""
    last: Floats
    """Real matrices from the last units (from the lanes if there is none) to the servers' lanes, with T."""
    splitting: Floats
    """Real matrices of T, for what is added in front of it."""
    gains: tuple[Floats, ...]
    """Amplitude gains of the amplifiers of every layer as they are set, [count, outputs]."""
    biases: tuple[Floats, ...]
    """Biases of every layer, [outputs]."""

    @property
    def count(self) -> int:
        """Number of fabrications that every array holds, its first axis."""
        return int(self.last.shape[0])


def fabricate_averagers(mapped: MappedAverager, devices: NonIdealities, rng: Rng, count: int) -> FabricatedAveragers:
    """Return ``count`` fabrications of an averager drawn with the errors of ``devices``, and their levels set.

    The levels of all lanes, outputs of units, amplifiers and receivers are set for the least error of the real matrix
    between two detections. Set-up measures this once, with known light; amplifier noise follows the gains that result.
    """
    return averagers_of(mapped, [fabricated_matrices(part, devices, rng, count) for part in mapped.matrices])


def averagers_of(mapped: MappedAverager, drawn: list[Matrices], setting: Setting = "levels") -> FabricatedAveragers:
    """Return averagers made of fabricated matrices of P, the layers and T, with levels and gains set.

    The result holds the real matrices [count, outputs, inputs] from one detection to the next, those of the ``hidden``
    layers (the first one with P) and the ``last`` layer with T, T alone as ``splitting``, and the amplitude ``gains``
    [count, outputs] of every layer as set.

    Args:
        mapped: the meshes as designed.
        drawn: fabricated complex matrices [count, outputs, inputs], designed gains included, in the order of the light:
            of P, which averages the servers' digits, of each layer, and of T, which divides the result among the
            servers.
        setting: what is set for the least error: ``levels`` of lanes, units, amplifiers and receivers, ``rows``
            (amplifiers and receivers), one gain for each ``matrix``, or ``none``.
    """
    targets = list(mapped.targets.values())
    # No unit detects the light between P and the first layer, and no amplifier stands there: they are set together.
    matrices, wanted = [drawn[1] @ drawn[0], *drawn[2:-1]], [targets[1] @ targets[0], *targets[2:-1]]
    made = [set_levels(matrix, target, setting) for matrix, target in zip(matrices, wanted, strict=True)]
    designed = [matrix.gains for matrix in mapped.layers.matrices]
    # Nor does one between the last layer and T; T's outputs are those of receivers.
    last = set_levels(drawn[-1] @ made[-1].matrices, targets[-1] @ wanted[-1], setting)
    return FabricatedAveragers(
        mapped=mapped,
        hidden=tuple(np.ascontiguousarray(levels.matrices.real) for levels in made[:-1]),
        last=np.ascontiguousarray(last.matrices.real),
        splitting=np.ascontiguousarray(drawn[-1].real * last.outputs[..., None]),
        gains=tuple(np.abs(gains * levels.outputs) for gains, levels in zip(designed, made, strict=True)),
        biases=tuple(networks.light_biases(mapped.network)),
    )


# What an averager is asked to tolerate: errors of its devices, a power of full scale, and a word error rate.

_UNITS = {"phase-error": "rad", "coupler-error": "rad", "loss": "dB", "loss-spread": "dB"}
DEVICE_FIELDS = {name: (ERRORS[name], _UNITS.get(name, "")) for name in (*_UNITS, "crosstalk", "dac-bits")}
"""Field of `NonIdealities` and unit, by the name in a request."""
POWER = "power"
_EXAMPLE = "phase-error=3e-3,coupler-error=1e-2,power=3mW,loss=0.1dB"
LEAST_WORD_ERRORS = 1e-7
"""Smaller rates need more than 400 million words to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Errors that an averager must bear all at once with at most ``word_errors`` wrong words.

    Raises:
        InputError: the power is not positive, or the word error rate is out of range.
    """

    devices: NonIdealities
    full_scale: float | None
    """Power of full scale in watts, from which the noise of amplifiers follows; None has none."""
    word_errors: float

    def __post_init__(self) -> None:
        """Raise InputError for a power that is not positive and finite, or a word error rate outside 1e-7 to below
        1."""
        if self.full_scale is not None and not 0 < self.full_scale < math.inf:
            raise InputError(f"power = {self.full_scale} W: expected more than 0")
        if not LEAST_WORD_ERRORS <= self.word_errors < 1:
            raise InputError(
                f"word errors = {self.word_errors}: expected a share from {LEAST_WORD_ERRORS:g} to below 1"
            )

    @property
    def errors(self) -> dict[str, float]:
        """Errors that are not 0, by their names in a request, such as ``phase-error``, in rad, dB or without a unit,
        then ``power``, that of full scale in watts, if noise of amplifiers is asked for."""
        given = {name: float(getattr(self.devices, field)) for name, (field, _) in DEVICE_FIELDS.items()}
        power = {} if self.full_scale is None else {POWER: self.full_scale}
        return {name: value for name, value in given.items() if value} | power

    def scaled(self, share: float) -> Tolerance:
        """Return the request with all device errors times ``share``, and the power of full scale divided by its square.

        Noise falls with the square root of the power, so it grows by ``share`` too. DAC bits and the word error rate
        stay, and an error that would exceed the largest one that `NonIdealities` allows stops there.
        """
        errors = {field: getattr(self.devices, field) * share for field, _ in DEVICE_FIELDS.values()}
        del errors["dac_bits"]
        devices = replace(self.devices, **{field: min(value, LARGEST[field][0]) for field, value in errors.items()})
        power = None if self.full_scale is None else self.full_scale / share**2
        return replace(self, devices=devices, full_scale=power)

    def only(self, name: str, value: float) -> Tolerance:
        """Return the request with one error alone, of that value; the word error rate stays.

        ``name`` is ``phase-error``, ``coupler-error``, ``loss``, ``loss-spread``, ``crosstalk`` or ``dac-bits``,
        without noise of amplifiers then, or ``power`` in watts, with ideal devices; any other is a KeyError.
        """
        if name == POWER:
            return replace(self, devices=NonIdealities(), full_scale=value)
        field = DEVICE_FIELDS[name][0]
        return replace(self, devices=NonIdealities(**{field: value}), full_scale=None)  # type: ignore[arg-type, unused-ignore]


def describe(errors: dict[str, float]) -> str:
    """Return errors by name as one text with values to three significant digits and units, separated by commas;
    ``nothing`` if there are none.

    Names and units are those of `Tolerance.errors`: ``phase-error`` and ``coupler-error`` in rad, ``loss`` and
    ``loss-spread`` in dB, ``crosstalk`` and ``dac-bits`` without a unit, and ``power`` in watts, which is shown in
    milliwatts. Any other name is a KeyError.
    """
    return ", ".join(described(name, value) for name, value in errors.items()) or "nothing"


def described(name: str, value: float) -> str:
    """Return one error as text: name, value to three significant digits and unit, such as ``loss 0.1 dB``.

    ``name`` is ``phase-error``, ``coupler-error``, ``loss``, ``loss-spread``, ``crosstalk``, ``dac-bits``, with
    ``value`` in rad, dB or without a unit, or ``power``, which is given in watts and shown in milliwatts. Any other
    name is a KeyError.
    """
    if name == POWER:
        return f"power {value * 1e3:.3g} mW"
    unit = DEVICE_FIELDS[name][1]
    return f"{name} {value:.3g}{' ' if unit else ''}{unit}"


def parse_tolerance(text: str, word_errors: float) -> Tolerance:
    """Return the request that ``NAME=VALUE,...`` states, with ``word_errors`` as the largest share of wrong words.

    Names are ``phase-error`` and ``coupler-error`` (rad), ``loss`` and ``loss-spread`` (dB), ``crosstalk`` (a share),
    ``dac-bits`` (a whole number) and ``power`` of full scale (W, mW, uW, ...); a bare number is in rad, dB or W. Errors
    that are not named are 0, and without a power amplifiers have no noise.

    Raises:
        ConfigError: the text is not of this form, names an error twice, the number of a device error cannot be read or
            is out of range, or a power above 0 is outside the range of a link.
        UnknownNameError: there is no such error.
        InputError: the power cannot be read or is not above 0, or ``word_errors`` is not from 1e-7 to below 1.
    """
    fields: dict[str, float] = {}
    for item in text.split(","):
        name, equals, value = item.strip().partition("=")
        if not equals:
            raise ConfigError(f"--tolerate {item.strip()!r}: expected NAME=VALUE,..., e.g. {_EXAMPLE}")
        if name not in (*DEVICE_FIELDS, POWER):
            raise UnknownNameError("error to tolerate", name, (*DEVICE_FIELDS, POWER))
        field, unit = DEVICE_FIELDS.get(name, (POWER, ""))
        if field in fields:
            raise ConfigError(f"--tolerate: {name} is given twice")
        if name == POWER:
            power = fields[POWER] = parse(value, "power")
            low, high, unit = RANGES["full_scale"]
            if power > 0 and not low <= power <= high:
                raise ConfigError(f"--tolerate power = {power:g} W: expected {low:g} to {high:g} {unit}")
        else:
            fields[field] = _number(name, value.removesuffix(unit).strip() if unit else value)
    full_scale = fields.pop(POWER, None)
    return Tolerance(devices=NonIdealities(**fields), full_scale=full_scale, word_errors=word_errors)  # type: ignore[arg-type, unused-ignore]


def _number(name: str, text: str) -> float:
    """Return the number that ``text`` states for the error ``name``: an int for ``dac-bits``, else a float.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return int(text) if name == "dac-bits" else float(text)
    except ValueError as error:
        raise ConfigError(f"--tolerate {name}={text}: expected a number, e.g. {_EXAMPLE}") from error


# Wrong words of fabricated averagers, by batches of fabrications and words.

_FABRICATIONS_AT_ONCE = 20
_AT_ONCE = 1 << 13
_SIGNALS_AT_ONCE = 1 << 18
"""Signals of a layer that are held at once: they stay in the cache."""


def count_wrong_words(
    mapped: MappedAverager, devices: NonIdealities, full_scale: float | None, advance: Advance = ignore, **tried: int
) -> WrongWords:
    """Return the wrong words of many fabrications of an averager, each of which averages words, P and T included, with
    its levels set for its own errors (`fabricate_averagers`).

    A word is wrong if any server receives another code than the exact rounded mean. Half of the words are near-equal
    (`draw_words`). The result has ``wrong``, the number for each fabrication, and ``words``, how many each was sent.

    Args:
        mapped: the meshes as designed.
        devices: errors of the devices, drawn for every fabrication.
        full_scale: watts of full scale, from which the noise of amplifiers follows, drawn for every word; None has
            none.
        advance: called with the number of fabrications done since the last call.
        tried: ``fabrications``, ``words`` sent through each of them, and ``seed``, 0 by default.
    """
    fabrications, words = tried["fabrications"], tried["words"]
    rng = np.random.default_rng((tried.get("seed", 0), fabrications, words))
    wrong = []
    for start in range(0, fabrications, _FABRICATIONS_AT_ONCE):
        count = min(_FABRICATIONS_AT_ONCE, fabrications - start)
        batch = fabricate_averagers(mapped, devices, rng, count)
        noise = [None if full_scale is None else noise_behind(gains, full_scale)[..., None] for gains in batch.gains]
        step = max(1, _SIGNALS_AT_ONCE // (count * max(batch.last.shape[1], *mapped.network.layers)))
        wrong.append(wrong_words(batch, noise, words, rng, at_once=step))
        advance(count)
    return WrongWords(wrong=np.concatenate(wrong), words=words)


def words_right(
    mapped: MappedAverager, *, words: int, calibration: Calibration = "rows", correct: bool = False
) -> Evaluate:
    """Return a function that measures the share of words, from 0 to 1, that all servers receive right, for
    `monte_carlo`.

    It takes the fabricated meshes of P, every layer and T and a generator, and sends ``words`` words. ``calibration``,
    ``rows``, ``matrix`` or ``none``, says which gains are set (`averagers_of`); with ``correct``, couplers and
    crosstalk are corrected first (`corrected`). Units and receivers detect with the detector noise of the devices;
    amplifiers have no noise.
    """

    def evaluate(disturbed: Sequence[Disturbed], rng: np.random.Generator) -> float:
        """Return the share of words that all servers receive right on these fabricated meshes."""
        devices = [corrected(device, real=True) if correct else device for device in disturbed]
        batch = averagers_of(mapped, [device.matrix()[None] for device in devices], calibration)
        detected = disturbed[0].non_idealities.detector_noise
        scales, units = mapped.network.full_scale[1:-1], networks.light_units(mapped.network)[1:]
        noise: list[Floats | None] = [None] * len(batch.gains)
        if detected:
            pairs = zip(scales, units, strict=False)
            noise[:-1] = [np.asarray(detected * (scale / unit)[:, None], np.float64) for scale, unit in pairs]
        return 1 - int(wrong_words(batch, noise, words, rng, detected).sum()) / words

    return evaluate


def wrong_words(
    batch: FabricatedAveragers, noise: Noise, words: int, rng: Rng, receivers: float = 0.0, at_once: int = _AT_ONCE
) -> Ints:
    """Send words through every fabrication, and return the number of wrong ones of each, [fabrications].

    A word, one code of each server, is wrong if any server receives a digit that is not that of the exact rounded mean.

    Args:
        batch: the fabrications.
        noise: for each layer, the last one included, the standard deviation of the noise behind it relative to full
            scale, [fabrications or 1, outputs, 1], or None where there is none.
        words: number of words for each fabrication; every one gets other words.
        rng: generator of words and noise.
        receivers: standard deviation of the receivers' noise, as a share of the highest PAM4 level.
        at_once: words that are drawn and averaged at a time, 8,192 by default.
    """
    arguments, wrong = batch.mapped.arguments, np.zeros(batch.count, np.int64)
    mean_of = IdealAverager(arguments.servers, arguments.bits, arguments.rounding)
    for start in range(0, words, at_once):
        count = min(at_once, words - start)
        codes = draw_words(arguments.servers, arguments.bits, batch.count * count, rng)
        received = received_levels(batch, codes.reshape(-1, batch.count, count).swapaxes(0, 1), noise, rng, receivers)
        right = digits(mean_of(codes).reshape(batch.count, count), arguments.bits)
        wrong += (received != right[:, None]).any(axis=(1, 2)).sum(axis=1)
    return wrong


def received_levels(batch: FabricatedAveragers, codes: Ints, noise: Noise, rng: Rng, receivers: float = 0.0) -> Ints:
    """Return the PAM4 levels that servers decide, [count, servers, signals, words], for codes [count, servers, words].

    Each of the ``count`` fabrications averages its own codes. Levels are 0 to 3, the most significant digit first.

    Args:
        batch: the fabrications.
        codes: codes of all servers.
        noise: for each layer, the last one included, the standard deviation of the noise behind it relative to full
            scale, [fabrications or 1, outputs, 1], or None where there is none.
        rng: generator of the noise.
        receivers: standard deviation of the receivers' noise, as a share of the highest PAM4 level.
    """
    fields = digits(codes, batch.mapped.arguments.bits).astype(np.float64) / (LEVELS - 1)
    fields = fields.reshape(batch.count, -1, codes.shape[-1])
    network, units = batch.mapped.network, networks.light_units(batch.mapped.network)
    for matrices, bias, sigma, unit in zip(batch.hidden, batch.biases, noise, units[1:], strict=False):
        fields = matrices @ fields
        fields += bias[:, None]
        _add_noise(fields, sigma, rng)
        np.maximum(fields, 0.0, out=fields)
        if network.nonlinearity == "clipped":
            np.minimum(fields, 1.0 / unit, out=fields)
    added = np.broadcast_to(batch.biases[-1][:, None], (batch.count, batch.biases[-1].size, fields.shape[2])).copy()
    _add_noise(added, noise[-1], rng)
    servers = batch.mapped.arguments.servers
    outputs = (batch.last @ fields + batch.splitting @ added) * (np.sqrt(servers) * units[-1])
    _add_noise(outputs, (LEVELS - 1) * receivers if receivers else None, rng)
    np.rint(outputs, out=outputs)
    levels = np.clip(outputs, 0, LEVELS - 1, out=outputs).astype(np.int64)
    return np.asarray(levels.reshape(batch.count, servers, -1, fields.shape[2]))


def _add_noise(fields: Floats, sigma: Floats | float | None, rng: np.random.Generator) -> None:
    """Add Gaussian noise of standard deviation ``sigma``, which broadcasts, to ``fields`` in place; None adds none."""
    if sigma is not None:
        fields += sigma * rng.standard_normal(fields.shape, dtype=np.float32)


FABRICATIONS = 100
"""Fabrications behind an answer."""
_SCREENED_FABRICATIONS, _SCREENED_WORDS = 10, 200
"""Fabrications and words on each that rule out averagers which clearly fail."""
_EASED = (0.3, 0.6, 1.0)
"""Shares of a request whose wrong words rank candidates that do not tolerate it."""
_STURDIEST = 6
"""Candidates whose limits are compared if none tolerates the request."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TolerantAverager:
    """The averager that was found."""

    candidate: Candidate
    mapped: MappedAverager
    request: Tolerance
    measured: WrongWords
    tried: int
    """Candidates up to this one; all of them have at most as many interferometers."""
    seed: int


def _screened(mapped: MappedAverager, request: Tolerance, seed: int) -> WrongWords:
    """Return the wrong words of 10 fabrications with 200 words each, under the errors and the power of ``request``."""
    tried: Document = {"fabrications": _SCREENED_FABRICATIONS, "words": _SCREENED_WORDS, "seed": seed}
    return count_wrong_words(mapped, request.devices, request.full_scale, **tried)


def clearly_fails(mapped: MappedAverager, request: Tolerance, seed: int = 0) -> WrongWords | None:
    """Return a small sample of wrong words (10 fabrications, 200 words each) that rules the averager out; None if it
    does not.

    It does where the 95 % interval of its rate (Clopper and Pearson over all words) begins above three times the target
    of the request, the largest share of wrong words, and at least 3 words are wrong.
    """
    sample = _screened(mapped, request, seed)
    # A rate of the words alone says little about other fabrications, so that it must be far off.
    low, _ = clopper_pearson(int(sample.wrong.sum()), sample.words * sample.wrong.size)
    return sample if low > 3 * request.word_errors and sample.wrong.sum() >= 3 else None


def measure_wrong_words(
    mapped: MappedAverager, request: Tolerance, seed: int = 0, advance: Advance = ignore, wrong: float = 40.0
) -> WrongWords:
    """Return the wrong words of 100 fabrications, or the small sample of `clearly_fails` if that rules the averager
    out.

    Enough words are tried, at least 500 for each fabrication, for ``wrong`` wrong ones to be expected in all where the
    averager just meets the target of the request. ``advance`` is called with the fabrications done since the last call.
    """
    if (sample := clearly_fails(mapped, request, seed)) is not None:
        return sample
    words = max(500, math.ceil(wrong / request.word_errors / FABRICATIONS))
    tried: Document = {"fabrications": FABRICATIONS, "words": words, "seed": seed + 1}
    return count_wrong_words(mapped, request.devices, request.full_scale, advance, **tried)


def find_tolerant(
    arguments: networks.FunctionArguments,
    request: Tolerance,
    nonlinearity: networks.Nonlinearity = "clipped",
    *,
    seed: int = 0,
    advance: Advance = ignore,
) -> TolerantAverager:
    """Return the averager with the fewest interferometers, P and T included, that tolerates the request.

    The upper end of the 95 % interval of the word error rate over 100 fabrications must not exceed the target. The
    construction must be proved exact in float64. Averagers are tried in the order of `candidates`; the result is the
    first that holds, with its meshes, the wrong words measured and the number of averagers tried.

    Args:
        arguments: servers, bits and the other arguments of the averaging function.
        request: errors to bear and the largest share of wrong words.
        nonlinearity: ``clipped`` or ``relu``.
        seed: seed of fabrications and words.
        advance: called with 1 for every construction made and every averager measured.

    Raises:
        UnsupportedError: there is none; the message says how much the sturdiest one tolerates.
        InputError: an argument is out of range.
    """
    tried = candidates(arguments, nonlinearity, advance)
    for number, candidate in enumerate(tried, 1):
        mapped = candidate.mapped()
        measured = measure_wrong_words(mapped, request, seed)
        advance(1)
        if measured.interval[1] <= request.word_errors and candidate.construction.proof.float64:
            made: Document = {"candidate": candidate, "mapped": mapped, "measured": measured}
            return TolerantAverager(**made, request=request, tried=number, seed=seed)
    raise UnsupportedError(_intolerable(arguments, request, tried, seed, advance))


def _intolerable(
    arguments: networks.FunctionArguments, request: Tolerance, tried: list[Candidate], seed: int, advance: Advance
) -> str:
    """Return the message that no candidate tolerates the request, with how much of it the sturdiest one tolerates at
    once and of each error alone."""
    candidate, share = sturdiest(tried, request, seed, advance)
    asked = f"{describe(request.errors)} at a word error rate of {request.word_errors:g}"
    units = tried[0].construction.network.nonlinearity
    start = f"none of {len(tried)} {units} averagers of {arguments.servers} servers and {arguments.bits} bits "
    start += f"tolerates {asked}"
    if candidate is None:
        return f"{start}; none tolerates a thousandth of it either"
    mapped = candidate.mapped()
    limits = {name: largest_alone(mapped, request, name, seed, advance) for name in request.errors}
    alone = describe({name: value for name, value in limits.items() if value is not None})
    return (
        f"{start}; the sturdiest, {candidate.name} ({candidate.mzis:,} interferometers), tolerates {share:.2g} of it "
        f"at once ({describe(request.scaled(share).errors)}), each alone {alone}"
    )


def sturdiest(
    tried: list[Candidate], request: Tolerance, seed: int = 0, advance: Advance = ignore
) -> tuple[Candidate | None, float]:
    """Return the candidate that tolerates the largest share of a request, and that share; (None, 0) if none does.

    Only the six candidates with the fewest wrong words under 0.3, 0.6 and 1 of the request are compared by
    `largest_share`. ``advance`` is called with 1 for every candidate and every step of a bisection.
    """
    rates = []
    for candidate in tried:
        mapped = candidate.mapped()
        rates.append(sum(_screened(mapped, request.scaled(share), seed).rate for share in _EASED))
        advance(1)
    fewest = sorted(range(len(tried)), key=lambda k: (rates[k], tried[k].mzis))[:_STURDIEST]
    shares = [(largest_share(tried[index].mapped(), request, seed, advance), index) for index in fewest]
    most, index = max(shares, key=lambda each: each[0])
    return tried[index] if most else None, most


def largest_share(mapped: MappedAverager, request: Tolerance, seed: int = 0, advance: Advance = ignore) -> float:
    """Return the largest share of all errors of a request (`Tolerance.scaled`) that the averager tolerates at once, to
    3 %.

    At most 8 is returned, and 0 if a thousandth is not tolerated. ``advance`` is called with 1 for every step of the
    bisection.
    """
    return _largest_tolerated(lambda share: _tolerates(mapped, request.scaled(share), seed), 1e-3, 8.0, advance)


def largest_alone(
    mapped: MappedAverager, request: Tolerance, name: str, seed: int = 0, advance: Advance = ignore
) -> float | None:
    """Return the largest value of one error alone that the averager tolerates, to 3 %, in the unit of its field.

    For ``power`` it is the least power in watts, and for ``dac-bits`` the least number of bits from 1 to 20, since
    there less is worse. At most 1 (crosstalk: 0.5) is returned, and no power below 1.1e-9 W; None if not even 1e-5
    (crosstalk: 1e-6), 10 kW or 20 bits are tolerated.

    Args:
        mapped: the meshes of the averager.
        request: states the word error rate that must not be exceeded; its errors do not matter.
        name: ``phase-error``, ``coupler-error``, ``loss``, ``loss-spread``, ``crosstalk``, ``dac-bits`` or ``power``.
        seed: seed of fabrications and words.
        advance: called with 1 for every step of the bisection.
    """

    def tolerated(value: float) -> bool:
        """True where the averager tolerates that value of the error alone."""
        return _tolerates(mapped, request.only(name, value), seed)

    if name == POWER:
        found = _largest_tolerated(lambda noise: tolerated(noise**-2), 1e-2, 3e4, advance)
        return found**-2 if found else None
    if name == "dac-bits":
        return next(filter(tolerated, range(1, 21)), None)
    low, high = (1e-6, 0.5) if name == "crosstalk" else (1e-5, 1.0)
    return _largest_tolerated(tolerated, low, high, advance) or None


def _tolerates(mapped: MappedAverager, request: Tolerance, seed: int) -> bool:
    """Return True where the upper end of the 95 % interval of the word error rate is at most the target of the request.

    Fewer words are tried than `find_tolerant` tries: for 10 wrong ones to be expected at the target, not 40.
    """
    return measure_wrong_words(mapped, request, seed, wrong=10.0).interval[1] <= request.word_errors


def _largest_tolerated(tolerates: Callable[[float], bool], low: float, high: float, advance: Advance) -> float:
    """Return the largest value from ``low`` to ``high`` for which ``tolerates`` is true, to 3 %, by bisection of its
    logarithm.

    It is 0 if ``low`` is not tolerated, and ``high`` if that is. ``advance`` is called with 1 for every bisection.
    """
    if not tolerates(low):
        return 0.0
    if tolerates(high):
        return high
    while high / low > 1.03:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if tolerates(middle) else (low, middle)
        advance(1)
    return low


# An averager that tolerates errors, as a JSON document.


def assumptions(full_scale: float | None) -> list[str]:
    """Return what a word error rate rests on, and what it leaves out, as sentences.

    ``full_scale`` None means that there was no noise; its value does not matter otherwise.
    """
    levels = "assumption: lanes, outputs of units, amplifiers and receivers set for the loss of their paths"
    left_out = "crossings without loss; lasers, units and receivers without errors (onn link has them)"
    if full_scale is None:
        return [levels, f"no noise; {left_out}"]
    noise = f"noise figure {_LINK.noise_figure_db:g} dB ({SOURCES['noise_figure_db']})"
    peaks = "(onn link --set gain=optical has the peaks)"
    light = f"amplifiers emit any power, real ones {AMPLIFIER_LIMIT * 1e3:.0f} mW {peaks}"
    bandwidth = f"bandwidth {_LINK.bandwidth / 1e9:g} GHz ({SOURCES['bandwidth']})"
    return [noise, bandwidth, levels, light, f"no noise but that of amplifiers; {left_out}"]


def tolerance_document(result: TolerantAverager, advance: Advance = ignore) -> Document:
    """Return the JSON document of an averager that was found: ``errors`` and ``target`` (largest share of wrong words)
    of the request, the counts of the wrong words that were measured, its ``mapping``, ``window``, ``copies``,
    ``mzi_count``, ``columns``, ``crossings`` and ``largest_gain_db``, and what it tolerates.

    ``tolerated_share`` is the largest share, at least 1, of all errors at once, ``tolerated_at_once`` the errors at
    that share, ``tolerated_alone`` the largest value of each error alone (for ``power``, in watts, and ``dac-bits`` the
    least; None if none is tolerated), which are measured here. ``lane_power_watts`` is that of a server's lane, None
    without noise; ``tried`` counts the averagers up to this one, ``columns`` those of MZIs that the light passes, and
    ``assumptions`` are sentences. ``advance`` is called with 1 for every step of a bisection.
    """
    mapped, request, seed = result.mapped, result.request, result.seed
    # The whole request is tolerated: that was measured with more words than shares of it are.
    share = max(largest_share(mapped, request, seed, advance), 1.0)
    power = request.full_scale
    return {
        **attributes(result, "errors=request.errors target=request.word_errors"),
        **result.measured.counts,
        **attributes(result, "tried mapping=candidate.mapping"),
        "window": str(result.candidate.how.window),
        "copies": result.candidate.how.copies,
        **attributes(mapped, "mzi_count=mzis columns=depth crossings"),
        "largest_gain_db": decibels(mapped.gain),
        "lane_power_watts": None if power is None else power * float(mapped.preprocessing.gains.max()) ** 2,
        "tolerated_share": share,
        "tolerated_at_once": request.scaled(share).errors if share else None,
        "tolerated_alone": {name: largest_alone(mapped, request, name, seed, advance) for name in request.errors},
        "assumptions": assumptions(request.full_scale),
    }


# Calibrate the chips of P, of every layer and of T, and count the words that come out right before and after.


def calibrate_averager(
    mapped: MappedAverager, devices: NonIdealities, conditions: Conditions, *, words: int, seed: int, advance: Advance
) -> Document:
    """Return the figures of chips that are fabricated and calibrated, one for each block of every part.

    ``accuracy_before`` and ``accuracy_after`` are shares of ``words`` words, from 0 to 1, that all servers receive
    right without noise, with the phases of ideal devices and with the calibrated ones; amplifiers make up for loss in
    both. ``chips`` has a row for each chip: its ``name`` (``layer 1``, with ``, block 2`` where a part has several) and
    its figures (`Trial.row`), errors of its matrix before and after among them.

    Coherent light is assumed at the inputs of each part and detectors at its outputs while it is calibrated, and phases
    of its outputs that homodyne units, receivers or, behind P, the next mesh follow. Light in quadrature counts little,
    as real parts are detected in the end; that of P goes through the first layer before.

    Args:
        mapped: the meshes as designed.
        devices: errors of the devices.
        conditions: how chips are measured; ``real`` is taken as true.
        words: number of words sent for each share.
        seed: seed of fabrications, measurements and words.
        advance: called with 1 for every step of a fit.

    Raises:
        UnsupportedError: ``conditions`` say that phase offsets are wholly unknown, which those of mapped matrices
            cannot be.
    """
    conditions = replace(conditions, real=True)
    trials = {
        name: [
            try_calibration(chip, devices, conditions, seed + 1000 * number + block, advance)
            for block, chip in enumerate(part.blocks)
        ]
        for number, (name, part) in enumerate(mapped.parts.items())
    }
    before = {name: [trial.before_matrix for trial in chips] for name, chips in trials.items()}
    after = {name: [trial.after_matrix for trial in chips] for name, chips in trials.items()}
    return {
        "chips": [
            {"name": name + (f", block {block}" if len(chips) > 1 else ""), **trial.row()}
            for name, chips in trials.items()
            for block, trial in enumerate(chips, 1)
        ],
        "words": words,
        "accuracy_before": _share_right(mapped, before, words, seed),
        "accuracy_after": _share_right(mapped, after, words, seed),
    }


def _share_right(mapped: MappedAverager, matrices: Mapping[str, Sequence[Fields]], words: int, seed: int) -> float:
    """Return the share of ``words`` words, from 0 to 1, that all servers receive right without noise.

    ``matrices`` are the fabricated passive matrices [outputs, inputs] of every part by its name, one for each of its
    blocks; gains of rows are set anew.
    """
    drawn = []
    for name, part in mapped.parts.items():
        chips = zip(part.blocks, matrices[name], strict=True)
        drawn.append(part.joined([_amplified(chip, matrix, detected=name != "P") for chip, matrix in chips])[None])
    batch = averagers_of(mapped, drawn, "rows")
    wrong = wrong_words(batch, [None] * len(batch.gains), words, np.random.default_rng((seed, 3)))
    return 1 - int(wrong.sum()) / words


def _amplified(chip: MappedMatrix, matrix: Fields, detected: bool) -> Fields:
    """Return a chip's fields behind its amplifiers, [outputs, inputs], with the output phases nearest to its target.

    ``matrix`` is what the passive chip implements, [outputs, inputs]. If outputs are ``detected``, imaginary parts are
    0.
    """
    phases = np.exp(1j * np.angle(np.einsum("oi,oi->o", matrix.conj(), target_of(chip))))
    fields = chip.gains[:, None] * (phases[:, None] * matrix)
    return np.asarray(fields.real + 0j if detected else fields)
