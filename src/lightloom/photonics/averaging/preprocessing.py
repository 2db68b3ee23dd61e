"""The units around the network: P averages servers and groups signals, T hands the result to every server (OptINC, Fig.
3).

server 1 ═ M signals ═╗                                   ╔═ M ═ server 1
server 2 ═ M signals ═╬═ P: K x NM ═ network ═ T: NM x M ═╬═ M ═ server 2
...                   ╝                                   ╚═ ...
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.errors import InputError
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.pam4 import encode, symbols_for


def preprocessing_matrix(ports: int, bits: int, inputs: int = 4, active: int | None = None) -> NDArray[np.float64]:
    """P: (K, ports * M), columns server by server.

    Ports beyond the ``active`` servers carry nothing, and the others weigh 1/active: the mean of those that are there.

    Raises:
        InputError: more active servers than ports, or none.
    """
    servers = ports if active is None else active
    if not 1 <= servers <= ports:
        raise InputError(f"active = {servers}: expected 1 to {ports} servers on {ports} ports")
    count = symbols_for(bits)
    group = -(-count // inputs)
    kept = -(-count // group)
    one = np.zeros((kept, count))
    for signal in range(count):
        place = count - 1 - signal
        one[kept - 1 - place // group, signal] = 4.0 ** (place % group)
    return np.concatenate([one / servers if n < servers else one * 0 for n in range(ports)], axis=1)


def splitting_matrix(ports: int, outputs: int, lossless: bool = False) -> NDArray[np.float64]:
    """T: (ports * M, M), every server a copy.

    A passive splitter divides power: each copy has 1/sqrt(ports) of the amplitude. ``lossless`` assumes amplifiers that
    restore it, a gain of sqrt(ports).
    """
    return np.tile(np.eye(outputs) / (1.0 if lossless else np.sqrt(ports)), (ports, 1))


def points_of_servers(codes: ArrayLike, bits: int, function: AveragingFunction) -> NDArray[np.int64]:
    """The grid point a that servers' codes reach: (servers, n) codes to (K, n) integers, without rounding."""
    levels = encode(codes, bits).astype(np.int64).sum(axis=0)
    count, kept = symbols_for(bits), len(function.inputs)
    group = -(-count // kept)
    result = np.zeros((kept, levels.shape[0]), dtype=np.int64)
    for signal in range(count):
        place = count - 1 - signal
        result[kept - 1 - place // group] += levels[:, signal] << 2 * (place % group)
    return result
