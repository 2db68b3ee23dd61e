"""The paper leaves open whether its repair ends: sweeps that chase one another, on five sub-operators.

          ┌──► 1 ──────────┐
    0 ────┤                ├──► 4        4 devices, a reader at most one device ahead of its producers
          └──► 2 ──► 3 ────┘

The forward pass puts 0 and 1 on device 0, 2 on 1 and 3 on 2: nothing reaches from both 1 and 3 to sub-operator 4. The
backward sweep moves 1 ahead, the forward sweep moves it back behind 0, and so on.
"""

from __future__ import annotations

from typing import NamedTuple

from lightloom.core.claims import Claim
from lightloom.studies.sipml import PAPER

DEVICES, DEGREE = 4, 1
EDGES = ((0, 1), (0, 2), (2, 3), (1, 4), (3, 4))
ORDER = (0, 2, 3, 1, 4)
"""Topological order of the sub-operators, longest path to the end first."""
BEFORE = (0, 0, 1, 2, -1)
"""Devices by sub-operator when the forward pass gets stuck at 4."""


class Chase(NamedTuple):
    """Result of repeated sweeps."""

    states: tuple[tuple[int, ...], ...]
    """Devices of all sub-operators after each sweep, the first before any."""
    period: int
    """Period in sweeps of the recurring states; 0 if the sweeps converge."""


def chase(most: int = 100) -> Chase:
    """Sweep backward and forward until all are within reach or a state returns.

    A sweep moves whoever is out of reach of those after it (backward) or before it (forward) to the device that reaches
    most of them, the nearest of those. It depends on nothing but the devices and the direction: a state that returns
    after a whole number of rounds returns for ever.
    """
    device = list(BEFORE)
    device[ORDER[-1]] = _nearest(ORDER[-1], device, back=False)
    states, seen = [tuple(device)], {(tuple(device), 0): 0}
    for sweep in range(most):
        back = sweep % 2 == 0
        for x in reversed(ORDER) if back else ORDER:
            if not all(_within(x, other, device, back) for other in _neighbours(x, back)):
                device[x] = _nearest(x, device, back)
        states.append(tuple(device))
        if all((device[b] - device[a]) % DEVICES <= DEGREE for a, b in EDGES):
            return Chase(tuple(states), 0)
        key = (tuple(device), (sweep + 1) % 2)
        if key in seen:
            return Chase(tuple(states), sweep + 1 - seen[key])
        seen[key] = sweep + 1
    raise AssertionError(f"{most} sweeps neither settle nor repeat: there are only {DEVICES ** len(ORDER)} states")


def claims() -> tuple[Claim, ...]:
    """One row: the paper leaves the proof to future work."""
    result = chase()
    states = " → ".join("".join(map(str, state)) for state in result.states)
    return (
        PAPER.claim(
            "example.repair_ends",
            "settles" if not result.period else f"repeats every {result.period} sweeps",
            states=states,
        ),
    )


def _neighbours(x: int, back: bool) -> list[int]:
    return [b for a, b in EDGES if a == x] if back else [a for a, b in EDGES if b == x]


def _within(x: int, other: int, device: list[int], back: bool) -> bool:
    stride = device[other] - device[x] if back else device[x] - device[other]
    return stride % DEVICES <= DEGREE


def _nearest(x: int, device: list[int], back: bool) -> int:
    here = device[x]

    def key(to: int) -> tuple[int, int, int]:
        moved = [*device[:x], to, *device[x + 1 :]]
        reached = sum(_within(x, other, moved, back) for other in _neighbours(x, back))
        return -reached, min((to - here) % DEVICES, (here - to) % DEVICES), to

    return min(range(DEVICES), key=key)
