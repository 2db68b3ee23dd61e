"""Bounds are the numbers that their formulas give, worked out here once more in plain terms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.link_use import broadcast_uses, degree_seconds, ranks_by_hops
from lightloom.collectives.bounds.lower_bound import Bound, lower_bound, ring_bounds
from lightloom.collectives.bounds.rooted import (
    _attachments,
    _branches_fit,
    _in_time,
    _later_links_fit,
    _smallest,
    broadcast_seconds,
)
from lightloom.collectives.collective import (
    CLASSIC,
    FROM_ALL_GATHER,
    Collective,
    Kind,
)
from lightloom.collectives.synthesis.ring.rooted import side_depth
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from tests.collectives.strategies import wdm_ring


class Converting(CircuitSwitch):
    """Circuits between which bytes become electrons."""

    conversion_time: float = 4e-7


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 9, 40, 41])
@pytest.mark.parametrize("degree", [1, 2, 3, 6])
def test_ranks_by_hops_fill_a_tree(ranks: int, degree: int) -> None:
    """A breadth-first walk over a tree in which every rank has so many children."""
    depth = [0]
    while len(depth) < ranks:
        level = depth[-1] + 1
        depth += [level] * min(degree**level, ranks - len(depth))
    assert ranks_by_hops(ranks, degree) == [depth.count(level) for level in range(1, depth[-1] + 1)]


@pytest.mark.parametrize("kind", CLASSIC)
@pytest.mark.parametrize(("ranks", "degree"), [(2, 1), (5, 2), (7, 2), (8, 2), (13, 3), (14, 3), (9, 12)])
@pytest.mark.parametrize("setup", [0.0, 2e-5, 1.0])
@pytest.mark.parametrize("rank_bytes", [70.0, 7e5])
def test_degree_bounds(kind: Kind, ranks: int, degree: int, setup: float, rank_bytes: float) -> None:
    """Circuits that stand make some data take hops; circuits that change cost a second set-up."""
    nbytes = rank_bytes * ranks
    fabric = Converting(ranks=ranks, degree=degree, bandwidth=5e9, hop_latency=3e-6, reconfiguration_time=setup)
    hop, convert = fabric.neighbour_latency(), fabric.step_overhead
    share = nbytes / ranks / (degree * fabric.channel_bandwidth)
    if kind == "all-to-all":
        share = Collective(kind, ranks, nbytes).nbytes_per_rank / (degree * fabric.channel_bandwidth)
    levels = ranks_by_hops(ranks, degree)
    received = {"broadcast": ranks, "reduce": ranks, "all-reduce": 2 * (ranks - 1)}.get(kind, ranks - 1)
    farthest = len(levels) * hop + (len(levels) - 1) * convert
    if kind == "all-to-all":
        passes = sum(level * number for level, number in enumerate(levels, start=1))
        standing = max(farthest, hop + passes * share)
    elif kind in ("all-gather", "reduce-scatter"):
        behind = [sum(levels[k:]) for k in range(len(levels))]
        standing = max((k + 1) * hop + k * convert + behind[k] * share for k in range(len(levels)))
    else:
        standing = max(farthest, hop + received * share)
    changing = max(setup, hop + received * share)
    seconds = degree_seconds(Collective(kind, ranks, nbytes), fabric)
    assert seconds == pytest.approx(setup + convert + min(standing, changing), rel=1e-12)
    assert lower_bound(Collective(kind, ranks, nbytes), fabric).time >= seconds * (1 - 1e-12)


@pytest.mark.parametrize("kind", CLASSIC)
@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_a_switch_bounds_what_a_port_carries(kind: Kind, ranks: int) -> None:
    rate, nbytes = 3e9, 6e5 * ranks
    fabric = PacketSwitch(ranks=ranks, hop_latency=2e-6, bandwidth=rate)
    share = nbytes / ranks
    port = {"all-reduce": 2 * (ranks - 1) * share, "broadcast": nbytes, "reduce": nbytes}.get(kind, (ranks - 1) * share)
    bound = lower_bound(Collective(kind, ranks, nbytes), fabric)
    assert bound.time == pytest.approx(fabric.neighbour_latency() + port / rate, rel=1e-12)
    far = lower_bound(Collective(kind, ranks, 1e-9), fabric)
    assert far.time == pytest.approx(fabric.diameter_latency(), rel=1e-6)


@pytest.mark.parametrize("kind", CLASSIC)
@pytest.mark.parametrize(
    ("wavelengths", "transceivers", "taps", "hops", "root_hops"),
    [
        # All pairs of 16 ranks need 32 wavelengths each way and 15 lightpaths from every rank. 31 wavelengths leave a
        # root for all others.
        (32, None, 1, 1, 1),
        (31, None, 1, 2, 1),
        (32, 15, 1, 1, 1),
        (32, 14, 1, 2, 2),
        # 2 + 4 + 8 ranks within three hops, and one more in a fourth.
        (1, None, 1, 4, 4),
        (40, 2, 1, 4, 4),
        (40, 3, 1, 3, 3),
        # 64 pairs across the middle of the ring, four circuits from half to half, each for 5 + 4 pairs of two hops.
        (1, None, 2, 3, 2),
        (1, None, 8, 2, 1),
        (40, 3, 5, 1, 1),
        # 16 circuits from half to half, each for 17 + 16 pairs of two hops.
        (8, None, 1, 2, 1),
    ],
)
def test_hops_over_circuits_that_stand(
    kind: Kind, wavelengths: int, transceivers: int | None, taps: int, hops: int, root_hops: int
) -> None:
    """A root needs no more than the tree of circuits below it; all other kinds need lightpaths between all pairs."""
    fabric = wdm_ring(
        16,
        wavelengths,
        transceivers=transceivers,
        multicast_taps=taps,
        conversion_time=1e-6,
        hop_latency=1e-8,
        reconfiguration_time=1.0,
    )
    bounds = {name: seconds for seconds, name in ring_bounds(Collective(kind, 16, 1.0), fabric)}
    expected = root_hops if kind in ("broadcast", "reduce") else hops
    assert bounds[f"{expected} hops on circuits that stand, or circuits set twice"] == pytest.approx(
        expected * (1e-6 + fabric.neighbour_latency()), rel=1e-12
    )


@pytest.mark.parametrize("kind", CLASSIC)
def test_circuits_set_twice_and_light_that_does_not_reach(kind: Kind) -> None:
    fabric = wdm_ring(17, 1, conversion_time=1e-6, reconfiguration_time=5e-7, lightpath_reach=3)
    bounds = {name: seconds for seconds, name in ring_bounds(Collective(kind, 17, 1.0), fabric)}
    twice = next(seconds for name, seconds in bounds.items() if "set twice" in name)
    assert twice == pytest.approx(5e-7 + 1e-6 + fabric.neighbour_latency(), rel=1e-12)
    # Eight links to the opposite rank in hops of three.
    assert bounds["3 hops, as light reaches 3 links"] == pytest.approx(3 * (1e-6 + fabric.neighbour_latency()))


@pytest.mark.parametrize(("taps", "kind", "uses"), [(1, "all-to-all", 72), (2, "all-gather", 16), (2, "broadcast", 16)])
@pytest.mark.parametrize("nbytes", [1e3, 1e6, 1e9])
def test_links_that_data_must_use(taps: int, kind: Kind, uses: int, nbytes: float) -> None:
    """Blocks of an all-to-all pass floor(N²/4) links for every byte held in the end; tapped light passes N − 1."""
    fabric = wdm_ring(17, 3, multicast_taps=taps, conversion_time=1e-6)
    bounds = {name: seconds for seconds, name in ring_bounds(Collective(kind, 17, nbytes), fabric)}
    total = 2 * 17 * 3 * fabric.channel_bandwidth
    expected = 1e-6 + fabric.neighbour_latency() + nbytes * uses / total
    assert bounds["the links that so few hops must use"] == pytest.approx(expected, rel=1e-12)


def test_the_paper_model_adds_set_up_and_conversion_to_what_must_move() -> None:
    fabric = wdm_ring(8, 4, conversion_time=1e-6, reconfiguration_time=2e-6, hop_latency=1e-3)
    bound = lower_bound(Collective("all-gather", 8, 1e6), fabric, "paper")
    # Seven shares enter a rank over both sides' wavelengths.
    assert bound.time == pytest.approx(3e-6 + 7 / 8 * 1e6 / (2 * 4 * fabric.channel_bandwidth), rel=1e-12)
    assert bound.to_json() == {"lower_bound_s": bound.time, "bound_by": bound.bound_by}


@pytest.mark.long
@pytest.mark.parametrize(
    ("ranks", "wavelengths", "hops"),
    [(64, 8, 3), (256, 8, 4), (1024, 8, 5), (4096, 8, 6), (1024, 64, 3), (4096, 64, 4)],
)
def test_few_circuits_lead_from_one_half_of_the_ring_to_the_other(ranks: int, wavelengths: int, hops: int) -> None:
    fabric = wdm_ring(ranks, wavelengths, conversion_time=1e-6, reconfiguration_time=1.0)
    for kind in (*FROM_ALL_GATHER, "all-to-all"):
        names = [name for _, name in ring_bounds(Collective(kind, ranks, 1.0), fabric)]
        assert f"{hops} hops on circuits that stand, or circuits set twice" in names


@given(st.integers(2, 60), st.integers(1, 8), st.floats(1e-9, 1e-3), st.sampled_from([0.0, 1e-7, 1e-5]))
def test_broadcasts_are_bound_by_their_root_and_by_all_links(
    ranks: int, wavelengths: int, direction_seconds: float, hop: float
) -> None:
    """Never below what the root sends or what all links carry, and more where hops are few; more bytes take longer."""
    found = broadcast_seconds(ranks, hop, direction_seconds)
    assert found >= hop + max(direction_seconds / 2, (ranks - 1) / (2 * ranks) * direction_seconds) * (1 - 1e-9)
    assert broadcast_seconds(ranks, hop, 1.1 * direction_seconds) >= found * (1 - 1e-9)
    assert broadcast_seconds(ranks, 1.1 * hop, direction_seconds) >= found * (1 - 1e-9)
    assert found <= broadcast_seconds(ranks, hop, wavelengths * direction_seconds) * (1 + 1e-9)


@given(st.integers(3, 200), st.floats(1e-3, 0.99))
def test_within_one_hop_the_root_sends_every_copy(ranks: int, sending: float) -> None:
    """All copies, sent by the root alone, where there is no time for two hops."""
    direction_seconds = 2 * sending / (ranks - 1)
    assert broadcast_seconds(ranks, 1.0, direction_seconds) >= (1 + sending) * (1 - 1e-9)


@given(st.integers(2, 9) | st.integers(2, 120), st.floats(-3.0, 1.3), st.sampled_from([1.0, 0.25, 8.0]))
@settings(max_examples=40)
def test_a_root_is_in_time_once_its_copies_and_their_links_are(ranks: int, decades: float, hop: float) -> None:
    """Byte by byte: whole hops are left, links for so few are used, and with one hop left there are N − 1 copies."""
    root_seconds = 10**decades
    too_short, seconds = 1.0, 9.0 + ranks + root_seconds
    while seconds - too_short > 1e-9:
        middle = (too_short + seconds) / 2
        if _in_time(ranks, hop, hop * root_seconds, hop * middle):
            seconds = middle
        else:
            too_short = middle
    step = root_seconds / 20_000
    left = seconds - (np.arange(20_000) + 0.5) * step
    copies = np.where(left >= 2, 1, ranks - 1).sum() * step
    hops, numbers = np.unique(left[left >= 1].astype(np.int64), return_counts=True)
    uses = sum(broadcast_uses(ranks, int(each)) * number * step for each, number in zip(hops, numbers, strict=True))
    margins = np.array([seconds - 1, ranks * (seconds - 1)]) - [copies, uses]
    rounding = step * np.array([ranks, ranks * ranks]) + 1e-6
    assert (margins >= -rounding).all() and (margins <= rounding).any()


@given(st.integers(3, 120), st.floats(0.1, 100.0))
def test_bytes_that_leave_the_root_late_make_few_hops(ranks: int, direction_seconds: float) -> None:
    """The links of each slot's bytes, added up slot by slot, fit what all links carry."""
    seconds, slots = broadcast_seconds(ranks, 1.0, direction_seconds), 2000
    left = seconds - (np.arange(slots) + 0.5) / slots * direction_seconds / 2
    uses = np.mean([broadcast_uses(ranks, max(1, int(hops))) for hops in left])
    assert uses * direction_seconds <= 2 * ranks * (seconds - 1) * (1 + 1e-2)


@given(st.integers(2, 300), st.integers(1, 30))
def test_costs_of_attachments_are_those_of_the_fewest_links(ranks: int, hops: int) -> None:
    costs = _attachments(ranks)
    assume(hops < len(costs))
    assert _smallest(costs[hops], ranks) == broadcast_uses(ranks, hops)


@given(st.integers(8, 300), st.floats(0.02, 1.0))
def test_within_three_hops_most_ranks_hang_from_what_the_root_sends_early(ranks: int, direction_seconds: float) -> None:
    """Rank by rank: copies that can be passed on serve two ranks at each distance, copies sent later one rank each."""
    seconds = broadcast_seconds(ranks, 1.0, direction_seconds)
    assume(2.0 < seconds < 3.0)
    early, all_copies = (2 * (seconds - 2) / direction_seconds, 2 * (seconds - 1) / direction_seconds)
    served, uses, distance = all_copies, 0.0, 0
    while served < ranks - 1:
        distance += 1
        more = min(2 * early, ranks - 1 - served)
        served, uses = served + more, uses + more * distance
    assert uses * direction_seconds <= 2 * ranks * (seconds - 2) * (1 + 1e-6)


@given(st.integers(3, 100), st.floats(0.02, 60.0), st.floats(1.0, 1.5))
def test_what_is_possible_stays_possible_with_more_time(ranks: int, sending: float, longer: float) -> None:
    for possible in (_branches_fit, _later_links_fit):
        seconds = broadcast_seconds(ranks, 1.0, sending) * (1 + 1e-9)
        assert possible(ranks, sending, seconds) and possible(ranks, sending, longer * seconds)


@pytest.mark.parametrize(
    ("ranks", "nbytes", "hops", "before"), [(256, 1e4, 2.966, 2.22), (64, 1e5, 4.826, 4.18), (1024, 1e6, 28.265, 27.7)]
)
def test_only_the_root_sends_before_the_first_hop_ends(ranks: int, nbytes: float, hops: float, before: float) -> None:
    """On 8 wavelengths of 40 Gb/s, 1 µs a hop; what was proved before lay lower."""
    found = broadcast_seconds(ranks, 1.0, nbytes / 40e3)
    assert found == pytest.approx(hops, abs=2e-3) and found > 1.01 * before


@given(st.integers(1, 12))
def test_a_root_reaches_so_many_within_two_hops_and_no_more(wavelengths: int) -> None:
    """Trees along the fibres reach as many as the proof allows."""
    most = 3 * wavelengths * (wavelengths + 1)
    assert side_depth(most // 2, wavelengths, wavelengths) == 2
    for ranks, hops in ((most + 1, 2), (most + 2, 3)):
        fabric = wdm_ring(ranks, wavelengths, conversion_time=1e-6, reconfiguration_time=1.0)
        names = [name for _, name in ring_bounds(Collective("broadcast", ranks, 1.0), fabric)]
        assert f"{hops} hops on circuits that stand, or circuits set twice" in names


def test_a_broadcast_of_256_ranks_takes_a_third_longer_than_what_was_proved_before() -> None:
    """10 MB a rank on 8 wavelengths of 40 Gb/s, 1 µs a hop: 127.0 µs after the set-up by the links of few hops."""
    fabric = wdm_ring(
        256, 8, wavelength_bandwidth=5e9, conversion_time=1e-6, reconfiguration_time=25e-6, hop_latency=0.0
    )
    bounds = {name: seconds for seconds, name in ring_bounds(Collective("broadcast", 256, 1e7), fabric)}
    assert bounds["the links that so few hops must use"] == pytest.approx(126.98e-6, rel=1e-3)
    assert bounds["the links around the root and few hops together"] == pytest.approx(172.8e-6, rel=1e-3)


def test_a_ratio_to_a_bound_of_nothing_is_unknown() -> None:
    cost: Any = SimpleNamespace(time=3.0)
    assert Bound(2.0, "a port").ratio(cost) == 1.5 and Bound(0.0, "nothing").ratio(cost) is None


@pytest.mark.parametrize("kind", CLASSIC)
def test_only_blocks_of_an_all_to_all_are_bound_by_what_crosses_the_ring(kind: Kind) -> None:
    names = [name for _, name in ring_bounds(Collective(kind, 16, 1e6), wdm_ring(16, 2))]
    assert any(name.startswith("blocks of") for name in names) == (kind == "all-to-all")
