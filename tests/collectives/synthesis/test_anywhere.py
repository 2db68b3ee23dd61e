"""Synthesis on tiers, graphs, switches and grids: verified, never below a bound, never slower than plain algorithms."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import CLASSIC, Collective, Kind
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import algorithms, build, costed, evaluate, find
from lightloom.collectives.schedule.build import without_barriers
from lightloom.collectives.schedule.columns import COLUMNS, Schedule
from lightloom.collectives.synthesis import packets
from lightloom.collectives.synthesis.engine import cache
from lightloom.collectives.synthesis.packets import listed, on_packets, packed
from lightloom.collectives.verify.verifier import verify
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.graph import Graph
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers
from tests.collectives.strategies import packet_fabrics
from tests.fabrics.topologies import dragonfly, hypercube

PLAIN = ("one-stage", "recursive-doubling", "halving-doubling", "hierarchical", "binomial-tree", "double-binary-tree")


RINGS_OF_TWO = Tiers(
    ranks=8,
    tiers=(
        Tier(name="ring", shape="ring", size=2, bandwidth=1e9),
        Tier(name="torus", shape="torus", dims=(2, 2), bandwidth=1e9, ports=1),
    ),
)
"""Copies of rows from neighbour to neighbour meet on the links between two ranks of a line."""
RINGS_BY_ONE_PORT = Tiers(
    ranks=9,
    hop_latency=1e-7,
    tiers=(
        Tier(name="inner", shape="ring", size=3, bandwidth=1e9),
        Tier(name="outer", shape="ring", size=3, bandwidth=1e9, ports=1),
    ),
)
"""Copies of rows meet on the links of the one rank by which each inner ring leads out."""


@settings(deadline=None, max_examples=25)
@given(packet_fabrics(largest=9), st.sampled_from(CLASSIC), st.floats(0, 9))
@example(RINGS_OF_TWO, "all-gather", 0.0)
@example(RINGS_OF_TWO, "all-reduce", 6.0)
@example(RINGS_BY_ONE_PORT, "all-gather", 0.0)
def test_every_packet_fabric_is_served_no_slower_than_plainly(fabric: Fabric, kind: Kind, power: float) -> None:
    collective = Collective(kind, fabric.ranks, 10**power)
    assert find("synthesized").refusal(kind, fabric) is None
    schedule = on_packets(collective, fabric)
    verify(schedule, fabric)
    price, _ = costed(schedule, fabric)
    for algorithm in (algorithms()[name] for name in PLAIN):
        if algorithm.refusal(kind, fabric) is None:
            assert price.time <= evaluate(algorithm, collective, fabric).cost.time * (1 + 1e-9), algorithm.name


@settings(deadline=None, max_examples=30)
@given(
    packet_fabrics(largest=9),
    st.sampled_from([kind for kind in CLASSIC if kind != "all-to-all"]),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.1, 1.0]),
)
def test_packed_trees_carry_everything(fabric: Fabric, kind: Kind, pieces: int, hurry: float) -> None:
    schedule = packed(Collective(kind, fabric.ranks, 1e6), fabric, pieces, hurry)
    verify(schedule, fabric)
    costed(schedule, fabric)
    passes = 2 if kind == "all-reduce" else 1
    assert len(schedule) == passes * schedule.chunks * (fabric.ranks - 1)


@pytest.mark.parametrize(("name", "ranks"), [("dgx-h100", 16), ("tpu-v4", 64), ("two-tier-400g", 16)])
@pytest.mark.parametrize("kind", ["all-gather", "all-reduce"])
def test_phases_without_barriers_come_nearer_to_the_bound(
    name: str, ranks: int, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 MiB: domains and rails no longer wait for each other."""
    monkeypatch.setattr(cache, "SCALE", 1 / 10)
    fabric, collective = load_fabric(name, ranks=ranks), Collective(kind, ranks, 64 * 2**20)
    price, bound = costed(on_packets(collective, fabric), fabric)
    steps = evaluate(find("hierarchical"), collective, fabric).cost.time
    assert price.time < steps
    assert price.time <= 1.25 * bound.time


@pytest.mark.parametrize(
    "fabric",
    [
        Graph(ranks=18, edges=dragonfly(3, 3, 2, 1e9, 2, 1e-6)),
        Graph(ranks=16, edges=hypercube(4, 1e9, 1e-6)),
        load_fabric("dgx-h100", ranks=16),
    ],
    ids=["dragonfly", "hypercube", "tiers"],
)
def test_many_trees_from_a_root_use_all_of_its_links(fabric: Fabric) -> None:
    """64 MiB from one rank to all: trees share links that chains and one tree leave idle."""
    collective = Collective("broadcast", fabric.ranks, 64 * 2**20)
    schedule = on_packets(collective, fabric)
    verify(schedule, fabric)
    others = [find(name) for name in ("binomial-tree", "ring-two-way", "hierarchical")]
    times = [evaluate(o, collective, fabric).cost.time for o in others if o.refusal("broadcast", fabric) is None]
    assert cost(schedule, fabric).time < 0.8 * min(times)


@pytest.mark.parametrize("name", ["two-tier-400g", "tpu-v4", "dgx-h100", "torus"])
@pytest.mark.parametrize("pieces", [16, 64])
def test_a_reduce_takes_as_long_as_the_broadcast_that_it_is_backwards(name: str, pieces: int) -> None:
    """Sums wait for all that enters them: listed in the order in which they could begin, they took up to 1.4 times."""
    fabric = load_fabric(name, ranks=64 if name == "tpu-v4" else 16)
    spread, gathered = (
        packed(Collective(kind, fabric.ranks, 64 * 2**20), fabric, pieces, 0.1) for kind in ("broadcast", "reduce")
    )
    verify(gathered, fabric)
    assert cost(gathered, fabric).time <= 1.05 * cost(spread, fabric).time


def test_grids_that_only_switches_join_are_served_over_the_switches() -> None:
    """Ranks have neighbours, but links between ranks alone lead nowhere beyond their own grid."""
    tiers = (Tier(shape="ring", size=4, bandwidth=8e9), Tier(shape="switch", size=2, bandwidth=1e9))
    fabric = Tiers(ranks=8, tiers=tiers, hop_latency=1e-6)
    assert fabric.joins_ranks
    for kind in CLASSIC:
        collective = Collective(kind, 8, 1e6)
        verify(on_packets(collective, fabric), fabric)
        if kind != "all-to-all":
            verify(packed(collective, fabric, 2, 0.1), fabric)


def test_listing_changes_the_order_of_rows_and_nothing_else() -> None:
    fabric = load_fabric("two-tier-400g", ranks=16)
    steps = find("hierarchical").build(Collective("all-reduce", 16, 1e7), fabric)
    plain = without_barriers(steps.unfolded_once(), fabric, 4, 1)
    ordered = listed(plain, fabric)
    verify(ordered, fabric)
    moved = [name for name in COLUMNS if name != "step"]
    rows = [sorted(zip(*(getattr(s, name).tolist() for name in moved), strict=True)) for s in (plain, ordered)]
    assert rows[0] == rows[1]
    assert cost(ordered, fabric).time < cost(plain, fabric).time


def test_near_the_bound_nothing_is_put_in_order_among_many_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a million rows that wait for each other's links take minutes."""
    fabric = load_fabric("fat-tree-400g", ranks=1024)
    sizes: list[int] = []

    def counted(schedule: Schedule, fabric: Fabric) -> Schedule:
        sizes.append(len(schedule))
        return listed(schedule, fabric)

    monkeypatch.setattr(packets, "listed", counted)
    kinds: tuple[Kind, ...] = ("all-gather", "all-reduce")
    for kind in kinds:
        collective = Collective(kind, 1024, 2.0**25)
        assert cost(on_packets(collective, fabric), fabric).time < 1.01 * lower_bound(collective, fabric).time
    assert not sizes


def test_a_schedule_found_is_read_again_as_it_was() -> None:
    """Pipelines in steps and queued schedules alike, folded or not."""
    for name, kind, nbytes in (
        ("dgx-h100", "all-reduce", 1e3),
        ("dgx-h100", "all-gather", 1e7),
        ("switch", "reduce", 1e6),
    ):
        fabric, collective = load_fabric(name, ranks=16), Collective(kind, 16, nbytes)  # type: ignore[arg-type]
        once, again = (build(find("synthesized"), collective, fabric) for _ in range(2))
        assert cost(once, fabric).time == cost(again, fabric).time
        assert (once.pipeline, once.queued) == (again.pipeline, again.queued)


def test_what_adds_in_the_network_has_nothing_to_synthesize() -> None:
    fabric = load_fabric("optical-averager", ranks=4)
    assert "only reduces in the network" in str(find("synthesized").refusal("all-reduce", fabric))


@pytest.mark.parametrize("fabric", ["mesh", "switch", "ring"])
def test_no_search_begins_among_more_ranks_than_it_ends_for(fabric: str) -> None:
    why = find("synthesized").refusal("all-gather", load_fabric(fabric, ranks=16384))
    assert why == "synthesis searches among at most 8,192 ranks, not 16,384"
