"""Chips whose light is measured: what calibration asks of one, and one that is simulated."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.photonics.devices import check_size
from lightloom.photonics.meshes.calibration.fit import Fields, Twin, phase_free_error
from lightloom.photonics.meshes.disturb import DisturbedMatrix, DisturbedMesh, Fabrication, Wiring, design, wiring_of
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh


class Chip(Protocol):
    """Interferometers with heaters that can be set, and detectors at the outputs."""

    @property
    def wiring(self) -> Wiring:
        """Places of the interferometers of the chip."""

    @property
    def dac_bits(self) -> int:
        """Resolution of the settings, multiples of 2π/2^bits; 0 for continuous ones."""

    def powers(self, settings: Floats, vectors: Fields) -> Floats:
        """Set θ and φ [settings, 2, devices] in radians, one setting after the other, and measure the output powers.

        Returns powers [settings, outputs, vectors], as shares of the input power, for input fields [inputs, vectors] of
        unit power.
        """


Fabricated = DisturbedMesh | DisturbedMatrix


class SimulatedChip:
    """A fabricated mesh or mapped matrix, propagated as `disturb` does, with detector noise and drift.

    Every measured power has Gaussian noise of standard deviation ``power_noise`` (share of the input power); every
    phase takes a Gaussian step of ``drift`` radians between two settings.
    """

    def __init__(self, fabricated: Fabricated, *, power_noise: float = 1e-3, drift: float = 0.0, seed: int = 0) -> None:
        """Take the chip in front of its amplifiers.

        Raises:
            ConfigError: the noise or the drift is negative or not finite.
        """
        for name, value in (("power_noise", power_noise), ("drift", drift)):
            check_size(name, value)
        ideal: Mesh | MappedMatrix
        if isinstance(fabricated, DisturbedMesh):
            ideal = fabricated.mesh
        else:
            # The chip in front of its amplifiers.
            ideal = replace(fabricated.mapped, gains=np.ones(fabricated.mapped.shape[0]))
            fabricated = replace(fabricated, mapped=ideal)
        self._fabricated: Fabricated = fabricated
        self._power_noise, self._drift = power_noise, drift
        self._rng = np.random.default_rng((seed, 1))
        self.wiring, self.dac_bits = wiring_of(ideal), fabricated.non_idealities.dac_bits
        self.designed = design(ideal)
        """θ and φ of ideal devices, [2, devices]."""

    def powers(self, settings: Floats, vectors: Fields) -> Floats:
        """Set θ and φ [settings, 2, devices] in radians and measure the output powers [settings, outputs, vectors] as
        shares of the input power.

        ``vectors`` are input fields [inputs, vectors] of unit power, see :class:`Chip`. Every θ and φ drifts before
        each setting, for good; powers have noise and may be negative.
        """
        rows = []
        for phases in settings:
            if self._drift:
                self.age(self._drift)
            rows.append(np.abs(_set(self._fabricated, phases).propagate(vectors)) ** 2)
        powers = np.stack(rows)
        return np.asarray(powers + self._power_noise * self._rng.normal(size=powers.shape))

    def scramble(self) -> None:
        """Draw the error of every θ and φ (not of output phases) anew, uniformly from a whole turn, in place of the
        fabricated one."""
        self._fabricated = _with_errors(self._fabricated, lambda errors: self._rng.uniform(0, 2 * np.pi, errors.shape))

    def age(self, radians: float) -> None:
        """Add a Gaussian step of standard deviation ``radians`` to the error of every θ and φ (not of output phases),
        for good."""
        self._fabricated = _with_errors(self._fabricated, lambda old: old + radians * self._rng.normal(size=old.shape))

    def truth(self) -> Twin:
        """Return the twin that has every error of the chip, with the mean of its losses, in dB, in place of each (phase
        errors of V†'s outputs are in φ of Σ, those of the chip's outputs left out); it is what a fit seeks."""
        chip = self._fabricated
        if isinstance(chip, DisturbedMesh):
            parts = [chip.fabrication]
        else:
            output = [chip.output_mesh.fabrication] if chip.output_mesh else []
            parts = [chip.input_mesh.fabrication, chip.attenuators, *output]
        offsets = np.concatenate([part.phase_errors for part in parts], axis=1)
        if isinstance(chip, DisturbedMatrix):
            # Phases at the outputs of V† lie in series with those of Σ.
            start, silent = parts[0].transmission.size, parts[0].output_error[: parts[1].transmission.size]
            offsets[1, start : start + silent.size] += silent
        transmission = np.concatenate([part.transmission for part in parts])
        return Twin(
            wiring=self.wiring,
            offsets=offsets,
            couplers=np.concatenate([part.couplers for part in parts], axis=1),
            efficiencies=np.concatenate([part.efficiencies for part in parts], axis=1),
            crosstalk=chip.non_idealities.thermal_crosstalk,
            loss_db=float(-10 * np.log10(transmission).mean()) if transmission.size else 0.0,
        )

    def error(self, settings: Floats, target: Fields, *, real: bool = False) -> float:
        """Return how far the matrix of the chip at these ``settings`` [2, devices] is from ``target`` [outputs,
        inputs].

        There is no noise; no measurement can show it. The error is relative to the target's norm and free of output
        phases and of a common gain, see `phase_free_error`; with ``real``, light in quadrature is no error.
        """
        return phase_free_error(self.matrix(settings), target, real=real)

    def matrix(self, settings: Floats) -> Fields:
        """Return the matrix [outputs, inputs] that the chip implements at these settings [2, devices], without
        amplifiers."""
        return _set(self._fabricated, settings).propagate(np.eye(self.wiring.inputs))


def _with_errors(fabricated: Fabricated, errors: Callable[[Floats], Floats]) -> Fabricated:
    """Return the chip with the phase errors of all its devices replaced.

    ``errors`` returns the new ones for those of one mesh or of Σ, [2, mzis]; errors of output phases stay.
    """

    def changed(fabrication: Fabrication) -> Fabrication:
        """Return devices whose phase errors are ``errors`` of those that they have."""
        return replace(fabrication, phase_errors=errors(fabrication.phase_errors))

    if isinstance(fabricated, DisturbedMesh):
        return replace(fabricated, fabrication=changed(fabricated.fabrication))
    first, output = fabricated.input_mesh, fabricated.output_mesh
    input_mesh = replace(first, fabrication=changed(first.fabrication))
    attenuators = changed(fabricated.attenuators)
    output_mesh = output and replace(output, fabrication=changed(output.fabrication))
    return replace(fabricated, input_mesh=input_mesh, attenuators=attenuators, output_mesh=output_mesh)


def _set(fabricated: Fabricated, phases: Floats) -> Fabricated:
    """Return the chip with θ and φ of all its devices set to ``phases`` [2, devices], in the order of the light.

    The output phases of V† are set to 0, as those of Σ lie in series.
    """
    if isinstance(fabricated, DisturbedMesh):
        return replace(fabricated, mesh=replace(fabricated.mesh, theta=phases[0], phi=phases[1]))
    first, output = fabricated.input_mesh, fabricated.output_mesh
    before, sigma, behind = np.split(phases, np.cumsum([first.mesh.mzis, fabricated.attenuators.transmission.size]), 1)
    silent = np.zeros(first.mesh.outputs)
    input_mesh = replace(first, mesh=replace(first.mesh, theta=before[0], phi=before[1], output_phases=silent))
    output_mesh = output and replace(output, mesh=replace(output.mesh, theta=behind[0], phi=behind[1]))
    return replace(fabricated, input_mesh=input_mesh, attenuator_phases=sigma, output_mesh=output_mesh)
