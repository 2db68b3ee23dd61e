"""Number of MZIs of a matrix or a network, in closed form.

The *paper* convention is the OptINC paper's count (Sec. II-B): a full singular value decomposition with
M(M+1)/2 + N(N−1)/2 MZIs. The *economy* convention leaves out MZIs that no light reaches: M · N.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Literal

from lightloom.core.errors import ConfigError

Convention = Literal["paper", "economy"]


def compact_count(outputs: int, inputs: int, rank: int) -> int:
    """Return the number of MZIs of an ``outputs`` x ``inputs`` matrix without modes beyond its rank, with Σ.

    Raises:
        ConfigError: the rank is not from 1 to the smaller side.
    """
    full_count(outputs, inputs)  # refuses sizes below 1
    if not 1 <= rank <= min(outputs, inputs):
        raise ConfigError(f"rank {rank} of a matrix of {outputs} x {inputs}: expected 1 to {min(outputs, inputs)}")
    return rank * (outputs + inputs) - rank**2


def full_count(outputs: int, inputs: int, convention: Convention = "paper") -> int:
    """Return the number of MZIs of an ``outputs`` x ``inputs`` matrix, with Σ.

    Raises:
        ConfigError: a size is below 1.
    """
    if outputs < 1 or inputs < 1:
        raise ConfigError(f"matrix of {outputs} x {inputs}: expected at least 1 x 1")
    if convention == "economy":
        return outputs * inputs
    return (outputs * (outputs + 1) + inputs * (inputs - 1)) // 2


def approximated_count(outputs: int, inputs: int) -> int:
    """Return the number of MZIs with square blocks Σ_a · U_a (eq. 4): s(s+1)/2 per block, s = min(outputs, inputs)."""
    full_count(outputs, inputs)  # refuses sizes below 1
    side = min(outputs, inputs)
    return -(-max(outputs, inputs) // side) * side * (side + 1) // 2


def network_count(layers: Sequence[int], approximated: Collection[int] = (), convention: Convention = "paper") -> int:
    """Return the number of MZIs of a network; ``approximated`` lists its approximated matrices, from 1 as in Table I.

    Raises:
        ConfigError: there are fewer than two layers, or an approximated matrix does not exist.
    """
    if len(layers) < 2:
        raise ConfigError(f"layers={list(layers)}: expected at least an input and an output")
    if unknown := sorted(set(approximated) - set(range(1, len(layers)))):
        raise ConfigError(f"approximated layer {unknown[0]}: the network has matrices 1 to {len(layers) - 1}")
    return sum(
        approximated_count(outputs, inputs) if index in approximated else full_count(outputs, inputs, convention)
        for index, (inputs, outputs) in enumerate(pairwise(layers), 1)
    )
