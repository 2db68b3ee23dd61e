"""Slow and obvious: the best circuits of small cases, by trying all."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.planning.parallelism.circuits.circuits import Traffic


def best_permutations(traffic: Traffic, planes: int) -> tuple[float, float]:
    """The largest max-min and the largest throughput over all choices of ``planes`` permutations."""
    ranks = traffic.ranks
    all_of_them = [np.eye(ranks, dtype=int)[list(p)] for p in permutations(range(ranks))]
    served = np.array([p[traffic.source, traffic.destination] for p in all_of_them])
    choices = np.array(list(combinations_with_replacement(range(len(all_of_them)), planes)))
    counts = served[choices].sum(axis=1)
    return float((counts / traffic.relative).min(axis=1).max()), float((counts @ traffic.relative).max())


def best_ring(traffic: Traffic, wavelengths: int) -> float:
    """The largest max-min of whole wavelength counts under link loads, one ring each way."""
    relative = traffic.relative
    steps = sorted({k / t for t in relative for k in range(1, 2 * wavelengths + 1)})
    best = 0.0
    for service in steps:
        wanted = np.ceil(service * relative - 1e-9).astype(int)
        if not _divides(traffic, wanted, wavelengths):
            break
        best = service
    return best


def fewest_colours(start: Ints, length: Ints, nodes: int) -> int:
    """Of arcs of a ring such that overlapping ones differ."""
    arcs = [{(s + k) % nodes for k in range(n)} for s, n in zip(start.tolist(), length.tolist(), strict=True)]
    arcs.sort(key=len, reverse=True)
    for colours in range(len(arcs) + 1):
        if _colours(arcs, [set() for _ in range(colours)]):
            return colours
    raise AssertionError("a colour an arc always does")


def _colours(arcs: list[set[int]], classes: list[set[int]]) -> bool:
    if not arcs:
        return True
    for one in classes:
        if not one & arcs[0]:
            one |= arcs[0]
            if _colours(arcs[1:], classes):
                return True
            one -= arcs[0]
        if not one:
            # Empty classes are alike.
            return False
    return False


def _divides(traffic: Traffic, wanted: Ints, wavelengths: int) -> bool:
    """Whether some division of the circuits between the two ways keeps all loads, by depth-first search."""
    nodes = traffic.ranks
    crossed = np.zeros((len(traffic), 2, nodes), dtype=int)
    for pair, (a, b) in enumerate(zip(traffic.source.tolist(), traffic.destination.tolist(), strict=True)):
        for link in range(nodes):
            crossed[pair, 0 if (link - a) % nodes < (b - a) % nodes else 1, link] = 1

    def search(pair: int, load: Ints) -> bool:
        if pair == len(wanted):
            return True
        return any(
            (further := load + np.array([[k], [wanted[pair] - k]]) * crossed[pair]).max() <= wavelengths
            and search(pair + 1, further)
            for k in range(wanted[pair] + 1)
        )

    return search(0, np.zeros((2, nodes), dtype=int))
