"""Setting gains and biases on a fabricated chip.

none     as designed
rows     every gain brings its row nearest to the designed one (least squares over the row's elements)
words    every gain and bias brings its argument nearest to the designed one over known words (a regression on what
         the detector reads)

Words weigh what signals do together: errors of elements whose signals rise and fall together cancel in the gain, and
those of their mean values in the bias.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.preprocessing import points_of_servers
from lightloom.photonics.averaging.realised.files import FunctionArguments
from lightloom.photonics.averaging.realised.light import light_units
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.link.sender import digits
from lightloom.photonics.link.settings import Calibration
from lightloom.photonics.link.words import draw_words
from lightloom.photonics.pam4 import LEVELS

KNOWN_WORDS = 20_000
_LEAST = 1e-12


class Statistics(NamedTuple):
    """Means [signals] and covariances [signals, signals] of the inputs of a matrix over known words."""

    means: Floats
    covariances: Floats


def word_statistics(
    network: LayeredNetwork, arguments: FunctionArguments, function: AveragingFunction
) -> list[Statistics]:
    """Return the statistics of the servers' lanes, of the inputs of every further layer, and of T's inputs."""
    codes = draw_words(arguments.servers, arguments.bits, KNOWN_WORDS, np.random.default_rng(0))
    lanes = digits(codes, arguments.bits).reshape(-1, KNOWN_WORDS) / (LEVELS - 1)
    points = points_of_servers(codes, arguments.bits, function)
    signals = network.signals(function.light(points))[1:]
    fields = [signal / unit for signal, unit in zip(signals, light_units(network)[1:], strict=True)]
    return [Statistics(x.mean(axis=1), np.atleast_2d(np.cov(x))) for x in (lanes, *fields)]


def calibrated(
    passive: Floats, target: Floats, designed: Floats, statistics: Statistics, how: Calibration
) -> tuple[Floats, Floats]:
    """Return the gain of every row, and what is added to its bias, for passive real parts [outputs, inputs]."""
    nothing = np.zeros_like(designed)
    if how == "none":
        return designed, nothing
    gains = _fitted(passive, target, np.eye(passive.shape[1]), designed)
    if how == "rows":
        return gains, nothing
    # A row whose inputs do not vary over the words keeps the gain that fits its elements.
    gains = _fitted(passive, target, statistics.covariances, gains)
    return gains, (target - gains[:, None] * passive) @ statistics.means


def _fitted(passive: Floats, target: Floats, weights: Floats, otherwise: Floats) -> Floats:
    power = np.einsum("ij,jk,ik->i", passive, weights, passive)
    along = np.einsum("ij,jk,ik->i", passive, weights, target)
    usable = (power > _LEAST) & (along > 0)
    return np.where(usable, along / np.where(usable, power, 1.0), otherwise)
