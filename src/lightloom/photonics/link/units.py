"""Transfer functions of the nonlinear units behind a mesh, and which units decide bits.

Amplitudes are relative to full scale. A unit *decides* when no argument that can occur lies between its rails or near
them, as those of constructed bits do: any limiter serves there. Other units *keep* a value and need a linear driver.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Mask
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.link.settings import Link
from lightloom.photonics.nonlinear import ElectroOptic, LimitingHomodyne, NonlinearUnit, SaturableAbsorber

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
    """Whether outputs end at the ceiling; plain ReLUs go on."""

    def transfer(self, arguments: NDArray[np.float32], link: Link) -> NDArray[np.float32]:
        """Return the outputs of arguments [units, words]; both are amplitudes, and the arguments may be overwritten."""
        if link.unit in ("electro-optic", "saturable"):
            return _behind_a_carrier(arguments, all_optical_unit(link))
        np.maximum(arguments, 0, out=arguments)
        if link.unit == "clip":
            return np.minimum(arguments, self.ceilings[:, None], out=arguments) if self.saturates else arguments
        arguments /= self.ceilings[:, None]
        np.minimum(arguments, 1, out=arguments)
        swings = np.where(self.decides, math.pi / 2, link.swing).astype(np.float32)[:, None]
        kept = LimitingHomodyne(full_scale=link.full_scale, swing=link.swing)
        heights = np.where(self.decides, 1.0, kept.height).astype(np.float32)[:, None]
        return np.asarray(self.ceilings[:, None] * heights * np.sin(swings * arguments), np.float32)


def sent_on(outputs: NDArray[np.float32], link: Link) -> NDArray[np.float32]:
    """Return the fields of modulators at null that send outputs of both signs to T, limited to full scale."""
    limited = np.clip(outputs, -1, 1)
    if link.unit == "clip":
        return limited
    kept = LimitingHomodyne(full_scale=link.full_scale, swing=link.swing)
    return np.asarray(kept.height * np.sin(np.float32(link.swing) * limited), np.float32)


def units_of(network: LayeredNetwork, function: AveragingFunction, light_units: tuple[float, ...]) -> list[Units]:
    """Return the units of every hidden layer; arguments are tried on the grid, or on points of it if it is large."""
    points = next(iter(function.grid(_POINTS)))
    if function.points > _POINTS:
        rng = np.random.default_rng(0)
        points = np.stack([rng.integers(0, i.maximum + 1, _POINTS) for i in function.inputs])
    signals = network.signals(function.light(points))
    saturates = network.nonlinearity == "clipped"
    units = []
    for layer in range(1, len(network.weights)):
        arguments = network.weights[layer - 1] @ signals[layer - 1] + network.biases[layer - 1][:, None]
        beyond = np.maximum(-arguments, arguments - 1)
        decides = saturates & (beyond.min(axis=1) >= DECIDED_MARGIN)
        ceilings = np.ones(len(decides)) if saturates else np.maximum(network.full_scale[layer], 1e-9)
        units.append(Units(decides, (ceilings / light_units[layer]).astype(np.float32), saturates))
    return units


def all_optical_unit(link: Link) -> NonlinearUnit:
    """Return the unit without a homodyne detector, scaled so that it is half open at the carrier's power."""
    power = link.full_scale
    if link.unit == "saturable":
        return SaturableAbsorber(saturation_power=power)
    return ElectroOptic(gain=math.pi / (4 * power))


def _behind_a_carrier(arguments: NDArray[np.float32], unit: NonlinearUnit) -> NDArray[np.float32]:
    """Return what a unit makes of arguments on a carrier of full scale, shifted and scaled so that 0 and 1 are kept.

    Without a carrier a unit that sees powers cannot tell a field from its opposite.
    """
    scale = unit.gain if isinstance(unit, ElectroOptic) else unit.saturation_power  # type: ignore[attr-defined]
    power = math.pi / (4 * scale) if isinstance(unit, ElectroOptic) else scale
    root = math.sqrt(power)
    low, high = np.abs(unit.transfer(np.array([1.0, 2.0]) * root))
    return np.asarray((np.abs(unit.transfer((arguments + 1) * root)) - low) / (high - low), np.float32)
