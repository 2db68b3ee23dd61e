"""One fabrication of a link, and the words that its servers receive.

    z = gain · Re(H x) · (1 + laser noise) + bias + noise,   x' = unit(z)

Fields are relative to full scale. Gains are set on the fabricated chip (the least-squares factor of every row), so loss
costs noise and is no error; gain and bias errors come on top. Behind the last layer T divides the fields of the signals,
both quadratures, and each server detects its own share.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Floats, Ints
from lightloom.photonics.link.chip import Chip, Complex
from lightloom.photonics.link.detection import emitted_noise, homodyne_noise
from lightloom.photonics.link.sender import Senders, laser_noise, modulate
from lightloom.photonics.link.settings import Link
from lightloom.photonics.link.units import Units
from lightloom.photonics.pam4 import LEVELS

Float32s = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FabricatedLayer:
    """A layer on fabricated devices."""

    matrix: Float32s
    """[outputs, inputs] with the gains; inputs are real, or real and imaginary parts one after the other."""
    biases: Float32s
    """[outputs, 1]"""
    noise: Float32s
    """Standard deviation of the noise of every output, [outputs, 1]."""
    passive_peak: Float32s
    """Inverse gains, from arguments back to the fields on the chip, [outputs, 1]."""


@dataclass(slots=True, kw_only=True)
class Peaks:
    """Largest powers of a signal relative to full scale, by place."""

    values: dict[str, float] = field(default_factory=dict)

    def note(self, place: str, amplitude: float) -> None:
        """Keep the amplitude if it is the largest at its place."""
        self.values[place] = max(self.values.get(place, 0.0), float(amplitude) ** 2)


class FabricatedLink:
    """One fabrication of the chip, its servers and its receivers.

    Args:
        chip: the chip as designed.
        link: everything that errs.
        seed: seed of the fabrication and of all noise. Streams are separate by part, so that links that differ in one
            part draw the same errors in all others.
        calibrated: whether gains are set on the fabricated chip.
    """

    def __init__(self, chip: Chip, link: Link, seed: tuple[int, ...] = (0,), *, calibrated: bool = True) -> None:
        self.chip, self.link, self.seed = chip, link, seed
        self.peaks = Peaks()
        self.senders = Senders.draw(chip.arguments.servers, link, self.stream("servers"))
        self._draw_layers(calibrated)

    def stream(self, name: str) -> np.random.Generator:
        """Return a generator for one part of the link."""
        return np.random.default_rng([*self.seed, *name.encode()])

    def _draw_layers(self, calibrated: bool) -> None:
        chip, link = self.chip, self.link
        meshes = self.stream("meshes")
        errors = link.non_idealities
        entry = chip.preprocessing.fabricated(errors, meshes) * chip.preprocessing.gains[:, None]
        passive = [stage.fabricated(errors, meshes) for stage in chip.layers]
        exit_matrix = chip.splitting.fabricated(errors, meshes) * chip.splitting.gains[:, None]
        targets = [stage.target for stage in chip.layers]
        passive[0], targets[0] = passive[0] @ entry, targets[0] @ chip.preprocessing.target
        gains = [stage.gains for stage in chip.layers]
        if calibrated:
            gains = [fitted_gains(matrix, target, gain) for matrix, target, gain in zip(passive, targets, gains, strict=True)]
        self.layers = [self._layer(layer, passive[layer], gains[layer]) for layer in range(len(passive))]
        self._draw_receivers(exit_matrix, calibrated)

    def _layer(self, layer: int, passive: Complex, gains: Floats) -> FabricatedLayer:
        link, rng = self.link, self.stream(f"layer {layer}")
        outputs = len(gains)
        gain_error, bias_error = rng.normal(size=(2, outputs))
        matrix = gains[:, None] * (1 + link.gain_error * gain_error[:, None]) * passive
        # Only lanes of servers have both quadratures, and only the last layer's fields leave with both.
        parts = [matrix.real, -matrix.imag] if layer == 0 else [matrix.real]
        together = np.concatenate(parts, axis=1)
        if layer == len(self.chip.layers) - 1 and link.gain == "optical":
            across = [matrix.imag, matrix.real] if layer == 0 else [matrix.imag]
            together = np.concatenate([together, np.concatenate(across, axis=1)])
        amplified = np.maximum(gains, 0) if link.gain == "electrical" else np.ones(outputs)
        # Behind the last optical amplifiers light goes on to the servers undetected.
        detected = homodyne_noise(link) * amplified
        if layer == len(self.chip.layers) - 1 and link.gain == "optical":
            detected = np.zeros(outputs)
        noise = np.hypot(detected, emitted_noise(link, gains))
        biases = self.chip.biases[layer] * (1 + link.bias_error * bias_error)
        return FabricatedLayer(
            matrix=together.astype(np.float32),
            biases=biases.astype(np.float32)[:, None],
            noise=noise.astype(np.float32)[:, None],
            passive_peak=(1 / np.where(gains > 0, gains, 1.0)).astype(np.float32)[:, None],
        )

    def _draw_receivers(self, exit_matrix: Complex, calibrated: bool) -> None:
        link, rng = self.link, self.stream("receivers")
        receivers = len(exit_matrix)
        gain_error = rng.normal(size=receivers)
        target = self.chip.splitting.target
        nominal = np.full(receivers, np.sqrt(self.chip.arguments.servers))
        gains = fitted_gains(exit_matrix, nominal[:, None] * target, nominal) if calibrated else nominal
        matrix = gains[:, None] * (1 + link.gain_error * gain_error[:, None]) * exit_matrix
        self.exit = np.concatenate([matrix.real, -matrix.imag], axis=1).astype(np.float32)
        self.exit_noise = (homodyne_noise(link, link.path_loss_db) * gains).astype(np.float32)[:, None]
        self.thresholds = (link.threshold_error * rng.normal(size=(receivers, LEVELS - 1))).astype(np.float32)

    def receive(self, codes: Ints, seed: int = 0) -> Ints:
        """Return the codes that the servers receive for codes [servers, words] that they send: [servers, words]."""
        link, rng = self.link, self.stream(f"words {seed}")
        lanes = modulate(codes, self.chip.arguments.bits, link, self.senders, rng)
        self.peaks.note("server lanes at P", float(np.abs(lanes).max(initial=0)) * np.sqrt(self.chip.lane_share))
        signals = lanes.reshape(-1, codes.shape[1])
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            arguments = layer.matrix @ signals
            outputs = len(layer.biases)
            if link.rin_db is not None:
                # One laser feeds the carriers of the units and the oscillators: both factors are the same.
                strength = laser_noise(link, (codes.shape[1],), rng)
                arguments *= strength if index == 0 else np.square(strength)
            self._note_peaks(layer, arguments[:outputs], index)
            arguments[:outputs] += layer.biases
            if layer.noise.any():
                arguments += np.resize(layer.noise, (len(arguments), 1)) * rng.standard_normal(arguments.shape, np.float32)
            signals = arguments if index == last else self.chip.units[index].transfer(arguments, link)
        if link.gain == "electrical":
            signals = np.concatenate([self._emitted(signals), np.zeros_like(signals)])
        return self._decided(signals, codes.shape, rng)

    def _emitted(self, outputs: Float32s) -> Float32s:
        """Return the fields of the modulators that send the outputs on to T."""
        units = Units(np.zeros(len(outputs), bool), np.ones(len(outputs), np.float32), True)
        return units.transfer(outputs, self.link) if self.link.unit in ("clip", "limiting") else outputs

    def _note_peaks(self, layer: FabricatedLayer, arguments: Float32s, index: int) -> None:
        self.peaks.note("meshes", float(np.abs(arguments * layer.passive_peak).max(initial=0)))
        if self.link.gain == "optical":
            self.peaks.note("amplifiers, bias subtracted behind them", float(np.abs(arguments).max(initial=0)))
            before = np.abs(arguments + layer.biases).max(initial=0)
            self.peaks.note("amplifiers, bias subtracted before them", float(before))

    def _decided(self, signals: Float32s, shape: tuple[int, int], rng: np.random.Generator) -> Ints:
        servers, words = shape
        received = self.exit @ signals
        received += self.exit_noise * rng.standard_normal(received.shape, np.float32)
        received *= LEVELS - 1
        decided = np.zeros(received.shape, np.int8)
        for level in range(LEVELS - 1):
            decided += received > np.float32(level + 0.5) + self.thresholds[:, level : level + 1]
        digits = decided.reshape(servers, -1, words)
        places = 1 << 2 * np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
        codes: Ints = np.einsum("d,sdw->sw", places, digits, dtype=np.int64)
        return codes


def fitted_gains(passive: Complex, target: Floats, designed: Floats) -> Floats:
    """Return the real factor of every row that brings the real part of ``passive`` nearest to ``target``."""
    real = passive.real
    power = np.square(real).sum(axis=1)
    along = (real * target).sum(axis=1)
    usable = (power > 0) & (along > 0)
    return np.asarray(np.where(usable, along / np.where(power > 0, power, 1.0), designed), np.float64)
