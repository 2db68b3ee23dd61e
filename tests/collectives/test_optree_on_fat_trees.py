"""OpTree on fat trees (section V of its paper): the exchange among parts, the parts being what the tiers join.

`hierarchical` is that schedule: its all-gather exchanges between equal positions of the outermost parts first, and so
on inwards, all that a rank holds each time.
"""

from __future__ import annotations

import pytest

from lightloom.collectives.algorithms.optree import exchange_stages
from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, evaluate, find
from lightloom.collectives.schedule.columns import ChunkLists
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers


def fat_tree(*sizes: int, taper: float = 2.0) -> Tiers:
    """Tiers of switches from the ranks outwards, each beyond the first with less bandwidth."""
    tiers = [Tier(shape="switch", size=sizes[0], bandwidth=50e9)]
    tiers += [Tier(shape="switch", size=size, bandwidth=50e9 / taper**n) for n, size in enumerate(sizes[1:], 1)]
    ranks = 1
    for size in sizes:
        ranks *= size
    return Tiers(ranks=ranks, tiers=tuple(tiers))


@pytest.mark.parametrize("sizes", [(4, 6), (8, 2), (2, 3, 4), (4, 2, 2)])
def test_hierarchical_moves_what_optree_moves(sizes: tuple[int, ...]) -> None:
    fabric = fat_tree(*sizes)
    schedule = build(find("hierarchical"), Collective("all-gather", fabric.ranks, 1e6), fabric)
    rows = schedule.first_piece().unfolded(1)
    stages, held = exchange_stages(fabric.ranks, sizes[::-1])
    assert rows.steps == len(stages)
    pieces = rows.chunks // fabric.ranks
    for step, stage in enumerate(stages):
        assert stage.carried is not None
        lists, number = ChunkLists.of_ranges(held, stage.chunk, stage.carried)
        ends = [
            (source, destination, share)
            for row, (source, destination) in enumerate(zip(stage.source, stage.destination, strict=True))
            for share in lists.chunks_of(number[row : row + 1])
        ]
        now = rows.step == step
        ours = set(zip(rows.source[now], rows.destination[now], rows.chunk[now] // pieces, strict=True))
        assert ours == set(ends) and len(ends) == len(set(ends))


@pytest.mark.parametrize(("sizes", "taper"), [((8, 4, 2), 2.0), ((2, 2, 8), 16.0), ((4, 4, 4), 4.0)])
def test_a_long_message_takes_what_its_busiest_tier_takes(sizes: tuple[int, ...], taper: float) -> None:
    """Outer links carry every share once, inner ones all that came through the outer ones; pieces overlap the tiers."""
    fabric = fat_tree(*sizes, taper=taper)
    share, seconds, came = 1e9, [], 1
    for tier in range(len(sizes) - 1, -1, -1):
        seconds.append((sizes[tier] - 1) * came * share * taper**tier / 50e9)
        came *= sizes[tier]
    done = evaluate(find("hierarchical"), Collective("all-gather", fabric.ranks, share * fabric.ranks), fabric)
    assert done.cost.time == pytest.approx(max(seconds), rel=0.02) and done.cost.time >= max(seconds) * (1 - 1e-9)
