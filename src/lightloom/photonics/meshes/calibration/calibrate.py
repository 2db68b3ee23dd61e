"""Calibrate a chip from its output powers: measure, fit a twin, program the twin."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lightloom.core.arrays import Effort, Floats, Ints, Mask
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.results import Advance, Document, attributes, ignore
from lightloom.photonics.devices import NonIdealities, check_size
from lightloom.photonics.meshes.calibration.chip import Chip, SimulatedChip
from lightloom.photonics.meshes.calibration.fit import Fields, Measured, Twin, Unknowns, fit, program, reachable_order
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.disturb import Wiring, design, disturb, quantised
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Kind, Mesh

# A first twin of a mesh whose phases are wholly unknown, from sweeps of θ and of φ, a column at a time.
#
# From the last column to the first, with random phases in front of it and pure states (cross or bar) behind it:
#
# 1. An interferometer's two outputs reach one detector each. Averaged over φ and φ + π, their powers go as cos(θ - θ*):
# three settings of θ, for all interferometers of the column at once, give θ* up to half a turn, a pure state.
# 2. Which of the two it is, cross or bar, shows when an interferometer in front of it is turned: one detector of
# the two sees that. In the first column the inputs themselves show it.
#
# Then, from the first column to the last, with pure states before and behind and an even splitting in it: the powers
# of coherent inputs at three settings of φ give the offset of φ.
#
# Light must enter at every waveguide and be detected at every one: where a single output of an interferometer is
# seen, or lit, its two states look alike.

Ideal = Mesh | MappedMatrix
"""The design that a chip was made from, without its errors."""
_THIRDS = 2 * np.pi / 3 * np.arange(3)


def first_twin(chip: Chip, seed: int) -> Twin:
    """Return a twin of a chip whose phases are wholly unknown, with offsets good enough for :func:`fit` to start from.

    Measures 7 settings for each column, 1 for each interferometer and 1 more, with light in one input at a time, then 3
    for each column with coherent light in all inputs. Offsets alone are found; couplers, heaters, crosstalk and loss
    are those of an ideal chip. ``seed`` is that of the random phases.
    """
    wiring = chip.wiring
    phases = np.random.default_rng((seed, 3)).uniform(0, 2 * np.pi, (2, wiring.devices))
    scores = np.zeros(wiring.devices)  # above 0 for the bar state
    for column in reversed(wiring.slices):
        _learn_states(chip, phases, column, scores)
        phases[0, column] = _pure_states(chip, phases, column, scores)
    _learn_states_from_inputs(chip, phases, scores)
    offsets = np.zeros_like(phases)
    offsets[0] = np.where(scores > 0, np.pi, 0.0) - phases[0]
    twin = replace(Twin.ideal(wiring), offsets=offsets)
    _find_entry_phases(chip, twin, phases[0], scores > 0)
    return twin


def _learn_states(chip: Chip, phases: Floats, column: slice, scores: Floats) -> None:
    """Turn θ of each interferometer of ``column`` by π, one at a time, and score by the outputs what is behind them.

    Args:
        chip: the chip to measure.
        phases: θ and φ to set otherwise, [2, devices].
        column: numbers of the interferometers that are turned.
        scores: changed in place for the interferometers directly behind: above 0 for the bar state, below 0 for the
            cross state, [devices].
    """
    wiring, count = chip.wiring, column.stop - column.start
    settings = np.tile(phases, (count + 1, 1, 1))
    settings[np.arange(count) + 1, 0, np.arange(column.start, column.stop)] += np.pi
    powers = chip.powers(settings, _single(wiring))
    changes = np.abs(powers[1:] - powers[0]).sum(2)
    ends = _ends(wiring, scores > 0)
    for device, seen in zip(range(column.start, column.stop), changes, strict=True):
        for mode in (wiring.upper[device], wiring.lower[device]):
            _score_next(wiring, device, int(mode), seen, ends, scores)


def _learn_states_from_inputs(chip: Chip, phases: Floats, scores: Floats) -> None:
    """Score the first interferometer behind each input by which of its two outputs lights up from that input alone.

    ``phases`` [2, devices] are set; ``scores`` [devices] are changed in place: above 0 is the bar state, below 0 the
    cross state.
    """
    wiring = chip.wiring
    powers = chip.powers(phases[None], _single(wiring))[0]
    # The last interferometers first: an input that passes one reaches it in a known state.
    ends = _ends(wiring, scores > 0)
    for mode in range(wiring.inputs):
        _score_next(wiring, -1, mode, powers[:, mode], ends, scores)


def _score_next(wiring: Wiring, device: int, mode: int, seen: Floats, ends: Ints, scores: Floats) -> None:
    """Raise or lower the score of the next interferometer on waveguide ``mode`` by what was seen at the outputs of its
    bar and its cross state, the former less the latter.

    Args:
        wiring: places of the interferometers.
        device: the interferometer behind which the next one is looked for; -1 starts at the inputs.
        mode: waveguide on which light arrives.
        seen: power at each output, or its change, [outputs]; more of it at the output of the bar state raises the
            score.
        ends: output that each interferometer's upper and lower output reach, [devices, 2] (`_ends`).
        scores: changed in place, [devices].
    """
    on_upper = wiring.upper[device + 1 :] == mode
    behind = np.flatnonzero(on_upper | (wiring.lower[device + 1 :] == mode))
    if behind.size:
        following = device + 1 + int(behind[0])
        upper_end, lower_end = ends[following]
        straight = seen[upper_end] - seen[lower_end]
        scores[following] += straight if on_upper[behind[0]] else -straight


def _pure_states(chip: Chip, phases: Floats, column: slice, scores: Floats) -> Floats:
    """Measure and return θ of the interferometers of ``column`` at which each is in its cross or in its bar state, in
    radians, [column].

    Which of the two it is remains unknown. ``phases`` [2, devices] are set otherwise; ``scores`` [devices] are the
    states of the columns behind, which must be pure.
    """
    wiring = chip.wiring
    settings = np.tile(phases, (6, 1, 1))
    settings[:, 0, column] = np.repeat(_THIRDS, 2)[:, None]
    settings[:, 1, column] += np.pi * (np.arange(6) % 2)[:, None]
    powers = chip.powers(settings, _single(wiring)).reshape(3, 2, wiring.outputs, -1).mean(1)
    # Each power goes as cos(θ - θ*) or as its opposite; squared, the sign is gone.
    squares = (np.tensordot(np.exp(1j * _THIRDS), powers, 1) ** 2).sum(1)
    ends = _ends(wiring, scores > 0)[column]
    return np.asarray(0.5 * np.angle(squares[ends[:, 0]] + squares[ends[:, 1]]))


def _find_entry_phases(chip: Chip, twin: Twin, theta: Floats, bars: Mask) -> None:
    """Measure the offsets of φ column by column, and write them into ``twin.offsets[1]`` in place; its offsets of θ
    must be known.

    ``theta`` [devices] are settings at which all interferometers are in pure states, those of ``bars`` in the bar
    state.
    """
    wiring = twin.wiring
    vectors: Fields = np.fft.fft(_single(wiring), norm="ortho")
    ends, waves = _ends(wiring, bars), np.exp(-1j * _THIRDS)
    for column in wiring.slices:
        settings = np.zeros((3, 2, wiring.devices))
        settings[:, 0] = theta
        settings[:, 0, column] += np.where(bars[column], -np.pi / 2, np.pi / 2)
        settings[:, 1, column] = _THIRDS[:, None]
        expected = np.abs(twin.propagate(settings, vectors)) ** 2
        seen, due = (np.tensordot(waves, powers, 1) for powers in (chip.powers(settings, vectors), expected))
        products = (seen * due.conj()).sum(1)
        twin.offsets[1, column] = np.angle(products[ends[column, 0]] + products[ends[column, 1]])


def _single(wiring: Wiring) -> Fields:
    """Return input fields of unit power in one input at a time: the identity [inputs, inputs]."""
    return np.eye(wiring.inputs, dtype=np.complex128)


def _ends(wiring: Wiring, bars: Mask) -> Ints:
    """Return which output the upper and the lower output of each interferometer reach through those behind it,
    [devices, 2].

    Interferometers are in the bar state where ``bars`` [devices], else in the cross state.
    """
    output = np.arange(wiring.outputs)
    ends = np.empty((wiring.devices, 2), np.int64)
    for device in range(wiring.devices - 1, -1, -1):
        pair = [wiring.upper[device], wiring.lower[device]]
        ends[device] = output[pair]
        if not bars[device]:
            output[pair] = output[pair[::-1]]
    return ends


_LEAST_SETTINGS = 12
_POWERS_PER_UNKNOWN = 10
OUTPUT_ORDERS: Effort = 20
"""Other orders of a mesh's outputs that are tried where a splitting is out of the couplers' reach."""
_NEAR = 0.7
"""Radians by which every other setting differs from the designed phases, standard deviation."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """Errors that calibration found on a chip, and the phases that it set."""

    twin: Twin
    settings: Floats
    """θ and φ to command, [2, devices]."""
    residuals: tuple[float, ...]
    """Root mean square difference of measured and expected powers, before the first step and after each.

    Where the last is several times the noise of the detectors, the chip has errors that the twin lacks.
    """
    twin_errors: tuple[float, ...]
    """Error of the matrix in the twin while it was programmed."""
    order: Ints
    """Row of the matrix that leaves at each output, [outputs]; ascending unless a splitting was out of reach."""
    programmed: Ideal
    """The phases of ideal devices for the matrix with its rows in that order."""
    measured_settings: int
    measurements: int
    """Powers that were measured."""


def calibrate(
    chip: Chip, ideal: Ideal, *, start: Twin | None = None, seed: int = 0, advance: Advance = ignore, **conditions: Any
) -> Calibration:
    """Measure output powers of ``chip``, fit a twin to them, and return the phases for which it implements ``ideal``.

    At each of ``settings`` settings of all phases, every single input and every vector of the discrete Fourier
    transform is sent in: 2 · inputs · outputs powers a setting, half as many from one input. Powers do not show output
    phases (local oscillators or the next mesh set them), and show those at the inputs relative to the coherent vectors
    alone.

    Args:
        chip: what is measured.
        ideal: the phases that ideal devices would have.
        start: a twin to start from, that of an earlier calibration; by default ideal devices. It is not used where
            offsets are wholly unknown.
        seed: of the random settings.
        advance: called with 1 for every step of the fit.
        conditions: fields of `Conditions`, of which these count: ``settings`` (their number, by default that of
            `default_settings`), ``unknowns`` (errors that are fitted), ``unknown_offsets`` (found by sweeps first),
            ``real`` (real parts are detected) and ``output_orders`` (other orders of the outputs that are tried).

    Returns:
        The fitted ``twin``, the ``settings`` of θ and φ to command, [2, devices], the ``order`` of the outputs (row
        order[o] of the matrix leaves at output o), and the ``programmed`` design in that order, with residuals and
        errors on the way and the numbers of settings and powers that were measured.

    Raises:
        ConfigError: ``settings`` is below 1, or the chip is another than that of ``ideal``.
        UnsupportedError: offsets are wholly unknown, and those of a mapped matrix or of a mesh that is not square.
    """
    how = Conditions(**conditions)
    if how.unknown_offsets:
        _check_sweeps(ideal)
    counted, wiring = _CountedChip(chip), chip.wiring
    phases = design(ideal)
    if phases.shape[1] != wiring.devices:
        raise ConfigError(f"a chip of {wiring.devices} interferometers, {phases.shape[1]} phases for it")
    count = how.settings or default_settings(wiring.devices, wiring.inputs, wiring.outputs)
    first = first_twin(counted, seed) if how.unknown_offsets else start or Twin.ideal(wiring)
    measured = measure_powers(counted, count, phases - first.offsets, seed)
    twin, residuals = fit(first, measured, how.unknowns, advance=advance)
    order = np.arange(wiring.outputs)
    if isinstance(ideal, Mesh):
        order, ideal = reachable_order(twin, ideal, how.output_orders, seed)
    programmed, twin_errors = program(twin, target_of(ideal), design(ideal), real=how.real)
    found: Document = {"residuals": residuals, "twin_errors": twin_errors}
    found |= attributes(counted, "measured_settings=settings measurements")
    return Calibration(twin=twin, settings=programmed, order=order, programmed=ideal, **found)


def _check_sweeps(ideal: Ideal) -> None:
    """Raise UnsupportedError where sweeps cannot find wholly unknown phase offsets.

    Raises:
        UnsupportedError: it is a mapped matrix, or a mesh with unequal numbers of inputs and outputs.
    """
    if not isinstance(ideal, Mesh):
        raise UnsupportedError("unknown offsets: only those of a single mesh are found, Σ hides light from detectors")
    if ideal.inputs != ideal.outputs:
        raise UnsupportedError(
            f"unknown offsets of a mesh of {ideal.inputs} inputs and {ideal.outputs} outputs: they are found where "
            "both are as many, as every waveguide must be lit and detected"
        )


class _CountedChip:
    """A chip, with the settings and powers that were measured."""

    def __init__(self, chip: Chip) -> None:
        """Start the counts at 0."""
        self._chip = chip
        self.wiring, self.dac_bits = chip.wiring, chip.dac_bits
        self.settings = self.measurements = 0

    def powers(self, settings: Floats, vectors: Fields) -> Floats:
        """Return the powers [settings, outputs, vectors] that the chip measures for ``settings`` [settings, 2, devices]
        in radians and input fields [inputs, vectors], and add the settings and the powers to the counts."""
        powers = self._chip.powers(settings, vectors)
        self.settings += len(powers)
        self.measurements += powers.size
        return powers


def default_settings(devices: int, inputs: int, outputs: int) -> int:
    """Return the number of settings at which ten powers are measured for each of six unknowns an interferometer,
    rounded up, at least 12; a setting measures the powers of all `probe_vectors` at every output."""
    powers: int = probe_vectors(inputs).shape[1] * outputs
    return max(_LEAST_SETTINGS, -(-_POWERS_PER_UNKNOWN * 6 * devices // powers))


def target_of(ideal: Ideal) -> Fields:
    """Return the matrix [outputs, inputs] of the passive chip on ideal devices, without the gains of its amplifiers."""
    matrix = ideal.matrix()
    return matrix if isinstance(ideal, Mesh) else np.asarray(matrix / ideal.gains[:, None])


def probe_vectors(inputs: int) -> Fields:
    """Return the input fields that calibration sends in, [inputs, 2 · inputs], all of unit power.

    They are every single input, then every vector of the discrete Fourier transform. For one input there is the single
    input alone, [1, 1].
    """
    single = np.eye(inputs, dtype=np.complex128)
    return np.concatenate([single, np.fft.fft(single, norm="ortho")], 1) if inputs > 1 else single


def measure_powers(chip: Chip, count: int, designed: Floats, seed: int) -> Measured:
    """Measure powers of `probe_vectors` at ``count`` settings, alternately of phases near the designed and of random
    ones.

    Random phases show every device, near-designed ones show those that matter as light will pass them. Settings are
    rounded to the chip's resolution. The first setting is a near-designed one; these differ from the designed phases by
    0.7 rad (standard deviation).

    The result holds the ``settings`` [count, 2, devices], the input fields ``vectors`` and the ``powers`` [count,
    outputs, vectors].

    Args:
        chip: the chip to measure.
        count: number of settings.
        designed: θ and φ to command in radians, offsets that are known subtracted, [2, devices].
        seed: seed of the settings.
    """
    rng = np.random.default_rng((seed, 2))
    size = (2, count, chip.wiring.devices)
    phases = rng.uniform(0, 2 * np.pi, size)
    phases[:, ::2] = (designed[:, None] + _NEAR * rng.normal(size=size)[:, ::2]) % (2 * np.pi)
    settings = quantised(phases.swapaxes(0, 1).copy(), chip.dac_bits)
    vectors = probe_vectors(chip.wiring.inputs)
    return Measured(settings=settings, vectors=vectors, powers=chip.powers(settings, vectors))


# Calibrate simulated chips and compare with what no measurement shows: the true error, before and after.

_PHASES_ALONE = Unknowns(couplers=False, heaters=False, crosstalk=False, loss=False)
AGAIN = 4
"""Settings of a second calibration, which fits offsets alone: couplers and heaters do not drift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How a simulated chip is measured."""

    power_noise: float = 1e-3
    """Standard deviation of a measured power, as a share of the input power. An assumption."""
    drift: float = 0.0
    """Radians that every phase drifts between two settings, standard deviation of a Gaussian step."""
    settings: int | None = None
    """Settings that are measured; by default 12 or more."""
    aging: float = 0.0
    """Radians that every phase drifts after the calibration, before a second one."""
    unknowns: Unknowns = field(default_factory=Unknowns)
    """Errors of the chip that are fitted."""
    unknown_offsets: bool = False
    """True if the phase offsets are drawn from a whole turn, and found by sweeps first."""
    output_orders: int = OUTPUT_ORDERS
    """Other orders of the outputs that are tried if a splitting is out of the couplers' reach."""
    real: bool = False
    """True if receivers detect real parts, as homodyne units do; light in quadrature is then no error."""

    def __post_init__(self) -> None:
        """Raise ConfigError for a noise, drift or aging outside 0 to 10, or fewer than one setting."""
        for name, unit in (("power_noise", "input powers"), ("drift", "rad"), ("aging", "rad")):
            check_size(name, getattr(self, name), 10, unit)
        if self.settings is not None and self.settings < 1:
            raise ConfigError(f"settings={self.settings}: expected at least 1")


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """One simulated chip: its errors, relative and up to output phases, and what they cost."""

    calibration: Calibration
    before: float
    """Error with the phases of ideal devices."""
    after: float
    """Error with the calibrated phases."""
    limit: float
    """Error that remains if every error of the devices is known: some splittings are out of the couplers' reach."""
    aged: float | None
    """Error after the phases drifted on."""
    renewed: float | None
    """Error after a second calibration with :data:`AGAIN` settings."""
    cpu_seconds: float
    """CPU time of the calibration, the simulation of the measurements included."""
    before_matrix: Fields
    after_matrix: Fields
    """Matrix that the passive chip implements, [outputs, inputs]."""

    def row(self) -> Document:
        """Return the figures of this chip as a JSON object.

        ``error_before``, ``error_after``, ``error_limit`` and ``error_in_twin`` are errors of the matrix relative to
        its norm, so are ``error_aged`` and ``error_renewed``, which are None without aging; ``residuals`` are root mean
        square differences of powers before the first step of the fit and after each; ``settings`` and ``measurements``
        count what was measured, ``output_order`` has the row of the matrix that leaves at each output,
        ``fitted_crosstalk`` is a share, and ``fitted_loss_db`` is the loss of a device; ``inputs``, ``outputs`` and
        ``mzi_count`` are those of the chip.
        """
        made = self.calibration
        return {
            **attributes(made.twin.wiring, "inputs outputs mzi_count=devices"),
            **attributes(made, "settings=measured_settings measurements"),
            "output_order": made.order.tolist(),
            **attributes(self, "error_before=before error_after=after error_limit=limit"),
            "error_in_twin": made.twin_errors[-1],
            **attributes(self, "error_aged=aged error_renewed=renewed"),
            **attributes(made.twin, "fitted_crosstalk=crosstalk fitted_loss_db=loss_db"),
            "residuals": list(made.residuals),
        }


def try_calibration(
    ideal: Ideal, non_idealities: NonIdealities, conditions: Conditions, seed: int, advance: Advance = ignore
) -> Trial:
    """Fabricate a chip, calibrate it, age it and calibrate it again from its twin, and return its errors at each stage:
    relative to the norm of the matrix, ``before`` (at the phases as designed) and ``after`` the calibration, with every
    error known (``limit``), ``aged`` and ``renewed`` (None without aging). The result also has the ``calibration``, its
    ``cpu_seconds``, and the chip's matrices ``before_matrix`` and ``after_matrix``.

    Args:
        ideal: the phases as designed.
        non_idealities: errors with which the devices are drawn.
        conditions: how the chip is measured; it is aged if they say so, and with unknown offsets its phase errors are
            drawn anew from a whole turn first.
        seed: seed of the devices and of the measurements.
        advance: called with 1 for every step of the first fit.

    Raises:
        UnsupportedError: offsets are wholly unknown, and those of a mapped matrix or of a mesh that is not square.
    """
    fabricated = disturb(ideal, non_idealities, np.random.default_rng((seed, 0)))
    chip = SimulatedChip(fabricated, power_noise=conditions.power_noise, drift=conditions.drift, seed=seed)
    if conditions.unknown_offsets:
        chip.scramble()
    target, untreated, real = target_of(ideal), chip.designed, conditions.real
    before, before_matrix = chip.error(untreated, target, real=real), chip.matrix(untreated)
    began = time.process_time()
    asked = attributes(conditions, "settings unknowns unknown_offsets real output_orders")
    made = calibrate(chip, ideal, seed=seed, advance=advance, **asked)
    cpu_seconds = time.process_time() - began
    arranged = target[made.order]
    after, after_matrix = chip.error(made.settings, arranged, real=real), chip.matrix(made.settings)
    known, _ = program(chip.truth(), target, untreated, real=real)
    limit = chip.error(known, target, real=real)
    aged, renewed = _aged(chip, made, arranged, conditions, seed)
    errors: Document = {"before": before, "after": after, "limit": limit, "aged": aged, "renewed": renewed}
    matrices: Document = {"before_matrix": before_matrix, "after_matrix": after_matrix}
    return Trial(calibration=made, cpu_seconds=cpu_seconds, **errors, **matrices)


def _aged(
    chip: SimulatedChip, made: Calibration, target: Fields, conditions: Conditions, seed: int
) -> tuple[float | None, float | None]:
    """Let every phase of the chip drift by ``conditions.aging`` radians (standard deviation), and return its error,
    relative to the norm of ``target``, before and after a second calibration; (None, None) without aging.

    Receivers read the outputs in the order of the first calibration ``made``; ``target`` [outputs, inputs] has its rows
    in that order. The second calibration measures 4 settings, starts from the first one's twin and fits phase offsets
    alone.
    """
    if not conditions.aging:
        return None, None
    chip.age(conditions.aging)
    aged = chip.error(made.settings, target, real=conditions.real)
    asked: Document = {"settings": AGAIN, "unknowns": _PHASES_ALONE, "real": conditions.real, "output_orders": 0}
    again = calibrate(chip, made.programmed, start=made.twin, seed=seed + 1, **asked)
    return aged, chip.error(again.settings, target, real=conditions.real)


def random_mesh(modes: int, kind: Kind, seed: int) -> Mesh:
    """Return the mesh of a unitary matrix [modes, modes] drawn from the Haar measure.

    The same ``seed`` and number of modes draw the same matrix.

    Raises:
        ConfigError: ``modes`` is below 1.
        UnknownNameError: the kind of mesh does not exist.
    """
    if modes < 1:
        raise ConfigError(f"modes={modes}: expected at least 1")
    rng = np.random.default_rng((seed, modes))
    unitary, upper = np.linalg.qr(rng.normal(size=(modes, modes)) + 1j * rng.normal(size=(modes, modes)))
    return decompose(unitary * (np.diag(upper) / np.abs(np.diag(upper))), kind)
