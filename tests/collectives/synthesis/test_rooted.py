"""Trees along the fibres: as shallow as they can be, never slower than what stands beside them, and run backwards."""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import ROOTED, Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, costed, find
from lightloom.collectives.synthesis.ring.rooted import (
    HubTree,
    _fullest,
    _shapes,
    _trees_side_by_side,
    cut_into_pieces,
    depth,
    hub_tree,
    line_tree,
    rooted,
    served,
    side_depth,
)
from lightloom.collectives.verify.verifier import verify
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.strategies import wdm_ring

SIZES = st.sampled_from([0.0, 1e3, 1e5, 1e7, 1e9])


@given(st.integers(1, 200), st.integers(1, 12))
def test_a_tree_is_as_deep_as_it_must_be_and_no_link_carries_more(ranks: int, load: int) -> None:
    parents, children, slots = line_tree(ranks, load)
    assert np.array_equal(np.sort(children), np.arange(1, ranks + 1)) and np.all(parents < children)
    deep = np.zeros(ranks + 1, np.int64)
    for parent, child in sorted(zip(parents.tolist(), children.tolist(), strict=True)):
        deep[child] = deep[parent] + 1
    assert deep.max() <= depth(ranks, load)
    link = np.arange(ranks)[:, None]
    over = (parents <= link) & (link < children)
    assert over.sum(axis=1).max() <= load and slots.max() < load
    for slot in range(load):
        assert over[:, slots == slot].sum(axis=1).max(initial=0) <= 1


@cache
def _most_served(hops: int, load: int) -> int:
    """By trying every set of ends: lightpaths from one rank at depth 0 that end where, and what is left between."""
    if hops == 0 or load == 0:
        return 0
    found = 0
    # Between the ends of the i-th and the next lightpath, load − children + i others fit beside those that pass.
    for children in range(1, load + 1):
        between = [_most_served(hops - 1, load - children + number) for number in range(1, children + 1)]
        found = max(found, children + sum(between))
    return found


@pytest.mark.parametrize("hops", range(6))
@pytest.mark.parametrize("load", range(1, 7))
def test_no_tree_so_deep_serves_more(hops: int, load: int) -> None:
    assert served(hops, load) == _most_served(hops, load)
    assert depth(max(served(hops, load), 1), load) == max(hops, 1)


@given(st.integers(1, 300), st.integers(1, 8), st.integers(1, 8), st.integers(1, 300))
def test_hubs_have_hops_left_for_the_ranks_behind_them(ranks: int, outward: int, backward: int, spacing: int) -> None:
    far = spacing >= ranks
    evenly = depth(-(-ranks // spacing), outward) + (depth(spacing - 1, backward) if spacing > 1 else 0)
    hops = side_depth(ranks, outward, backward) if far else evenly
    (parents, children, _), place = hub_tree(ranks, hops, outward, backward, spacing)
    assert place[-1] == ranks and np.all(np.diff(place) >= 1) and np.diff(place).max() <= spacing
    deep = np.zeros(len(place), np.int64)
    for parent, child in sorted(zip(parents.tolist(), children.tolist(), strict=True), key=lambda ends: ends[1]):
        deep[child] = deep[parent] + 1
        behind = int(place[child] - place[child - 1]) - 1
        assert deep[child] + (depth(behind, backward) if behind else 0) <= hops
    link = np.arange(len(place) - 1)[:, None]
    assert ((parents <= link) & (link < children)).sum(axis=1).max() <= outward


@pytest.mark.parametrize(("hops", "outward", "backward"), [(1, 3, 2), (4, 1, 1), (5, 2, 3), (3, 4, 4)])
def test_as_many_ranks_as_the_formula_says_and_no_more(hops: int, outward: int, backward: int) -> None:
    both = outward + backward
    most = comb(hops + both, both) - comb(hops + backward, backward)
    assert side_depth(most, outward, backward) == hops == side_depth(most + 1, outward, backward) - 1
    (_, children, _), place = hub_tree(most, hops, outward, backward, most)
    assert len(children) == served(hops, outward) and place[-1] == most


@given(
    st.integers(2, 40),
    st.integers(1, 12),
    SIZES,
    st.sampled_from(ROOTED),
    st.sampled_from([0.0, 1e-6]),
    st.sampled_from([0.0, 1e-7]),
    st.none() | st.integers(1, 9),
)
@settings(max_examples=25, deadline=None)
@example(12, 1, 0.0, "broadcast", 0.0, 1e-7, None)
@example(64, 8, 1e-300, "reduce", 1e-6, 0.0, None)
def test_every_schedule_is_right_and_above_its_bound(
    ranks: int, wavelengths: int, nbytes: float, kind: str, conversion: float, propagation: float, reach: int | None
) -> None:
    fabric = wdm_ring(ranks, wavelengths, conversion_time=conversion, hop_latency=propagation, lightpath_reach=reach)
    schedule = rooted(Collective(kind, ranks, nbytes), fabric)  # type: ignore[arg-type]
    verify(schedule, fabric)
    costed(schedule, fabric)  # raises below the bound


@pytest.mark.parametrize("kind", ROOTED)
@pytest.mark.parametrize("nbytes", [1e3, 1e5, 1e7, 1e9])
@pytest.mark.parametrize(("ranks", "wavelengths"), [(2, 1), (7, 3), (16, 64), (33, 8)])
def test_never_slower_than_what_stands_beside_it(ranks: int, wavelengths: int, nbytes: float, kind: str) -> None:
    fabric = wdm_ring(ranks, wavelengths, conversion_time=1e-6)
    wanted = Collective(kind, ranks, nbytes)  # type: ignore[arg-type]
    ours = cost(rooted(wanted, fabric), fabric).time
    for name in ("ring", "ring-two-way", "binomial-tree", "worker-aggregator"):
        for each in (name, f"{name}-striped"):
            assert ours <= cost(build(find(each), wanted, fabric), fabric).time * (1 + 1e-9), each


@pytest.mark.parametrize("nbytes", [1e3, 1e6])
def test_a_reduce_takes_as_long_as_the_broadcast_it_runs_backwards(nbytes: float) -> None:
    fabric = wdm_ring(24, 6, conversion_time=1e-6, hop_latency=1e-8)
    there, back = (cost(rooted(Collective(kind, 24, nbytes), fabric), fabric).time for kind in ROOTED)
    assert there == pytest.approx(back, rel=1e-9)


@pytest.mark.parametrize("kind", ROOTED)
@pytest.mark.parametrize("ranks", [3, 8, 17, 33])
def test_what_leaves_last_goes_both_ways_while_the_rest_still_goes_around(ranks: int, kind: str) -> None:
    """In the time that the far half of the ring takes, the root sends at half the rate, and nothing arrives later."""
    fabric = wdm_ring(ranks, 4, conversion_time=1e-6, reconfiguration_time=0.0, hop_latency=0.0, guard_time=0.0)
    far = ranks - 1 - ranks // 2
    sending = 6 * ranks * 1e-6
    nbytes = sending * fabric.usable_channels * fabric.channel_bandwidth
    schedule = rooted(Collective(kind, ranks, nbytes), fabric)  # type: ignore[arg-type]
    verify(schedule, fabric)
    # Both ways for as long as the far half takes; the rest of the data leaves one way or the other, twice as fast.
    ideal = (ranks - 1) * 1e-6 + (sending - far * 1e-6) / 2
    assert "go both ways to the far side" in schedule.notes[0]
    assert ideal <= cost(schedule, fabric).time <= 1.02 * ideal < 1.02 * ((ranks - 1) * 1e-6 + sending / 2)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5), st.floats(-1.0, 9.0)), min_size=1, max_size=4),
    st.integers(1, 8),
)
def test_no_other_trees_carry_more_on_so_many_channels(kinds: list[tuple[int, int, float]], channels: int) -> None:
    counts = _fullest([kind[:2] for kind in kinds], channels, [kind[2] for kind in kinds])
    assert counts @ [kind[0] for kind in kinds] <= channels and counts @ [kind[1] for kind in kinds] <= channels

    def most(one: int, other: int) -> float:
        taken = [value + most(one - g, other - b) for g, b, value in kinds if g <= one and b <= other and value > 0]
        return max(taken, default=0.0)

    assert counts @ [kind[2] for kind in kinds] == pytest.approx(most(channels, channels))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 500), st.floats(0.01, 100.0))
@example([1, 1, 4, 1], 500, 100.0)
def test_pieces_are_shared_out_so_that_trees_finish_together(widths: list[int], pieces: int, sending: float) -> None:
    trees = {HubTree(k + 1, 1, 9 - k): width for k, width in enumerate(widths)}
    seconds, counts = cut_into_pieces(trees, 1.0, sending, 0.0, np.array([pieces]))
    assert counts.sum() == pieces
    busy = np.array([sending / pieces / width for width in widths])
    depth = np.array([tree.hops for tree in trees])
    used = counts[0] > 0
    last = depth * (1 + busy) + (counts[0] - 1) * busy
    assert seconds[0] == pytest.approx(last[used].max())
    # However they are shared out, fewer pieces arrive sooner.
    sooner = seconds[0] * (1 - 1e-6)
    assert np.maximum(np.floor((sooner - depth * (1 + busy)) / busy + 1), 0).sum() < pieces


@pytest.mark.parametrize("kind", ROOTED)
def test_trees_side_by_side_are_faster_than_any_alone(kind: str) -> None:
    """10 kB among 64 ranks on 8 wavelengths of 40 Gb/s, 1 µs a hop: 4.015 µs over one tree to hubs, 3.507 over two."""
    ranks, nbytes = 64, 1e4
    fabric = WdmRing(
        ranks=ranks, wavelengths=8, wavelength_bandwidth=5e9, conversion_time=1e-6, reconfiguration_time=0.0
    )
    schedule = rooted(Collective(kind, ranks, nbytes), fabric)  # type: ignore[arg-type]
    verify(schedule, fabric)
    assert "trees side by side" in schedule.notes[0]
    estimate = min(_trees_side_by_side(fabric, nbytes, 1.0)).seconds
    alone = min(_shapes(nbytes, fabric)).seconds
    assert cost(schedule, fabric).time == pytest.approx(estimate, rel=1e-6)
    assert estimate == pytest.approx(3.507e-6, rel=1e-3) and alone == pytest.approx(4.02e-6, rel=1e-3)


def test_two_chains_reach_the_bandwidth_of_the_ring() -> None:
    fabric = WdmRing(ranks=8, wavelengths=4, conversion_time=1e-6)
    schedule = rooted(Collective("broadcast", 8, 1e10), fabric)
    price, bound = costed(schedule, fabric)
    assert price.time <= 1.01 * bound.time and "pieces go around the ring, half of them each way" in schedule.notes[0]
