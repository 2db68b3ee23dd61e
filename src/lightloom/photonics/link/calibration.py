"""Setting gains, biases and levels on a fabricated chip.

none     as designed
rows     every gain brings its row nearest to the designed one (least squares over the row's elements)
levels   rows, and the levels of the lanes and of the units' outputs, which make up for the loss of their paths
words    every gain and bias brings its argument nearest to the designed one over known words (a regression on what
         the detector reads)

Words weigh what signals do together: errors of elements whose signals rise and fall together cancel in the gain, and
those of their mean values in the bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Floats
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.levels import output_factors, set_levels
from lightloom.photonics.averaging.preprocessing import points_of_servers
from lightloom.photonics.averaging.realised.files import FunctionArguments
from lightloom.photonics.averaging.realised.light import light_units
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.link.sender import digits
from lightloom.photonics.link.settings import Calibration
from lightloom.photonics.link.words import draw_words
from lightloom.photonics.pam4 import LEVELS

KNOWN_WORDS = 20_000


class Statistics(NamedTuple):
    """Means [signals] and covariances [signals, signals] of the inputs of a matrix over known words."""

    means: Floats
    covariances: Floats


class Calibrated(NamedTuple):
    """What is set at one matrix of a fabricated chip."""

    gains: Floats
    """Amplitude gain of every output, [outputs]."""
    added: Floats
    """What is added to the bias of every output, [outputs]."""
    levels: Floats
    """Field of every input relative to the designed one, [inputs]."""


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
    passive: NDArray[np.complex128], target: Floats, designed: Floats, statistics: Statistics, how: Calibration
) -> Calibrated:
    """Return what is set for a passive matrix [outputs, inputs] behind which gains of ``designed`` [outputs] stand."""
    nothing, even = np.zeros_like(designed), np.ones(passive.shape[1])
    if how == "none":
        return Calibrated(designed, nothing, even)
    if how == "levels":
        levels = set_levels(designed[:, None] * passive, target, "levels")
        return Calibrated(designed * levels.outputs, nothing, levels.inputs)
    gains = designed * _amplifying(output_factors(designed[:, None] * passive.real, target))
    if how == "rows":
        return Calibrated(gains, nothing, even)
    # A row whose inputs do not vary over the words keeps the gain that fits its elements.
    gains = gains * _amplifying(output_factors(gains[:, None] * passive.real, target, statistics.covariances))
    return Calibrated(gains, (target - gains[:, None] * passive.real) @ statistics.means, even)


def calibrated_chip(
    passive: Sequence[NDArray[np.complex128]],
    targets: Sequence[Floats],
    designed: Sequence[Floats],
    statistics: Sequence[Statistics],
    how: Calibration,
    detected: bool,
) -> list[Calibrated]:
    """Return what is set at every layer (P with the first one) and at T, in the order of the light.

    Args:
        passive: fabricated matrices [outputs, inputs] without their gains.
        targets: what they should be with their gains.
        designed: gains behind them, those of T at the receivers.
        statistics: of the inputs of each.
        how: what is set.
        detected: whether the outputs of the last layer are detected and sent anew; if they are not, levels are set for
            the last layer and T together, as no modulator stands between them.
    """
    made = [
        calibrated(matrix, target, gains, inputs, how)
        for matrix, target, gains, inputs in zip(passive, targets, designed, statistics, strict=True)
    ]
    if how == "levels" and not detected:
        last, exit_gains = made[-2], designed[-1]
        light = last.gains[:, None] * passive[-2] * last.levels
        joint = set_levels(exit_gains[:, None] * (passive[-1] @ light), targets[-1] @ targets[-2], "levels")
        made[-2] = last._replace(levels=last.levels * joint.inputs)
        made[-1] = Calibrated(exit_gains * joint.outputs, made[-1].added, np.ones(passive[-1].shape[1]))
    return made


def _amplifying(factors: Floats) -> Floats:
    """Return factors without those that no amplifier has: a row that fits no positive gain keeps its own."""
    return np.where(factors > 0, factors, 1.0)
