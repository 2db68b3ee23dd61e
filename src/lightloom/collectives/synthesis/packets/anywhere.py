"""Schedules for packet fabrics of any shape, the fastest of some, for the size at hand.

    plain algorithms in steps
    domains, rails and grids: phases by axis, without barriers, in ever more pieces   ──► the fastest
    trees packed onto links, ever more of them

Links send what they can as soon as it is there (:mod:`.order`). Where links join ranks, rounds from neighbour to
neighbour are tried as well (:mod:`lightloom.collectives.synthesis.grid.flowing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.algorithms.double_tree import DOUBLE_TREE
from lightloom.collectives.algorithms.hierarchical import HIERARCHICAL
from lightloom.collectives.algorithms.one_stage import ONE_STAGE
from lightloom.collectives.algorithms.recursive_doubling import HALVING_DOUBLING, RECURSIVE_DOUBLING
from lightloom.collectives.algorithms.ring import RING_TWO_WAY
from lightloom.collectives.algorithms.rooted import BINOMIAL_TREE
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.cost.loads import at_size, step_loads
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.barriers import without_barriers
from lightloom.collectives.schedule.columns import Folding, Schedule
from lightloom.collectives.spec import FROM_ALL_GATHER, ROOTED, Collective
from lightloom.collectives.synthesis.engine.effort import effort
from lightloom.collectives.synthesis.grid.flowing import flowing
from lightloom.collectives.synthesis.grid.links import neighbours_join
from lightloom.collectives.synthesis.packets.order import listed
from lightloom.collectives.synthesis.packets.packing import packed
from lightloom.collectives.verify.stepped import verify
from lightloom.core.errors import UnsupportedError, VerificationError
from lightloom.fabrics.base import Fabric

_PLAIN = (ONE_STAGE, HALVING_DOUBLING, RECURSIVE_DOUBLING, BINOMIAL_TREE, RING_TWO_WAY.bundled(), DOUBLE_TREE)
_PIECES = (1, 2, 4, 8, 16, 32)
_TREES = (1, 2, 4, 8)
"""For every share."""
_ROOTED_TREES = tuple(16 << doubling for doubling in range(9))
"""For all data of a root: the last bytes pass as many links as a tree is deep, which takes less the smaller pieces
are."""
_GAIN = 0.97
"""Share of the time with fewer trees, or pieces, below which more are tried."""
_HURRIES = (1.0, 0.1)
_MANY = 128
"""Ranks above which plain algorithms have too many rows to be tried beside compositions."""
_MOST_ROWS, _MOST_CROSSING = 1 << 19, 1 << 16
"""Of a schedule that is listed, and of one whose rows wait for each other's links on their way."""
_MOST_STRAIGHT = 1 << 12
"""Rows of an all-to-all straight from rank to rank that is listed."""
_MOST_PACKED, _MOST_PACKED_ROOTED = 1 << 19, 1 << 22
"""Transfers that all trees together choose among; those of one root share their bytes, and are worth more."""
_NEAR, _NEAR_AMONG_MANY = 1.001, 1.01
"""Times the lower bound at which nothing further is tried; the second among many ranks that switches join, whose rows
take seconds to put in order."""
_MANY_ROWS = 1 << 15
"""Rows from which more pieces are tried only as long as they gain."""


def on_packets(collective: Collective, fabric: Fabric) -> Schedule:
    """The fastest schedule, not yet verified; nothing further is tried near the bound, or when effort is spent."""
    switched = fabric.ranks > _MANY and not neighbours_join(fabric)
    enough = lower_bound(collective, fabric).time * (_NEAR_AMONG_MANY if switched else _NEAR)
    best, least, played = None, float("inf"), 0
    for schedule in chain(_in_steps(collective, fabric), _without_steps(collective, fabric)):
        seconds = cost(schedule, fabric).time
        if seconds < least:
            best, least = schedule, seconds
        played += len(schedule) if schedule.queued else 0
        if least <= enough or played > effort(fabric.ranks):
            break
    if least > enough:
        for schedule, seconds in _in_rounds(collective, fabric):
            if seconds < least:
                best, least = schedule, seconds
    if best is None:
        raise UnsupportedError(f"no schedule found for {collective.kind} on this {fabric.kind_name}")
    return replace(best, algorithm="synthesized")


def _in_steps(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Plain algorithms, and compositions; among many ranks that links join, in domains or on grids, only what suits."""
    many = fabric.ranks > _MANY and collective.kind not in ROOTED and (_by_axis(fabric) or fabric.joins_ranks)
    for algorithm in (_suited(fabric),) if many else (*_PLAIN, HIERARCHICAL):
        steps = _steps_of(algorithm, collective, fabric)
        if steps is None:
            continue
        if steps.pipeline is not None:
            steps = at_size(steps, collective.nbytes, step_loads(steps, fabric), fabric)
        yield replace(steps, notes=steps.notes or (f"steps of {algorithm.name}",))


def _steps_of(algorithm: Algorithm, collective: Collective, fabric: Fabric) -> Schedule | None:
    if algorithm.refusal(collective.kind, fabric) is not None:
        return None
    try:
        return algorithm.build(collective, fabric, striped=algorithm.striped)
    except UnsupportedError:
        return None


def _without_steps(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    steps, joined = _steps_of(_suited(fabric), collective, fabric), neighbours_join(fabric)
    steps = None if steps is None else _folded(steps, fabric)
    if steps is not None:
        most = _MOST_CROSSING if joined and fabric.hops(*steps.ends(slice(None))).max(initial=1) > 1 else _MOST_ROWS
        yield from _in_pieces(steps, fabric, [pieces for pieces in _PIECES if len(steps) * pieces <= most])
    if collective.kind == "all-to-all":
        straight = _steps_of(ONE_STAGE, collective, fabric)
        if straight is not None and len(straight) <= _MOST_STRAIGHT:
            yield listed(without_barriers(straight, fabric), fabric)
    elif collective.kind in ROOTED:
        yield from _packed_from_root(collective, fabric)
    elif not joined and not _by_axis(fabric):
        yield from _packed(collective, fabric)


def _in_rounds(collective: Collective, fabric: Fabric) -> Iterator[tuple[Schedule, float]]:
    """The fastest schedule from neighbour to neighbour where links join all ranks, and its seconds."""
    if collective.kind in FROM_ALL_GATHER and neighbours_join(fabric):
        yield flowing(collective, fabric)


def _by_axis(fabric: Fabric) -> bool:
    return len(fabric.axes) > 1


def _suited(fabric: Fabric) -> Algorithm:
    """The steps that are worth sending without barriers."""
    return HIERARCHICAL if _by_axis(fabric) else RING_TWO_WAY.bundled()


def _in_pieces(steps: Schedule, fabric: Fabric, numbers: Sequence[int]) -> Iterator[Schedule]:
    """The steps without barriers in ever more pieces, those of many rows as long as more of them are faster."""
    before = float("inf")
    for pieces in numbers:
        schedule = listed(without_barriers(steps, fabric, pieces, 1), fabric)
        yield schedule
        if len(schedule) >= _MANY_ROWS:
            seconds = cost(schedule, fabric).time
            if seconds > _GAIN * before:
                return
            before = seconds


def _folded(steps: Schedule, fabric: Fabric) -> Schedule | None:
    """The rows of as few ranks for all as links, which rows without barriers wait for, turn with the ranks; None where
    these have too many rows."""
    if steps.collective.kind in ROOTED:
        return steps
    if steps.folding is None:
        rows = steps.source == 0
        first = steps.with_columns(
            {name: column[rows] for name, column in steps.columns().items()},
            folding=Folding.alike(fabric.ranks, 1),
        )
        return first if _holds(without_barriers(first, fabric), fabric) else steps
    while steps.folding is not None and not _holds(without_barriers(steps, fabric), fabric):
        if len(steps) * (steps.folding.axes or (steps.folding.copies,))[0] > _MOST_ROWS:
            return None
        steps = steps.unfolded_once()
    return steps


def _holds(schedule: Schedule, fabric: Fabric) -> bool:
    """Whether a folded schedule is proved on this fabric."""
    try:
        verify(schedule, fabric)
    except VerificationError:
        return False
    return True


def _packed(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    if len(fabric.siblings()[1]) > 1:
        return
    for trees in _TREES:
        if fabric.ranks * trees * _choices(fabric) > _MOST_PACKED:
            return
        for hurry in _HURRIES:
            yield packed(collective, fabric, trees, hurry)


def _packed_from_root(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Ever more trees from one root, as long as more of them are faster."""
    if len(fabric.siblings()[1]) > 1:
        return
    before = float("inf")
    for trees in _ROOTED_TREES:
        if trees * _choices(fabric) > _MOST_PACKED_ROOTED:
            return
        schedules = [packed(collective, fabric, trees, hurry) for hurry in _HURRIES]
        yield from schedules
        least = min(cost(schedule, fabric).time for schedule in schedules)
        if least > _GAIN * before:
            return
        before = least


def _choices(fabric: Fabric) -> int:
    """Transfers that one tree chooses among."""
    return fabric.ranks * (8 if neighbours_join(fabric) else fabric.ranks)
