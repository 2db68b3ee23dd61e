"""Fewest link uses of an all-reduce of one byte on a ring, by integer programming.

Levels follow each other. A message carries everything that its source then holds. It is added where none of that is
held yet, or it is complete and stored, which is what verifiers of schedules allow.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array


class _Programme:
    """Variables, and rows of coefficients with their least values."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.fixed: list[tuple[float, float]] = []
        self.rows: list[tuple[dict[int, float], float]] = []

    def variable(self, cost: float = 0.0, low: float = 0.0, high: float = 1.0) -> int:
        self.costs.append(cost)
        self.fixed.append((low, high))
        return len(self.costs) - 1

    def at_least(self, coefficients: dict[int, float], value: float) -> None:
        self.rows.append((coefficients, value))

    def least(self) -> int:
        entries = [(r, c, v) for r, (row, _) in enumerate(self.rows) for c, v in row.items()]
        r, c, v = zip(*entries, strict=True)
        matrix = coo_array((v, (r, c)), shape=(len(self.rows), len(self.costs))).tocsr()
        low, high = np.array(self.fixed).T
        found = milp(
            np.array(self.costs),
            constraints=LinearConstraint(matrix, np.array([value for _, value in self.rows]), np.inf),
            integrality=np.ones(len(self.costs)),
            bounds=Bounds(low, high),
        )
        assert found.status == 0, found.message
        return round(float(found.fun))


def fewest_links(ranks: int, levels: int) -> int:
    """Links that the cheapest schedule of so many levels uses."""
    programme, everybody = _Programme(), range(ranks)
    held = {
        (level, rank, of): programme.variable(low=float(level == levels), high=float(level > 0 or rank == of))
        if level or rank != of
        else programme.variable(low=1.0)
        for level, rank, of in product(range(levels + 1), everybody, everybody)
    }
    brought: dict[tuple[int, int], list[int]] = {}
    for level, rank in product(range(levels), everybody):
        arrivals: dict[int, list[int]] = {of: [] for of in everybody}
        for source in everybody:
            if source == rank:
                continue
            distance = float(min((source - rank) % ranks, (rank - source) % ranks))
            adds, stores = programme.variable(distance), programme.variable(distance)
            programme.at_least({adds: -1.0, held[level, source, rank]: -1.0}, -1.0)
            for of in everybody:
                programme.at_least({held[level, source, of]: 1.0, stores: -1.0}, 0.0)
                arrivals[of].append(stores)
                if of == rank:
                    continue
                carried = programme.variable()
                programme.at_least({adds: 1.0, carried: -1.0}, 0.0)
                programme.at_least({held[level, source, of]: 1.0, carried: -1.0}, 0.0)
                programme.at_least({carried: 1.0, adds: -1.0, held[level, source, of]: -1.0}, -1.0)
                arrivals[of].append(carried)
                brought.setdefault((rank, of), []).append(carried)
        for of in everybody:
            before, after = held[level, rank, of], held[level + 1, rank, of]
            programme.at_least(dict.fromkeys(arrivals[of], 1.0) | {before: 1.0, after: -1.0}, 0.0)
            for one in (before, *arrivals[of]):
                programme.at_least({after: 1.0, one: -1.0}, 0.0)
    for carried_ever in brought.values():
        programme.at_least(dict.fromkeys(carried_ever, -1.0), -1.0)
    return programme.least()


def fewest_to_opposite(ranks: int, levels: int) -> int:
    """Links of the cheapest messages by which every rank hears of the one on the opposite side of the ring.

    A message carries everything that its source then holds, whether or not it could be added.
    """
    programme, everybody = _Programme(), range(ranks)
    held = {
        (level, rank, of): programme.variable(
            low=float(rank == of or (level == levels and rank == (of + ranks // 2) % ranks)),
            high=float(level > 0 or rank == of),
        )
        for level, rank, of in product(range(levels + 1), everybody, everybody)
    }
    for level, rank in product(range(levels), everybody):
        brought: dict[int, list[int]] = {of: [] for of in everybody}
        for source in everybody:
            if source == rank:
                continue
            sent = programme.variable(float(min((source - rank) % ranks, (rank - source) % ranks)))
            for of in everybody:
                carried = programme.variable()
                programme.at_least({sent: 1.0, carried: -1.0}, 0.0)
                programme.at_least({held[level, source, of]: 1.0, carried: -1.0}, 0.0)
                brought[of].append(carried)
        for of in everybody:
            kept = {held[level, rank, of]: 1.0, held[level + 1, rank, of]: -1.0}
            programme.at_least(dict.fromkeys(brought[of], 1.0) | kept, 0.0)
    return programme.least()
