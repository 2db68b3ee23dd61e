"""One fabrication of a link, and the words that its servers receive.

    z = (gain · Re(H x) + bias) · (1 + laser noise) + noise,   x' = unit(z)

Fields are relative to full scale. Gains and biases are set on the fabricated chip (`calibration`), so that loss costs
noise and is no error; gain and bias errors come on top. Biases are fields of the chip's laser that enter in
front of the gain, so that this laser's noise moves no threshold behind the first layer. Behind the last layer T divides
the fields of the signals, and each server detects its own share; receivers follow the carrier's phase.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Float32s, Floats, Ints
from lightloom.photonics.link.calibration import Calibrated, calibrated_chip
from lightloom.photonics.link.chip import Chip, Complex, fabricated
from lightloom.photonics.link.detection import emitted_noise, homodyne_noise
from lightloom.photonics.link.sender import Senders, laser_noise, modulate
from lightloom.photonics.link.settings import Link
from lightloom.photonics.link.units import sent_on
from lightloom.photonics.pam4 import LEVELS, symbols_for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FabricatedLayer:
    """A layer on fabricated devices; rows are outputs, or their real parts and then their imaginary parts."""

    matrix: Float32s
    """Weights with the gains, [rows, inputs], or [rows, 2 · inputs] for real and imaginary parts of the inputs."""
    biases: Float32s
    """[rows, 1]"""
    noise: Float32s
    """Standard deviation of the noise of every row, [rows, 1]."""
    inverse_gains: Float32s
    """From arguments back to the fields on the chip, [rows, 1]."""


@dataclass(slots=True, kw_only=True)
class Peaks:
    """Largest powers of a signal relative to full scale, by place."""

    values: dict[str, float] = field(default_factory=dict)

    def note(self, place: str, amplitudes: NDArray[np.floating]) -> None:
        """Keep the power of the largest amplitude if it is the largest at its place."""
        power = float(np.abs(amplitudes).max(initial=0)) ** 2
        self.values[place] = max(self.values.get(place, 0.0), power)


class FabricatedLink:
    """One fabrication of the chip, its servers and its receivers.

    Args:
        chip: the chip as designed.
        link: everything that errs.
        seed: seed of the fabrication. Parts have streams of their own, so that links that differ in one part draw the
            same errors in all others.
    """

    def __init__(self, chip: Chip, link: Link, seed: tuple[int, ...] = (0,)) -> None:
        self.chip, self.link, self.seed = chip, link, seed
        self.peaks = Peaks()
        servers, bits = chip.arguments.servers, chip.arguments.bits
        self.senders = Senders.draw(servers, symbols_for(bits), link, self.stream("servers"))
        meshes, errors = self.stream("meshes"), link.non_idealities
        mapped = chip.mapped
        matrices = [fabricated(part, errors, meshes) for part in mapped.matrices]
        *before, behind = [10 ** (-link.crossing_loss_db / 20 * counts) for counts in mapped.guide_crossings]
        entry, *passive = [matrix * losses for matrix, losses in zip(matrices, before, strict=True)]
        passive[-1] = behind[:, None] * passive[-1]
        targets = [*mapped.layers.target_matrices, mapped.targets["T"]]
        # Servers' lanes arrive with both quadratures: P and the first layer are one matrix to the first units.
        scale = chip.input_scale
        passive[0] = passive[0] @ (scale * mapped.preprocessing.gains[:, None] * entry)
        targets[0] = targets[0] @ (scale * mapped.targets["P"])
        # Receivers make up for the division of T among the servers.
        passive[-1] = passive[-1] * mapped.splitting.gains[:, None]
        receivers = np.full(len(passive[-1]), np.sqrt(chip.arguments.servers))
        targets[-1] = receivers[:, None] * targets[-1]
        designed = [*(layer.gains for layer in chip.layers), receivers]
        made = calibrated_chip(passive, targets, designed, chip.statistics, link.calibration, link.gain == "electrical")
        self.raised = float(max(setting.levels.max(initial=1.0) for setting in made)) ** 2
        """Largest factor by which calibration raised the power of a lane or of a unit's output."""
        self.lane_levels = _column(made[0].levels)
        self.layers = [self._layer(index, passive[index], made[index]) for index in range(len(chip.layers))]
        self._draw_receivers(passive[-1], made[-1])

    def stream(self, name: str) -> np.random.Generator:
        """Return a generator for one part of the fabrication."""
        return np.random.default_rng([*self.seed, *name.encode()])

    def _layer(self, index: int, passive: Complex, made: Calibrated) -> FabricatedLayer:
        link, gains = self.link, made.gains
        gain_error, bias_error = self.stream(f"layer {index}").normal(size=(2, len(gains)))
        matrix = (gains * (1 + link.gain_error * gain_error))[:, None] * passive * made.levels
        leaves_as_light = index == len(self.chip.layers) - 1 and link.gain == "optical"
        real = np.concatenate([matrix.real, -matrix.imag], axis=1) if index == 0 else matrix.real
        imaginary = np.concatenate([matrix.imag, matrix.real], axis=1) if index == 0 else matrix.imag
        if link.gain == "electrical":
            noise = homodyne_noise(link) * gains
        else:
            noise = np.hypot(emitted_noise(link, gains), 0.0 if leaves_as_light else homodyne_noise(link))
        copies = 2 if leaves_as_light else 1
        biases = (self.chip.biases[index] + made.added) * (1 + link.bias_error * bias_error)
        return FabricatedLayer(
            matrix=np.concatenate([real, imaginary][:copies]).astype(np.float32),
            biases=_column(np.concatenate([biases, np.zeros_like(biases)][:copies])),
            noise=_column(np.tile(noise, copies)),
            inverse_gains=_column(np.tile(1 / np.where(gains > 0, gains, 1.0), copies)),
        )

    def _draw_receivers(self, splitting: Complex, made: Calibrated) -> None:
        link, rng, gains = self.link, self.stream("receivers"), made.gains
        matrix = (gains * (1 + link.gain_error * rng.normal(size=len(gains))))[:, None] * splitting * made.levels
        copies = [matrix.real, -matrix.imag] if link.gain == "optical" else [matrix.real]
        self.exit = np.concatenate(copies, axis=1).astype(np.float32)
        self.exit_noise = _column(homodyne_noise(link, link.path_loss_db) * gains)
        errors = link.threshold_error * rng.normal(size=(len(gains), LEVELS - 1))
        levels = np.arange(LEVELS - 1) + 0.5 - self.chip.output_scale * made.added[:, None]
        self.thresholds = (levels + errors).astype(np.float32)

    def receive(self, codes: Ints, rng: np.random.Generator) -> Ints:
        """Return the codes that the servers receive for codes [servers, words] that they send: [servers, words]."""
        chip, link, words = self.chip, self.link, codes.shape[1]
        lanes = modulate(codes, chip.arguments.bits, link, self.senders, rng)
        self.peaks.note("server lanes at P", self.lane_levels * lanes * np.float32(np.sqrt(chip.lane_share)))
        signals = lanes.reshape(-1, words)
        for index, layer in enumerate(self.layers):
            arguments = layer.matrix @ signals
            self._note_peaks(layer, arguments)
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
        return self._decided(self._emitted(signals), codes.shape, rng)

    def _note_peaks(self, layer: FabricatedLayer, arguments: Float32s) -> None:
        self.peaks.note("meshes", arguments * layer.inverse_gains)
        if self.link.gain == "optical":
            self.peaks.note("amplifiers, bias subtracted behind them", arguments)
            self.peaks.note("amplifiers, bias subtracted before them", arguments + layer.biases)

    def _emitted(self, outputs: Float32s) -> Float32s:
        """Return the fields that enter T: modulators send on what homodyne units detect, amplified light goes on."""
        if self.link.gain == "optical" or self.link.unit not in ("clip", "limiting"):
            return outputs
        return sent_on(outputs, self.link)

    def _decided(self, fields: Float32s, shape: tuple[int, ...], rng: np.random.Generator) -> Ints:
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
    return values.astype(np.float32)[:, None]
