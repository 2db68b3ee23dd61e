"""Calibrate a chip from its output powers: measure, fit a twin, program the twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.effort import Effort
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.photonics.meshes.calibration.chip import Chip, rounded
from lightloom.photonics.meshes.calibration.fit import Measured, Unknowns, fit, ignore
from lightloom.photonics.meshes.calibration.programming import program, reachable_order
from lightloom.photonics.meshes.calibration.sweeps import first_twin
from lightloom.photonics.meshes.calibration.twin import Fields, Settings, Twin
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh
from lightloom.photonics.meshes.wiring import design

_LEAST_SETTINGS = 12
_POWERS_PER_UNKNOWN = 10
OUTPUT_ORDERS: Effort = 20
"""Other orders of a mesh's outputs that are tried where a splitting is out of the couplers' reach."""
_NEAR = 0.7
"""Radians by which every other setting differs from the designed phases, standard deviation."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """What calibration learnt of a chip, and the phases that it set."""

    twin: Twin
    settings: Settings
    """Phases to command, [devices]."""
    residuals: tuple[float, ...]
    """Root mean square difference of measured and expected powers, before the first step and after each.

    Where the last is several times the noise of the detectors, the chip has errors that the twin lacks.
    """
    twin_errors: tuple[float, ...]
    """Error of the matrix in the twin while it was programmed."""
    order: Ints
    """Row of the matrix that leaves at each output, [outputs]; ascending unless a splitting was out of reach."""
    programmed: Mesh | MappedMatrix
    """The phases of ideal devices for the matrix with its rows in that order."""
    measured_settings: int
    measurements: int
    """Powers that were measured."""


def calibrate(
    chip: Chip,
    ideal: Mesh | MappedMatrix,
    *,
    settings: int | None = None,
    unknowns: Unknowns | None = None,
    start: Twin | None = None,
    unknown_offsets: bool = False,
    real: bool = False,
    output_orders: int = OUTPUT_ORDERS,
    seed: int = 0,
    advance: Callable[[int], None] = ignore,
) -> Calibration:
    """Measure output powers of ``chip``, fit a twin to them, and return the phases for which it implements ``ideal``.

    At each of ``settings`` settings of all phases, every single input and every vector of the discrete Fourier
    transform is sent in: 2 · inputs · outputs powers a setting, half as many from one input. Powers do not show output
    phases (local oscillators or the next mesh set them), and show those at the inputs relative to the coherent vectors
    alone.

    Args:
        chip: what is measured.
        ideal: the phases that ideal devices would have.
        settings: by default 12 or more, for ten powers an unknown.
        unknowns: what is fitted; by default offsets, couplers, heaters, a common crosstalk and a common loss.
        start: a twin to start from, that of an earlier calibration; by default ideal devices.
        unknown_offsets: whether offsets are wholly unknown; sweeps of each column come first (:mod:`sweeps`).
        real: whether receivers detect real parts, so that light in quadrature is no error.
        output_orders: other orders of a mesh's outputs that are tried if a splitting is out of the couplers' reach.
        seed: of the random settings.
        advance: called for every step of the fit.

    Raises:
        ConfigError: ``settings`` is below 1, or the chip is another than that of ``ideal``.
        UnsupportedError: offsets are wholly unknown, and those of a mapped matrix or of a mesh that is not square.
    """
    if unknown_offsets:
        _check_sweeps(ideal)
    counted, wiring = _CountedChip(chip), chip.wiring
    theta, phi = design(ideal)
    if theta.size != wiring.devices:
        raise ConfigError(f"a chip of {wiring.devices} interferometers, {theta.size} phases for it")
    count = default_settings(wiring.devices, wiring.inputs, wiring.outputs) if settings is None else settings
    if count < 1:
        raise ConfigError(f"settings={count}: expected at least 1")
    first = first_twin(counted, seed) if unknown_offsets else start or Twin.ideal(wiring)
    measured = measure(counted, count, (theta - first.theta_offset, phi - first.phi_offset), seed)
    fitted = fit(first, measured, unknowns or Unknowns(), advance=advance)
    order, ideal = _arranged(fitted.twin, ideal, output_orders, seed)
    programmed = program(fitted.twin, target_of(ideal), design(ideal), real=real)
    return Calibration(
        twin=fitted.twin,
        settings=programmed.settings,
        order=order,
        programmed=ideal,
        residuals=fitted.residuals,
        twin_errors=programmed.errors,
        measured_settings=counted.settings,
        measurements=counted.measurements,
    )


def _check_sweeps(ideal: Mesh | MappedMatrix) -> None:
    if not isinstance(ideal, Mesh):
        raise UnsupportedError("unknown offsets: only those of a single mesh are found, Σ hides light from detectors")
    if ideal.inputs != ideal.outputs:
        raise UnsupportedError(
            f"unknown offsets of a mesh of {ideal.inputs} inputs and {ideal.outputs} outputs: they are found where "
            "both are as many, as every waveguide must be lit and detected"
        )


def _arranged(twin: Twin, ideal: Mesh | MappedMatrix, orders: int, seed: int) -> tuple[Ints, Mesh | MappedMatrix]:
    """Return the order of the outputs [outputs] and what is programmed; a mapped matrix keeps its order."""
    if isinstance(ideal, Mesh):
        return reachable_order(twin, ideal, orders, seed)
    return np.arange(twin.wiring.outputs), ideal


class _CountedChip:
    """A chip, with the settings and powers that were measured."""

    def __init__(self, chip: Chip) -> None:
        self._chip = chip
        self.wiring, self.dac_bits = chip.wiring, chip.dac_bits
        self.settings = self.measurements = 0

    def powers(self, settings: Settings, vectors: Fields) -> Floats:
        powers = self._chip.powers(settings, vectors)
        self.settings += len(powers)
        self.measurements += powers.size
        return powers


def default_settings(devices: int, inputs: int, outputs: int) -> int:
    """Return the number of settings for ten powers an unknown, at least 12."""
    powers: int = probe_vectors(inputs).shape[1] * outputs
    return max(_LEAST_SETTINGS, -(-_POWERS_PER_UNKNOWN * 6 * devices // powers))


def target_of(ideal: Mesh | MappedMatrix) -> Fields:
    """Return the matrix [outputs, inputs] of the passive chip, without its amplifiers."""
    matrix = ideal.matrix()
    return matrix if isinstance(ideal, Mesh) else np.asarray(matrix / ideal.gains[:, None])


def probe_vectors(inputs: int) -> Fields:
    """Return every single input and every vector of the discrete Fourier transform, [inputs, 2 · inputs]."""
    single = np.eye(inputs, dtype=np.complex128)
    return np.concatenate([single, np.fft.fft(single, norm="ortho")], 1) if inputs > 1 else single


def measure(chip: Chip, count: int, designed: tuple[Floats, Floats], seed: int) -> Measured:
    """Measure powers at ``count`` settings, alternately of random phases and of phases near the designed ones.

    Random phases show every device, near-designed ones show those that matter as light will pass them. ``designed``
    are θ and φ to command, offsets that are known subtracted.
    """
    rng = np.random.default_rng((seed, 2))
    size = (2, count, chip.wiring.devices)
    phases = rng.uniform(0, 2 * np.pi, size)
    phases[:, ::2] = (np.stack(designed)[:, None] + _NEAR * rng.normal(size=size)[:, ::2]) % (2 * np.pi)
    settings = rounded(Settings(theta=phases[0], phi=phases[1]), chip.dac_bits)
    vectors = probe_vectors(chip.wiring.inputs)
    return Measured(settings=settings, vectors=vectors, powers=chip.powers(settings, vectors))
