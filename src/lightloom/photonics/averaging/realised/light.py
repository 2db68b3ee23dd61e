"""Networks in units of light: amplitude 1 is the largest full scale of a layer.

One definition of gain serves all commands: that of an amplifier behind an output of a matrix, with a gain for each row
(`meshes.row_gains`), signals in units of amplitude.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lightloom.photonics.averaging.realised.files import FunctionArguments
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.meshes.averager_units import preprocessing_matrix, splitting_matrix
from lightloom.photonics.meshes.mapping import decibels, row_gains
from lightloom.photonics.pam4 import LEVELS, symbols_for

Matrix = NDArray[np.float64]


def light_units(network: LayeredNetwork) -> tuple[float, ...]:
    """Return the signal that amplitude 1 stands for, the largest full scale, before the first and after every layer."""
    return tuple(float(scale.max()) or 1.0 for scale in network.full_scale)


def light_matrices(network: LayeredNetwork) -> list[Matrix]:
    """Return the weights of every layer, in units of amplitude."""
    units = light_units(network)
    return [np.asarray(w * (units[i] / units[i + 1]), np.float64) for i, w in enumerate(network.weights)]


def light_biases(network: LayeredNetwork) -> list[Matrix]:
    """Return the biases of every layer, in units of amplitude."""
    units = light_units(network)[1:]
    return [np.asarray(bias / unit, np.float64) for bias, unit in zip(network.biases, units, strict=True)]


def unit_matrices(arguments: FunctionArguments) -> dict[str, Matrix]:
    """Return P before the network and T after it, in units of the full scales of their inputs and outputs."""
    function, signals = arguments.function(), symbols_for(arguments.bits)
    preprocessing = preprocessing_matrix(arguments.servers, signals, len(function.inputs))
    full_scale = max(grid_input.maximum / grid_input.denominator for grid_input in function.inputs)
    return {"P": preprocessing * (LEVELS - 1) / full_scale, "T": splitting_matrix(arguments.servers, signals)}


def largest_gain_db(network: LayeredNetwork) -> float:
    """Return the largest gain of an amplifier behind a layer, in dB, with a gain for each row."""
    return max(decibels(float(row_gains(matrix).max())) for matrix in light_matrices(network))
