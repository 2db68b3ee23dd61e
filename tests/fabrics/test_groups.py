"""A group of ranks is priced with what its siblings load on the links that they share, whatever the fabric."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Literal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import OF_SIZE, Collective
from lightloom.collectives.registry import evaluate, find
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics import fabric as base
from lightloom.machines.fabrics.fabric import Axis, Fabric, GroupFabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import PacketSwitch, PartFabric
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers, _members
from lightloom.machines.fabrics.wdm_ring import Ring, WdmRing
from tests.collectives.strategies import tier_fabrics, two_tiers


@given(st.sampled_from([1, 2, 3, 4, 6, 8]), st.integers(1, 12), st.integers(2, 12), st.integers(1, 12))
def test_domains_of_a_group_are_those_that_its_ranks_fall_into(
    size: int, domains: int, ranks: int, stride: int
) -> None:
    whole = max(size * domains, 2 * size)
    if whole % (ranks * stride):
        return
    part = two_tiers(ranks=whole, domain_size=size).group(ranks, stride)
    # Interleaved groups fill stretches of ranks · stride.
    spread = {
        frozenset(Counter((begin + first + stride * place) // size for place in range(ranks)).values())
        for begin in range(0, whole, ranks * stride)
        for first in range(stride)
    }
    assert part is not None and part.ranks == ranks
    if isinstance(part, Tiers):
        assert spread == {frozenset([part.node_ranks])}


@given(st.integers(1, 4), st.integers(2, 8), st.integers(1, 12), st.data())
def test_ranks_of_a_group_in_a_child_are_counted_where_groups_share_all_their_children_or_none(
    blocks: int, ranks: int, stride: int, data: st.DataObject
) -> None:
    """And where as many fall into each; elsewhere a group is no fabric of tiers."""
    whole = blocks * ranks * stride
    child = data.draw(st.sampled_from([n for n in range(1, whole) if whole % n == 0]))
    tier = Tier(shape="switch", bandwidth=1e9)
    level = Tiers(ranks=whole, tiers=(tier.model_copy(update={"size": child}), tier)).levels[-1]
    assert level.child == child
    places = [Counter((members // child).tolist()) for members in derived.group_members(whole, ranks, stride)]
    counts = {count for place in places for count in place.values()}
    alike = all(one.keys() == other.keys() or not one.keys() & other.keys() for one in places for other in places)
    assert _members(level, ranks, stride) == (counts.pop() if alike and len(counts) == 1 else None)


def test_a_group_on_a_star_is_a_smaller_star_and_on_a_ring_of_wavelengths_a_smaller_ring() -> None:
    for fabric in (PacketSwitch(ranks=12), WdmRing(ranks=12, wavelengths=4)):
        part = fabric.group(3, 4)
        assert part is not None and part == fabric.model_copy(update={"ranks": 3})
        assert fabric.pair(3) == (fabric.total_receive_bandwidth() / 12, fabric.neighbour_latency())


@pytest.mark.parametrize("kind", [Mesh, PacketSwitch, Ring, WdmRing])
def test_a_rank_needs_no_link_to_itself(kind: type[Fabric]) -> None:
    fabric = kind(ranks=16, hop_latency=1e-6)
    assert fabric.pair(0) == fabric.pair(16) == fabric.pair(32) == (math.inf, 0.0)


def test_sends_out_of_a_domain_share_the_tree() -> None:
    fabric = two_tiers(ranks=16, domain_size=8, bandwidth=50e9, taper=4, hop_latency=1e-6)
    assert fabric.pair(8)[0] == pytest.approx(12.5e9)
    assert fabric.pair(1) == (50e9, 4e-6)

    assert two_tiers(ranks=8, domain_size=8, domain_bandwidth=450e9).pair(4)[0] == 450e9


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_group_that_is_a_two_tier_switch_costs_what_footprints_give(data: st.DataObject) -> None:
    """Every algorithm, on the smaller switch of ``group`` and on the links of the whole one."""
    size = data.draw(st.sampled_from([2, 4, 6]))
    ranks, stride = data.draw(st.sampled_from([(2, 1), (2, 2), (4, 2), (3, 2), (3, 4), (4, 6), (2, 12), (6, 4)]))
    fabric = two_tiers(
        ranks=24,
        domain_size=size,
        hop_latency=1e-6,
        domain_latency=2e-7,
        taper=data.draw(st.sampled_from([1.0, 3.0])),
    )
    part = fabric.group(ranks, stride)
    assert part is not None
    kind = data.draw(st.sampled_from(OF_SIZE))
    algorithm = find(data.draw(st.sampled_from(["ring", "ring-two-way", "one-stage", "binomial-tree"])))
    if algorithm.refusal(kind, part) is None:
        exchange = Collective(kind, ranks, 1e6)
        shared = GroupFabric.of(fabric, ranks, stride)
        assert evaluate(algorithm, exchange, part).cost.time == pytest.approx(
            evaluate(algorithm, exchange, shared).cost.time, rel=1e-12
        )


@given(tier_fabrics(largest=24), st.data())
@settings(max_examples=25, deadline=None)
def test_a_group_of_tiers_costs_what_footprints_give(fabric: Tiers, data: st.DataObject) -> None:
    """Strides that leave one rank, a part or the whole of the children of any tier."""
    divisors = [n for n in range(1, fabric.ranks + 1) if fabric.ranks % n == 0]
    ranks = data.draw(st.sampled_from(divisors[1:]))
    stride = data.draw(st.sampled_from([n for n in divisors if fabric.ranks % (ranks * n) == 0]))
    _same_price(fabric, ranks, stride)


def test_one_rank_of_each_torus_takes_the_links_of_the_circuits() -> None:
    blocks = Tier(shape="torus", dims=(2, 2), bandwidth=1e9, latency=0.0)
    for latency in (None, 1e-7):
        circuits = Tier(shape="circuit-switch", size=3, bandwidth=2e9, latency=latency)
        fabric = Tiers(ranks=12, tiers=(blocks, circuits), hop_latency=1e-7)
        part = fabric.group(3, 4)
        assert part is not None and part.pair(1) == (2e9, 1e-7)
        _same_price(fabric, 3, 4)


def _same_price(fabric: Tiers, ranks: int, stride: int) -> None:
    """Every group as tiers of its own is priced as its footprints on the whole fabric are."""
    part = fabric.group(ranks, stride)
    assert part is not None
    shared = GroupFabric.of(fabric, ranks, stride)
    for name in ("ring", "one-stage"):
        algorithm, exchange = find(name), Collective("all-gather", ranks, 1e6)
        if algorithm.refusal("all-gather", part) is None:
            time = evaluate(algorithm, exchange, part).cost.time
            assert time == pytest.approx(evaluate(algorithm, exchange, shared).cost.time, rel=1e-12)


@pytest.mark.parametrize(("grid", "messages"), [(Mesh(ranks=64), 4), (Torus(ranks=64), 2)])
def test_groups_on_a_grid_share_its_links(grid: Mesh, messages: int) -> None:
    """Ranks 0, 4, 8, ... of an 8 x 8 grid are two columns; the four groups send along the same rows."""
    part = grid.group(16, 4)
    assert part is not None
    seconds = grid.bandwidth * (1 / part.pair(1)[0])
    assert seconds == pytest.approx(messages)
    exchange = Collective("all-reduce", 16, 16e6)
    time = evaluate(find("recursive-doubling"), exchange, part).cost.time
    alone = evaluate(find("recursive-doubling"), exchange, type(grid)(ranks=16)).cost.time
    assert time > alone


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_no_schedule_of_a_group_beats_its_bound(data: st.DataObject) -> None:
    """:func:`evaluate` raises where a cost lies below the bound that follows from the links."""
    whole: Fabric = data.draw(
        st.sampled_from([Mesh(ranks=24, hop_latency=1e-7), Torus(ranks=36, rows=4), Ring(ranks=24, hop_latency=1e-6)])
    )
    ranks, stride = data.draw(st.sampled_from([(2, 1), (2, 3), (4, 1), (4, 3), (6, 2), (3, 4), (12, 1), (2, 12)]))
    part = whole.group(ranks, stride)
    if part is None:
        assert whole.ranks % (ranks * stride)
        return
    kind = data.draw(st.sampled_from(OF_SIZE))
    for name in ("ring", "ring-two-way", "one-stage", "recursive-doubling", "worker-aggregator"):
        if find(name).refusal(kind, part) is None:
            evaluate(find(name), Collective(kind, ranks, 1e6), part)


class _Relay(PacketSwitch):
    """A star on which rank 0 is near everyone, so that relaying over it is quicker than sending straight."""

    kind: Literal["relay"] = "relay"  # type: ignore[assignment]
    distance_matters: ClassVar[bool] = True

    def latency(self, source: np.ndarray, destination: np.ndarray, route: np.ndarray) -> np.ndarray:
        return np.where((source == 0) | (destination == 0), 1e-6, 1e-3)


def test_the_farthest_ranks_hear_of_each_other_over_others() -> None:
    assert derived.diameter_latency(_Relay(ranks=8)) == pytest.approx(2e-6)
    assert derived.neighbour_latency(_Relay(ranks=8)) == pytest.approx(1e-6)


@given(st.integers(1, 3), st.integers(1, 8), st.data())
def test_a_share_of_a_ring_has_the_channels_that_were_asked_for(
    fibres: int, wavelengths: int, data: st.DataObject
) -> None:
    """Of all ranks too, however many fibres the ring has."""
    ring = WdmRing(ranks=6, fibres=fibres, wavelengths=wavelengths, wavelength_bandwidth=1e9)
    channels = data.draw(st.integers(1, ring.shared_channels))
    part = ring.share(6, 1, channels)
    assert part is not None
    assert part.channels == channels


@given(st.sampled_from([(4, 4), (3, 5), (2, 3, 4)]), st.data())
def test_a_part_has_axes_where_it_is_a_block_of_the_grid(dims: tuple[int, ...], data: st.DataObject) -> None:
    """Whole lines of all inner dimensions, and neighbours of the next one that do not pass its end."""
    whole = Torus(ranks=math.prod(dims), dims=dims)
    first = data.draw(st.integers(0, whole.ranks - 1))
    ranks = data.draw(st.integers(1, whole.ranks - first))
    places = np.array(np.unravel_index(np.arange(first, first + ranks), dims))
    sizes = [len(np.unique(row)) for row in places]
    expected = Axis.along(tuple(sizes)) if math.prod(sizes) == ranks else ()
    assert PartFabric.on(whole, range(first, first + ranks)).axes == expected
    if ranks > 1:
        assert PartFabric.on(whole, range(first + ranks - 1, first - 1, -1)).axes == ()


def test_a_part_across_two_domains_has_no_axis_of_one() -> None:
    whole = two_tiers(ranks=16, domain_size=8)
    assert [axis.size for axis in PartFabric.on(whole, range(8, 16)).axes] == [8]
    assert PartFabric.on(whole, range(4, 12)).axes == ()


def test_memory_is_asked_for_that_holds_what_is_kept_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Latencies once as they are found, and once as they are compared."""
    asked: list[int] = []
    monkeypatch.setattr(derived, "require_memory", lambda nbytes, what: asked.append(nbytes))
    fabric = two_tiers(ranks=15, domain_size=5, hop_latency=1.5e-6)
    held = derived._uses(fabric).nbytes, 2 * derived.direct_latency(fabric).nbytes
    assert tuple(asked) == held


@pytest.mark.parametrize(
    "part", [lambda whole: GroupFabric.of(whole, 4, 2), lambda whole: PartFabric.on(whole, range(2, 10))]
)
def test_what_holds_of_links_holds_of_a_part_that_uses_them(part: Callable[[Fabric], Fabric]) -> None:
    packets: dict[str, Any] = {"packet_payload": 1000, "packet_header": 100, "energy_per_bit": 1e-12}
    plain = two_tiers(ranks=16, domain_size=4, domain_latency=1e-7, hop_latency=1e-6, **packets)
    carried = load_fabric("two-tier-400g", 16)
    assert part(plain).wire_bytes(1e6) == plain.wire_bytes(1e6) == 1.1e6
    assert part(carried).arithmetic_share == carried.arithmetic_share > 0
    for whole in (plain, carried):
        one = part(whole)
        changes: tuple[Callable[[Fabric], Fabric], ...] = (
            lambda fabric: fabric,
            lambda fabric: fabric.as_carried(),
            lambda fabric: fabric.with_smaller_packets(2.0),
            lambda fabric: fabric.with_hop_latency(5e-6),
        )
        for change in changes:
            found, expected = change(one), change(whole)
            assert found.ranks == one.ranks and found.links == expected.links
            assert (found.link_bandwidth() == expected.link_bandwidth()).all()
            assert (found.link_latency() == expected.link_latency()).all()
            assert found.hop_latency == expected.hop_latency and found.rate_fields == expected.rate_fields
        assert [one.link_name(link) for link in (0, 5)] == [whole.link_name(link) for link in (0, 5)]
        assert (one.bill().ranks, one.bill().lines) == (one.ranks, whole.bill().lines)
        assert sorted(one.ring_order().tolist()) == list(range(one.ranks))


@given(tier_fabrics(largest=24))
@settings(max_examples=40, deadline=None)
def test_circuits_join_blocks_of_all_that_lies_beneath_them(fabric: Tiers) -> None:
    shapes = [tier.shape for tier in fabric.tiers]
    beneath = fabric.tiers[: shapes.index("circuit-switch")] if "circuit-switch" in shapes else None
    assert fabric.circuit_block == (None if beneath is None else math.prod(tier.children or 0 for tier in beneath))
    assert fabric.node_ranks == fabric.levels[0].size
    open_ended = Tiers(ranks=6, tiers=(Tier(shape="switch", bandwidth=1e9),))
    assert open_ended.circuit_block is None and Torus(ranks=4).circuit_block is None


@given(st.sampled_from([(2, 1), (3, 2), (4, 3), (6, 2)]), st.sampled_from([4, 11, 12]), st.booleans())
def test_groups_of_large_fabrics_are_bounded_by_what_holds_for_every_rank(
    sizes: tuple[int, int], most: int, alone: bool
) -> None:
    """Beyond so many ranks, and only where all groups are there; a single rank is a part, too."""

    def figures_of(fabric: Fabric) -> tuple[object, ...]:
        latencies = fabric.neighbour_latency(), fabric.diameter_latency()
        to_root, from_root = (fabric.root_latency(to_root=to_root) for to_root in (True, False))
        return fabric.cuts(), fabric.total_receive_bandwidth(), *latencies, to_root, from_root

    whole = Mesh(ranks=12, hop_latency=1e-6)
    exact = PartFabric.on(whole, range(1, sizes[0])) if alone else GroupFabric.of(whole, *sizes)
    if exact.ranks == 1:
        assert exact.diameter_latency() == exact.neighbour_latency() == exact.diameter() == 0
        return
    figures = figures_of(exact)
    direct = derived.direct_latency(exact)[0, 1:].max()
    assert figures[4:] == pytest.approx((direct, direct)), "a mesh relays as fast as it sends"
    with patch.object(base, "_MOST_PAIRED", most):
        exact = exact.model_copy()  # Without what it has found.
        found = figures_of(exact)
    if most == 12 or alone:
        assert found == figures
        return
    ones = [cut for cut in whole.cuts() if cut.ranks == 1]
    assert found[0] == ones and found[1] == pytest.approx(whole.total_receive_bandwidth() * exact.ranks / 12)
    assert found[2:] == (whole.neighbour_latency(),) * 4


def test_packets_alone_are_shared_by_groups_of_any_fabric() -> None:
    mesh = Mesh(ranks=12)
    assert mesh.group(12) is mesh and mesh.group(5) is None and mesh.group(4, 2) is None
    assert mesh.group(3, 2) == GroupFabric.of(mesh, 3, 2)
    for other in ("exclusive", "in_network_reduction"):
        kind = type("Other", (Mesh,), {"__module__": __name__, other: True})
        assert kind(ranks=12).group(3, 2) is None


def test_a_message_takes_what_the_library_takes_besides_the_links() -> None:
    carried = load_fabric("two-tier-400g", 16)
    for fabric in (carried, carried.as_carried(), Mesh(ranks=16, hop_latency=1e-6)):
        for stride in (1, 3, 8):
            (rate, latency), own = fabric.pair(stride), fabric.library
            assert fabric.message(stride) == (rate, latency + (own.message_latency(stride) if own else 0.0))
    assert carried.library is not None and carried.library.message_latency(8) > 0
