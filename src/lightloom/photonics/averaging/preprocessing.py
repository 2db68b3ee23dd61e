"""The unit P in front of the network when servers are missing, and the grid point that servers' codes reach.

P and T of a full house are `photonics.meshes.preprocessing_matrix` and `splitting_matrix`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.errors import InputError
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.meshes.averager_units import preprocessing_matrix
from lightloom.photonics.pam4 import check_codes, symbols_for


def rescaled_preprocessing(ports: int, active: int, bits: int, inputs: int = 4) -> NDArray[np.float64]:
    """P for ``active`` servers on the first of ``ports`` ports: (K, ports * M), columns server by server.

    The other ports count for nothing, and those that are there weigh 1/active: the mean is theirs.

    Raises:
        InputError: more active servers than ports, or none.
    """
    if not 1 <= active <= ports:
        raise InputError(f"active = {active}: expected 1 to {ports} servers on {ports} ports")
    count = symbols_for(bits)
    kept = -(-count // -(-count // inputs))
    some = preprocessing_matrix(active, count, kept)
    return np.concatenate([some, np.zeros((kept, (ports - active) * count))], axis=1)


def points_of_servers(codes: ArrayLike, bits: int, function: AveragingFunction) -> NDArray[np.int64]:
    """The grid point a that servers' codes reach: (servers, n) codes to (K, n) integers, without rounding.

    Raises:
        InputError: a code that does not fit its bits.
    """
    whole = check_codes(codes, bits)
    kept = len(function.inputs)
    group = 2 * -(-symbols_for(bits) // kept)
    digits = ((whole >> group * (kept - 1 - k)) & ((1 << group) - 1) for k in range(kept))
    return np.stack([digit.sum(axis=0, dtype=np.int64) for digit in digits])
