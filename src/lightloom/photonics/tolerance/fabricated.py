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
from lightloom.photonics.averaging.levels import Setting, set_levels
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
        return amplifier_noise(np.maximum(np.square(gains), 1.0), self.noise_figure_db, self.bandwidth, self.full_scale)


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


def fabricate_averagers(
    mapped: MappedAverager, devices: NonIdealities, rng: np.random.Generator, count: int
) -> FabricatedAveragers:
    """Draw ``count`` fabrications, and set the levels of all lanes, outputs of units, amplifiers and receivers.

    Each is set for the least error of the real matrix between two detections. Set-up measures this once, with known
    light; amplifier noise follows the gains that result.
    """
    return averagers_of(mapped, [fabricated_matrices(part, devices, rng, count) for part in mapped.matrices])


def averagers_of(mapped: MappedAverager, drawn: list[Matrices], setting: Setting = "levels") -> FabricatedAveragers:
    """Return averagers for the matrices [count, outputs, inputs] of P, the layers and T that were fabricated.

    Args:
        mapped: the meshes as designed.
        drawn: fabricated matrices, in the order of the light.
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
        biases=tuple(light_biases(mapped.network)),
    )
