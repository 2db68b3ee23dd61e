"""Many fabrications of an averager at once: real matrices between detections, and amplifier noise.

    lanes ─▶ P ─▶ H_1 ─▶ gains ─▶ unit ─▶ H_2 ─▶ gains ─▶ ... unit ─▶ H_L ─▶ gains ─▶ T ─▶ receivers
    └────── first ──────────────┘└────── hidden ────────┘           └───────── last ───────────┘

Light stays a complex field from one detection to the next, so that P and the first layer, and the last layer and T, are
multiplied as complex matrices. Units and receivers detect real parts. All amplitudes are relative to full scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.photonics.averaging.realised.light import light_biases
from lightloom.photonics.devices import NonIdealities, amplifier_noise
from lightloom.photonics.link.settings import Link
from lightloom.photonics.meshes.batched import fabricated_matrices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lightloom.photonics.averaging.mapped_averager import MappedAverager

    Matrices = NDArray[np.complex128]

_LINK = Link()


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplifiers:
    """Amplifiers behind the outputs of every layer, and the power that a field of amplitude 1 has."""

    full_scale: float
    """Power of full scale, in watts."""
    noise_figure_db: float = _LINK.noise_figure_db
    """Noise figure in dB, that of the link."""
    bandwidth: float = _LINK.bandwidth
    """Optical bandwidth in Hz, that of the link."""

    def noise(self, gains: Floats) -> Floats:
        """Return the noise of a quadrature behind amplitude gains, relative to full scale; none without gain."""
        unit = amplifier_noise(2.0, self.noise_figure_db, self.bandwidth, self.full_scale)
        return np.asarray(unit * np.sqrt(np.maximum(gains**2 - 1, 0.0)))


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
        """Number of fabrications."""
        return int(self.last.shape[0])


def fabricate_averagers(
    mapped: MappedAverager, devices: NonIdealities, rng: np.random.Generator, count: int
) -> FabricatedAveragers:
    """Draw ``count`` fabrications, and set every amplifier, and every receiver's scale, for the least error of its row.

    What precedes an amplifier is set first.
    """
    drawn = [fabricated_matrices(part, devices, rng, count) for part in mapped.parts.values()]
    targets = list(mapped.targets.values())
    designed = [matrix.gains for matrix in mapped.layers.matrices]
    light, _ = _calibrated(drawn[0], targets[0])
    wanted = targets[0]
    hidden, gains = [], []
    for layer, (matrices, target) in enumerate(zip(drawn[1:-1], targets[1:-1], strict=True)):
        # No unit detects the light between P and the first layer.
        light, wanted = (matrices @ light, target @ wanted) if layer == 0 else (matrices, target)
        light, factors = _calibrated(light, wanted)
        gains.append(np.abs(designed[layer] * factors))
        hidden.append(np.ascontiguousarray(light.real))
    last, scales = _calibrated(drawn[-1] @ light, targets[-1] @ wanted)
    return FabricatedAveragers(
        mapped=mapped,
        hidden=tuple(hidden[:-1]),
        last=np.ascontiguousarray(last.real),
        splitting=np.ascontiguousarray(drawn[-1].real * scales[..., None]),
        gains=tuple(gains),
        biases=tuple(light_biases(mapped.network)),
    )


def _calibrated(matrices: Matrices, target: Floats) -> tuple[Matrices, Floats]:
    """Return matrices [count, outputs, inputs] times factors [count, outputs] that bring rows to ``target``."""
    products = np.einsum("fij,ij->fi", matrices.real, target)
    powers = np.einsum("fij,fij->fi", matrices.real, matrices.real)
    factors = np.divide(products, powers, out=np.ones_like(products), where=powers > 0)
    return matrices * factors[..., None], factors
