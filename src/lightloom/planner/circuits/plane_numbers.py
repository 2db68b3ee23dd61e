"""Which planes every axis holds in each phase of a step, by number.

An axis keeps its planes from a phase to the next as far as it may, and planes that none needs stay with their last
holder, so that no plane turns without need.
"""

from __future__ import annotations

from collections.abc import Mapping

from lightloom.planner.circuits.phases import Phase
from lightloom.planner.circuits.settings import Settings, gains
from lightloom.planner.pricing.stage_exchanges import Axis

Numbers = Mapping[Phase, Mapping[int, Axis]]
"""The axis that holds each plane, by phase and plane."""


def plane_numbers(settings: Settings, planes: int) -> Numbers:
    """Return who holds the planes in each phase; at a phase before which nothing turns, as in the phase before it."""
    phases = list(settings)
    pairs = list(zip([phases[-1], *phases], phases, strict=False))
    turning = [place for place, (before, after) in enumerate(pairs) if gains(settings[before], settings[after])]
    first = turning[0] if turning else 0
    numbers: dict[Phase, Mapping[int, Axis]] = {}
    holders: dict[int, Axis] = {}
    for phase in [*phases[first:], *phases[:first]]:
        holders = _next_holders(holders, settings[phase], planes)
        numbers[phase] = holders
    return {phase: numbers[phase] for phase in phases}


def _next_holders(holders: Mapping[int, Axis], division: Mapping[Axis, int], planes: int) -> dict[int, Axis]:
    kept: dict[int, Axis] = {}
    for axis, count in division.items():
        own = [plane for plane, holder in holders.items() if holder == axis]
        kept |= dict.fromkeys(own[:count], axis)
    spare = [plane for plane in range(planes) if plane not in kept]
    for axis, count in division.items():
        missing = count - sum(holder == axis for holder in kept.values())
        kept |= {spare.pop(0): axis for _ in range(missing)}
    idle = {plane: holders.get(plane, next(iter(division))) for plane in spare}
    return dict(sorted({**idle, **kept}.items()))
