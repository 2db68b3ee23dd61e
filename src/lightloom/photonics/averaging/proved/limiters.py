"""Limiters: monotone functions from 0 to 1 that real units have in place of clip(u, 0, 1).

A proof needs two bounds of a limiter f. Units that decide bits read arguments u outside the rails: f must be near 0 for
u <= -margin and near 1 for u >= 1 + margin. Units that keep values must follow clip(u, 0, 1) everywhere, to their bend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class Limiter:
    """A monotone limiter, known at sampled arguments; between two of them it lies between their values.

    Raises:
        ConfigError: fewer than two samples, arguments that do not rise, values that fall or leave [0, 1], or arguments
            that do not reach over both rails.
    """

    name: str
    arguments: Floats
    values: Floats
    """f at the arguments; below the first and above the last one f stays between them and its rail."""

    def __post_init__(self) -> None:
        u, f = self.arguments, self.values
        if u.ndim != 1 or u.shape != f.shape or u.size < 2 or not (np.isfinite(u).all() and np.isfinite(f).all()):
            raise ConfigError(f"limiter {self.name}: expected at least two finite arguments and as many values")
        if not (np.diff(u) > 0).all() or not (np.diff(f) >= 0).all():
            raise ConfigError(f"limiter {self.name}: expected rising arguments and values that do not fall")
        if f[0] < 0 or f[-1] > 1 or u[0] > 0 or u[-1] < 1:
            raise ConfigError(f"limiter {self.name}: expected values in [0, 1] and arguments that reach from 0 to 1")

    def rail_error(self, margin: float) -> float:
        """Return a bound on the distance of f from 0 for u <= -margin and from 1 for u >= 1 + margin."""
        above = int(np.searchsorted(self.arguments, -margin, side="left"))
        below = int(np.searchsorted(self.arguments, 1 + margin, side="right")) - 1
        low = float(self.values[above]) if above < self.values.size else 1.0
        high = 1 - float(self.values[below]) if below >= 0 else 1.0
        return max(low, high)

    @property
    def bend(self) -> float:
        """A bound on the distance of f from clip(u, 0, 1), for any u."""
        ideal = np.clip(self.arguments, 0, 1)
        over, under = self.values[1:] - ideal[:-1], ideal[1:] - self.values[:-1]
        return float(max(over.max(), under.max(), self.values[0], 1 - self.values[-1], 0.0))


class Clip:
    """The ideal limiter: it follows its argument between the rails exactly, and is flat beyond them."""

    name = "clip"
    bend = 0.0

    def rail_error(self, margin: float) -> float:
        """Return the distance from the rails, which arguments inside them keep."""
        return min(1.0, max(0.0, -margin))


CLIP = Clip()


def half_wave(samples: int = 4001) -> Limiter:
    """Return sin(π/2 · clip(u, 0, 1)): a Mach-Zehnder modulator at null that swings by half a wave."""
    u = np.linspace(-0.5, 1.5, samples)
    return Limiter("half-wave modulator", u, np.sin(math.pi / 2 * np.clip(u, 0, 1)))


def saturating(slope: float, samples: int = 4001) -> Limiter:
    """Return (1 + tanh(slope (2u - 1))) / 2, an amplifier that saturates; its slope in the middle is ``slope``."""
    if not slope > 0:
        raise ConfigError(f"slope = {slope}: expected more than 0")
    u = np.linspace(-10.0, 11.0, samples)
    return Limiter(f"tanh of slope {slope:g}", u, (1 + np.tanh(slope * (2 * u - 1))) / 2)
