"""The preprocessing unit P for absent servers, and the grid points of servers' codes.

With all servers present, P and T are `photonics.meshes.preprocessing_matrix` and `splitting_matrix`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.errors import InputError
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.meshes.averager_units import preprocessing_matrix
from lightloom.photonics.pam4 import check_codes, symbols_for


def rescaled_preprocessing(ports: int, active: int, bits: int, inputs: int = 4) -> NDArray[np.float64]:
    """Return P for ``active`` servers on the first of ``ports`` ports: (K, ports * M), columns server by server.

    Unused ports have weight 0 and active ones weight 1/active, so the result is the mean over the active servers.

    Raises:
        InputError: ``active`` is 0 or exceeds the number of ports.
    """
    if not 1 <= active <= ports:
        raise InputError(f"active = {active}: expected 1 to {ports} servers on {ports} ports")
    count = symbols_for(bits)
    used = -(-count // -(-count // inputs))
    preprocessing = preprocessing_matrix(active, count, used)
    return np.concatenate([preprocessing, np.zeros((used, (ports - active) * count))], axis=1)


def points_of_servers(codes: ArrayLike, bits: int, function: AveragingFunction) -> NDArray[np.int64]:
    """Return the grid points a of servers' codes: (servers, n) codes to (K, n) integers, without rounding.

    Raises:
        InputError: a code does not fit into ``bits`` bits.
    """
    values = check_codes(codes, bits)
    inputs = len(function.inputs)
    group = 2 * -(-symbols_for(bits) // inputs)
    digits = ((values >> group * (inputs - 1 - k)) & ((1 << group) - 1) for k in range(inputs))
    return np.stack([digit.sum(axis=0, dtype=np.int64) for digit in digits])
