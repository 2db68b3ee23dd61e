"""What is derived of a fabric is what its transfers say one by one, whatever links they take."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, permutations
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import floyd_warshall

from lightloom.core.arrays import Floats, Ints
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.derived import Footprint, structure
from lightloom.machines.fabrics.fabric import Fabric, GroupFabric
from lightloom.machines.fabrics.graph import Edge, Graph
from lightloom.machines.fabrics.grids import Torus
from lightloom.machines.fabrics.load import changed
from lightloom.machines.fabrics.switches import PacketSwitch, PartFabric
from tests.collectives.strategies import two_tiers

SEEDS = st.integers(0, 2**32 - 1)


class Drawn:
    """Links, routes and latencies drawn at random, without any order in them; links may be dark."""

    implementation = ("tests", "drawn")
    rate_fields: frozenset[str] = frozenset()

    def __init__(self, seed: int, rates: Sequence[float] = (0.5, 1.0, 2.0, 3.0), reduces: bool = False) -> None:
        random = np.random.default_rng(seed)
        self.drawn, self.in_network_reduction = {"seed": seed, "reduces": reduces}, reduces
        self.ranks = int(random.integers(1, 7))
        self.links = int(random.integers(1, 15))
        self.routes = int(random.integers(1, 4))
        ends = self.routes, self.ranks + 1, self.ranks + 1
        self.uses = random.random((*ends, self.links)) < random.choice([0.1, 0.3])
        np.put_along_axis(self.uses, random.integers(0, self.links, (*ends, 1)), True, axis=3)
        self.seconds = random.integers(0, 9, ends).astype(np.float64)
        self.chosen = random.integers(0, self.routes, ends[1:])
        self.rates = random.choice(rates, self.links)

    @property
    def switch_rank(self) -> int:
        return self.ranks

    def model_dump(self, **_: object) -> dict[str, object]:
        return dict(self.drawn)

    def model_dump_json(self, **_: object) -> str:
        return str((self.drawn, self.rates))

    def link_bandwidth(self) -> Floats:
        return self.rates

    def taken(self, source: int, destination: int, route: int | None = None) -> list[int]:
        """The links of one transfer, on the route that is chosen where none is given."""
        way = self.chosen[source, destination] if route is None else route
        return np.flatnonzero(self.uses[way, source, destination]).tolist()

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        passes = self.uses[route, source, destination]
        link = np.broadcast_to(np.arange(self.links), passes.shape)
        return Footprint(link * 0, link, passes.astype(np.int64), link * 0 + self.links)

    def route(self, source: Ints, destination: Ints) -> Ints:
        return self.chosen[source, destination]

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        return self.seconds[route, source, destination]

    def hops(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        links: Ints = self.uses[route, source, destination].sum(axis=-1)
        return links

    def siblings(self) -> tuple[Drawn, Ints]:
        return self, np.arange(self.ranks)[None]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(permutations(range(self.ranks), 2))


@given(SEEDS, st.booleans())
def test_the_quickest_route_of_links_that_all_work_is_the_latency_of_a_pair(seed: int, dark: bool) -> None:
    fabric = Drawn(seed, (0.0, 0.5, 1.0) if dark else (0.5, 1.0))
    expected = np.full((fabric.ranks, fabric.ranks), np.inf)
    for one, other in fabric.pairs:
        ways = [way for way in range(fabric.routes) if all(fabric.rates[fabric.taken(one, other, way)] > 0)]
        expected[one, other] = min((fabric.seconds[way, one, other] for way in ways), default=np.inf)
    assert (derived.direct_latency(fabric) == expected).all()
    assert derived.neighbour_latency(fabric) == (expected.min() if fabric.ranks > 1 else 0.0)
    if np.isfinite(expected).any() or fabric.ranks == 1:
        assert derived.diameter_latency(fabric) == derived._farthest(expected)


@given(SEEDS)
def test_ranks_hear_of_each_other_over_the_switch_that_reduces(seed: int) -> None:
    """The nearest after the quickest ways up and down, the farthest after the slowest."""
    fabric = Drawn(seed, reduces=True)
    up, down = fabric.seconds[0, :-1, -1], fabric.seconds[0, -1, :-1]
    assert derived.neighbour_latency(fabric) == up.min() + down.min()
    assert derived.diameter_latency(fabric) == up.max() + down.max()
    assert derived.diameter(fabric) == 2
    assert all(
        found.tolist() == way.tolist()
        for found, way in zip(derived._through_the_switch(fabric), (up, down), strict=True)
    )
    assert derived.root_latency(fabric, to_root=False) == up[0] + max(down[1:], default=0.0)
    assert derived.root_latency(fabric, to_root=True) == down[0] + max(up[1:], default=0.0)


@given(SEEDS)
def test_the_farthest_ranks_have_the_most_links_on_their_shortest_route(seed: int) -> None:
    fabric = Drawn(seed)
    shortest = [min(len(fabric.taken(*ends, way)) for way in range(fabric.routes)) for ends in fabric.pairs]
    with patch.object(derived, "_PAIRS", 7):
        assert derived.diameter(fabric) == max(shortest, default=0)


@given(SEEDS, st.integers(0, 15))
def test_transfers_that_all_go_as_far_share_the_links_that_they_take(seed: int, stride: int) -> None:
    fabric = Drawn(seed)
    if stride % fabric.ranks == 0:
        assert derived.simultaneous(fabric, stride) == (math.inf, 0.0)
        return
    pairs = [(rank, (rank + stride) % fabric.ranks) for rank in range(fabric.ranks)]
    load = Counter(chain.from_iterable(fabric.taken(*ends) for ends in pairs))
    rate = min(fabric.rates[link] / users for link, users in load.items())
    slowest = max(fabric.seconds[fabric.chosen[ends], *ends] for ends in pairs)
    assert derived.simultaneous(fabric, stride) == pytest.approx((rate, slowest))


@given(SEEDS)
@settings(max_examples=50)
def test_a_rank_has_the_links_alone_that_no_other_sends_or_receives_over(seed: int) -> None:
    """Its ports are the narrowest of them, told apart as the links are, and what is shared is divided."""
    fabric = Drawn(seed)
    senders = [{one for one, other in fabric.pairs if link in fabric.taken(one, other)} for link in range(fabric.links)]
    receivers = [
        {other for one, other in fabric.pairs if link in fabric.taken(one, other)} for link in range(fabric.links)
    ]
    share = fabric.rates / [max(min(len(s), len(r)), 1) for s, r in zip(senders, receivers, strict=True)]
    rates: list[float] = []
    leaves: list[int] = []
    enters: list[int] = []
    for ends in fabric.pairs:
        taken = fabric.taken(*ends)
        rates.append(min(share[taken]))
        for users, narrowest in ((senders, leaves), (receivers, enters)):
            narrowest.append(min(((share[k], k) for k in taken if len(users[k]) == 1), default=(0, -1))[1])
    found = derived.ports(fabric, *np.array(fabric.pairs, np.int64).reshape(-1, 2).T)
    if -1 in leaves + enters:
        assert found is None
        return
    assert found is not None and found.rate == pytest.approx(rates)
    for links, users, ports in ((leaves, senders, found.port), (enters, receivers, found.entry)):
        own = [[k for k in range(fabric.links) if users[k] == users[link]] for link in links]
        assert ports.tolist() == [alone.index(link) for alone, link in zip(own, links, strict=True)]


@given(SEEDS)
def test_what_enters_or_leaves_a_rank_passes_the_links_that_bound_it(seed: int) -> None:
    """On every route, and what bounds a rank are their bandwidths."""
    fabric = Drawn(seed)
    for covers, bound, end in zip(derived._covers(fabric), derived.rank_bandwidths(fabric), (1, 0), strict=True):
        for rank, cover in enumerate(covers):
            ways = [
                fabric.taken(*ends, way) for ends in fabric.pairs if ends[end] == rank for way in range(fabric.routes)
            ]
            chosen = cover[cover < fabric.links].tolist()
            assert bound[rank] == fabric.rates[chosen].sum()
            assert all(set(way) & set(chosen) for way in ways)
            greedy = []
            while ways:
                taken = Counter(chain.from_iterable(ways))
                greedy.append(min(taken, key=lambda link: (-taken[link], link)))
                ways = [way for way in ways if greedy[-1] not in way]
            assert chosen == greedy


@given(st.integers(1, 9), st.integers(1, 40))
def test_blocks_of_pairs_hold_each_ordered_pair_once_and_no_more_than_fit(ranks: int, held: int) -> None:
    with patch.object(derived, "_PAIRS", held):
        blocks = [np.stack(block, axis=1).tolist() for block in derived.pairs(ranks)]
    assert list(chain.from_iterable(blocks)) == [list(pair) for pair in permutations(range(ranks), 2)]
    assert all(len(block) <= max(held, ranks) for block in blocks)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5))
def test_groups_hold_each_rank_once_each_at_the_stride_from_the_next(blocks: int, ranks: int, stride: int) -> None:
    whole = blocks * ranks * stride
    members = derived.group_members(whole, ranks, stride)
    assert sorted(members.ravel().tolist()) == list(range(whole)) and members.shape[1] == ranks
    assert (np.diff(members) == stride).all() and (members[:, 0] == sorted(members[:, 0])).all()


@given(st.integers(1, 3), st.integers(2, 5), st.integers(1, 3))
def test_a_rank_of_a_group_has_its_part_of_what_bounds_all_groups(blocks: int, ranks: int, stride: int) -> None:
    star = PacketSwitch(ranks=blocks * ranks * stride)
    for bounds in derived.rank_bandwidths(GroupFabric.of(star, ranks, stride)):
        assert bounds.tolist() == [star.bandwidth] * ranks


@given(st.lists(st.sampled_from([1e9, 2e9, 5e9]), min_size=12, max_size=12))
def test_a_rank_alone_is_bounded_by_the_larger_of_what_enters_and_what_leaves_it(rates: list[float]) -> None:
    """Of ranks that are all joined; what all receive is the sum of what enters each."""
    ends = list(permutations(range(4), 2))
    edges = tuple(Edge(*pair, rate) for pair, rate in zip(ends, rates, strict=True))
    part = PartFabric.on(Graph(ranks=4, edges=edges, one_way=True), range(4))
    receive, send = (
        [sum(edge.bandwidth for edge in edges if edge[side] == rank) for rank in range(4)] for side in (1, 0)
    )
    assert [bound.tolist() for bound in part.rank_bandwidths()] == [receive, send]
    assert part.total_receive_bandwidth() == sum(receive)
    assert [(cut.ranks, cut.capacity) for cut in part.cuts()] == [(1, min(map(max, receive, send)))]


@given(SEEDS, st.data())
def test_structures_tell_equal_links_and_dark_ones_from_others(seed: int, data: st.DataObject) -> None:
    """And nothing else of how fast links are."""
    drawn = [Drawn(seed, data.draw(st.sampled_from([(2.0,), (0.0, 2.0), (0.0,), (1.0, 3.0)]))) for _ in range(2)]
    drawn[1].rates = np.where(data.draw(st.booleans()), 2 * drawn[0].rates, drawn[1].rates)
    patterns = [[[a == b, a > 0] for a in each.rates for b in each.rates] for each in drawn]
    one, other = map(structure, drawn)
    same_text, same_pattern = one == other, patterns[0] == patterns[1]
    assert same_text == same_pattern


@pytest.mark.parametrize(
    ("fabric", "rate", "other"),
    [
        (PacketSwitch(ranks=6, bandwidth=1e9), "bandwidth", "packet_payload"),
        (two_tiers(ranks=6, domain_size=3, bandwidth=1e9), "tiers.network.bandwidth", "tiers.domain.latency"),
    ],
)
def test_structures_are_those_of_all_fields_but_rates_and_sources(fabric: Fabric, rate: str, other: str) -> None:
    """Of any depth; whether an energy is known counts, not how large it is."""
    for of in (lambda each: each, lambda each: PartFabric.on(each, range(1, 5))):
        own = structure(of(fabric))
        known = [structure(of(fabric.model_copy(update={"energy_per_bit": energy}))) for energy in (0.0, 1e-12)]
        assert own != known[0] == known[1]
        for field, value in ((rate, 2e9), ("sources", {rate: "a data sheet"})):
            assert own == structure(of(changed(fabric, {field: value})))
        for field, value in ((other, 7), ("hop_latency", 1e-6)):
            assert own != structure(of(changed(fabric, {field: value})))


@given(st.integers(0, 9), st.integers(1, 12), SEEDS)
def test_links_that_cover_transfers_leave_none_out_and_none_is_needless_when_taken(
    transfers: int, links: int, seed: int
) -> None:
    """Of each rank, and each covers most of what those before it leave, as a greedy cover does."""
    random = np.random.default_rng(seed)
    rank = np.concatenate([np.arange(3), random.integers(0, 3, transfers)])
    rank.sort()
    transfers += 3
    passes = random.random((transfers, links)) < 0.3
    passes[np.arange(transfers), random.integers(0, links, transfers)] = True
    base = np.tile(np.arange(links), (transfers, 1))
    runs = derived.Footprint(base, np.zeros_like(base), passes.astype(np.int64), np.ones_like(base))
    parts = [derived.Footprint(*(column[which] for column in runs)) for which in (slice(0, 2), slice(2, None))]
    for each, chosen in enumerate(derived._cover(rank, parts, links).tolist()):
        left = passes[rank == each]
        for link in [link for link in chosen if link < links]:
            assert link == left.sum(axis=0).argmax()
            left = left[~left[:, link]]
        assert not len(left)


@given(st.integers(1, 7), st.data())
def test_the_farthest_rank_is_heard_of_on_the_shortest_path(ranks: int, data: st.DataObject) -> None:
    """From the rank whose slowest transfer is the slowest of all; one rank hears of nobody."""
    drawn = data.draw(st.lists(st.sampled_from([1.0, 1.5, 2.0, 5.0, 30.0]), min_size=ranks**2, max_size=ranks**2))
    direct = np.array(drawn).reshape(ranks, ranks)
    np.fill_diagonal(direct, np.inf)
    direct[1:, 1:][data.draw(st.integers(0, 3)) == 0] = np.inf  # then all is heard of over rank 0
    start = np.where(np.isfinite(direct), direct, 0.0).max(axis=1).argmax()
    expected = floyd_warshall(np.where(np.isfinite(direct), direct, 0.0))[start].max()
    assert derived._farthest(direct) == expected


def test_what_is_found_of_a_fabric_is_kept_for_all_of_its_structure() -> None:
    """And found again for another one; the last are kept."""
    asked: list[int] = []

    def compute(fabric: derived.Geometry) -> int:
        asked.append(fabric.ranks)
        return len(asked)

    count = derived.cached(compute, last=2)
    slow, fast = Drawn(1, (1.0,)), Drawn(1, (2.0,))
    assert [count(each) for each in (slow, fast, Drawn(2), slow, Drawn(3), Drawn(2))] == [1, 1, 2, 1, 3, 4]


def test_links_that_cover_many_transfers_are_kept_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the structure of the fabric, so that other rates have the same; those of few transfers are looked at again."""
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    torus, looked = Torus(ranks=16, bandwidth=3e9), list[int]()
    found = derived._covers_found

    def count(whole: Fabric, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        looked.append(members.size)
        return found(whole, members)

    monkeypatch.setattr(derived, "_covers_found", count)
    few = derived._kept_covers(torus)
    assert looked == [16] and not (tmp_path / "ports").exists()
    monkeypatch.setattr(derived, "_MANY_PAIRS", 255)
    first, again = derived._kept_covers(torus), derived._kept_covers(torus.model_copy(update={"bandwidth": 5e9}))
    assert looked == [16, 16]
    for covers in (first, again):
        assert all(
            np.array_equal(one, other) and other.dtype == np.int64 for one, other in zip(few, covers, strict=True)
        )
    part = torus.group(8, 2)
    assert part is not None
    derived._kept_covers(part)
    monkeypatch.setattr(derived, "_MANY_PAIRS", 127)
    halves = derived._kept_covers(part), derived._kept_covers(part)
    assert looked == [16, 16, 16, 16] and np.array_equal(halves[0], halves[1])
    assert len(list((tmp_path / "ports").iterdir())) == 2
