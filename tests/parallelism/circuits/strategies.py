"""Random traffic."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from lightloom.core.arrays import Floats
from lightloom.planning.parallelism.circuits.circuits import Traffic


@st.composite
def matrices(draw: st.DrawFn, least: int = 2, most: int = 8, share: float = 0.5) -> Floats:
    """Bytes between ranks, zero on the diagonal and about ``1 − share`` of the other places, never all zero."""
    ranks = draw(st.integers(least, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([0.0, 0.5, 2.0]))
    matrix: Floats = rng.lognormal(10, spread, (ranks, ranks)) * (rng.random((ranks, ranks)) < share)
    np.fill_diagonal(matrix, 0)
    if not matrix.any():
        matrix[0, 1] = 1.0
    return matrix


def traffics(least: int = 2, most: int = 8, share: float = 0.5) -> st.SearchStrategy[Traffic]:
    """The same, read."""
    return matrices(least, most, share).map(Traffic.of)


def uniform(ranks: int) -> Traffic:
    """All to all, the same bytes for every pair."""
    return Traffic.of(1 - np.eye(ranks))


def neighbours(ranks: int, peers: int, seed: int, spread: float = 1.0) -> Traffic:
    """Every rank to the ``peers`` next ones, clockwise, log-normal bytes."""
    rng = np.random.default_rng(seed)
    matrix = np.zeros((ranks, ranks))
    for step in range(1, peers + 1):
        matrix[np.arange(ranks), (np.arange(ranks) + step) % ranks] = rng.lognormal(14, spread, ranks)
    return Traffic.of(matrix)
