"""Exchanges of one step that load the same links take turns there; those on links of their own run at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Torus
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.step import stage_exchanges
from lightloom.planning.pricing.strategy_step import exchange_seconds, simulate
from lightloom.planning.search.bounds import bounds
from lightloom.planning.simulation.engine import waiting
from lightloom.planning.simulation.link_turns import (
    Groups,
    LinkTurns,
    LinkUse,
    Pass,
    _first_alike,
    _undominated,
    link_shares,
)
from tests.planner.jobs import MadeUp, transformer
from tests.simulation.prices import linear

SECONDS = st.floats(0, 8).map(lambda seconds: round(seconds, 3))


def _pass_of(fabric: Fabric, tp: int, seconds: float, tensor: float) -> Pass:
    rows = Strategies.of(Strategy(fabric.ranks // tp, tp, 1, 1, fabric.ranks, "zero-3", "none", "ring", 0))
    within = [np.array([[part]]) for part in (tensor, 0.0, 0.0)]
    beside = [Groups(rows.replicas, rows.tp)]
    return LinkTurns(fabric).pass_of(rows, np.array([[seconds + tensor]]), 0.0, within, beside)


@pytest.mark.parametrize(
    ("fabric", "tp", "shared"),
    [
        (PacketSwitch(ranks=16), 4, 1.0),  # one port for all
        (Torus(ranks=16, rows=4), 4, 0.0),  # rows and columns
        (load_fabric("dgx-h100", ranks=32), 8, 0.0),  # a node and its rails
        (load_fabric("wdm-ring", ranks=16), 4, 0.0),  # circuits are divided
    ],
    ids=["star", "torus", "rails", "circuits"],
)
def test_gathers_hide_behind_tensor_exchanges_on_other_links_only(fabric: Fabric, tp: int, shared: float) -> None:
    computing, tensor, gather = 2.0, 3.0, 4.0
    prolonged = _pass_of(fabric, tp, computing, tensor).prolonged(1.0, np.array([[gather]])).item()
    assert prolonged == pytest.approx(shared * (tensor + gather - computing - tensor))


def test_half_a_node_shares_what_its_replicas_pass_through_it() -> None:
    """Two tensor groups of four in a node: their replicas meet inside it, over links eight times as fast as a rail."""
    fabric = load_fabric("dgx-h100", ranks=32)
    beside = _pass_of(fabric, 4, 0.0, 1.0)
    inside = beside.exchanged(1.0, np.array([[1.0]])).item()
    assert 1.1 < inside < 1.3


@given(SECONDS, SECONDS, SECONDS, SECONDS, st.sampled_from([2, 4, 8]))
def test_no_link_serves_two_seconds_in_one(
    computing: float, tensor: float, gather: float, longer: float, tp: int
) -> None:
    """At least what each needs alone, at most one after the other, and never shorter where anything is longer."""
    for fabric in (PacketSwitch(ranks=16), Torus(ranks=16), load_fabric("dgx-h100", ranks=16)):

        def seconds(computing: float, tensor: float, gather: float, fabric: Fabric = fabric) -> float:
            beside = _pass_of(fabric, tp, computing, tensor)
            return computing + tensor + beside.prolonged(1.0, np.array([[gather]])).item()

        step = seconds(computing, tensor, gather)
        assert max(computing + tensor, gather) - 1e-9 <= step <= computing + tensor + gather + 1e-9
        for more in ((longer, 0, 0), (0, longer, 0), (0, 0, longer)):
            changed = (computing + more[0], tensor + more[1], gather + more[2])
            assert seconds(*changed) >= step - 1e-9


@pytest.mark.parametrize("sharding", ["zero-3", "zero-1", "none"])
def test_a_step_takes_at_least_what_its_ports_send(sharding: str) -> None:
    """All exchanges of a star go through one port a rank, which serves them one after the other."""
    on = load_cluster("h100-512-two-tier", set={"ranks": 8})
    fabric = PacketSwitch(ranks=8)
    job = Job.of(transformer(4), on.accelerator, fabric, on.training, MadeUp(linear(1e9)))
    row = Strategy(4, 2, 1, 2, 64, sharding, "none", "ring", 0)
    step = simulate(job, row)
    rows = Strategies.of(row)
    exchanges = stage_exchanges(job, rows, exchange_seconds(job, "ring"))
    units, first, other = job.model.units(job.model.chunks(rows)), exchanges.replicas.first, exchanges.replicas.other
    beside = sum(one + (units - 1) * more for one, more in zip(first, other, strict=True))
    sent = row.micro_batches * (exchanges.forward + exchanges.backward + beside).sum()
    sent += exchanges.replicas.gather.sum() + exchanges.replicas.exchange.sum()
    assert step.step_time >= sent * (1 - 1e-9)
    assert bounds(job, Strategies.of(row))[0] <= step.step_time
    assert step.timeline.step_time == pytest.approx(step.step_time, rel=1e-12)


@settings(deadline=None, max_examples=20)
@given(st.sampled_from([(2, 1), (4, 1), (4, 4), (2, 8), (16, 1)]), st.booleans())
def test_exchanges_load_the_links_that_set_their_pace_fully(group: tuple[int, int], all_to_all: bool) -> None:
    for fabric in (PacketSwitch(ranks=16), Torus(ranks=16), load_fabric("dgx-h100", ranks=16)):
        shares = link_shares(fabric, *group, all_to_all)
        assert shares.max() == 1.0 and shares.min() >= 0.0


def test_rows_of_a_pass_take_what_each_takes_alone() -> None:
    """Strategies and chunks of a column say nothing of each other, whatever groups and seconds they have."""
    fabric, rng = load_fabric("dgx-h100", ranks=16), np.random.default_rng(2)
    degrees = [(1, 1, 1), (4, 1, 1), (2, 4, 1), (2, 1, 2), (8, 2, 1), (4, 1, 1)]
    whole = Strategies.of(
        *(Strategy(16 // tp // cp, tp, 1, 1, 16, "zero-3", "none", "ring", 0, ep=ep, cp=cp) for tp, ep, cp in degrees)
    )
    within = rng.uniform(0, 2, (3, len(degrees), 2)) * (np.array(degrees).T > 1)[:, :, None]
    seconds, exchanging = within.sum(axis=0) + 1, rng.uniform(0, 5, (len(degrees), 2))
    turns = LinkTurns(fabric)

    def passed(which: list[int], chunks: list[int]) -> tuple[Pass, Pass]:
        rows, at = whole.rows(np.array(which)), np.ix_(which, chunks)
        beside = [Groups(rows.replicas // rows.ep, rows.tp * rows.ep), Groups(rows.replicas, rows.tp)]
        parts = [part[at] for part in within]
        return tuple(turns.pass_of(rows, seconds[at], 0.25, parts, beside[:n]) for n in (1, 2))  # type: ignore

    for every, pair in zip(passed([*range(6)], [0, 1]), (0, 1), strict=True):
        exchanged, prolonged = every.exchanged(0.5, exchanging), every.prolonged(0.5, exchanging)
        for row, chunk in np.ndindex(6, 2):
            alone = passed([row], [chunk])[pair]
            own = exchanging[row : row + 1, chunk : chunk + 1]
            assert exchanged[row, chunk] == pytest.approx(alone.exchanged(0.5, own).item(), rel=1e-12)
            assert prolonged[row, chunk] == pytest.approx(alone.prolonged(0.5, own).item(), rel=1e-12)


@given(st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=9))
def test_links_alike_are_looked_at_once_and_lighter_sets_never(links: list[list[int]]) -> None:
    table = np.array(links)
    first = {tuple(row): number for number, row in reversed(list(enumerate(links)))}
    assert sorted(_first_alike(list(table.T)).tolist()) == sorted(first.values())
    heaviest = {row for row in first if all(other == row or np.less(other, row).any() for other in first)}
    assert {tuple(row) for row in _undominated(np.unique(table, axis=0)).tolist()} == heaviest


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.25, 1.0]))
def test_an_exchange_is_under_way_until_the_busiest_of_its_links_has_carried_it(seed: int, share: float) -> None:
    """Set of links by set of links, at what a pass leaves of them; one link that it leaves just enough of included."""
    rng = np.random.default_rng(seed)
    rows, chunks, sets = rng.integers(1, 4, 3)
    seconds = rng.integers(0, 5, (rows, chunks)).astype(float)
    busy = np.minimum(rng.integers(0, 5, (rows, chunks, sets)), seconds[..., None])
    load, part = rng.integers(0, 3, (rows, 1, sets)) / 2, rng.choice([0.25, 0.5, 1.0], (rows, chunks))
    exchanging = rng.integers(0, 4, (rows, chunks)) / 2
    found = Pass(seconds, share, LinkUse(busy, load)).exchanged(part, exchanging)
    prolonged = Pass(seconds, share, LinkUse(busy, load)).prolonged(part, exchanging)
    for row, chunk in np.ndindex(rows, chunks):
        longest, whole = float(exchanging[row, chunk]), float(part[row, chunk] * seconds[row, chunk])
        for used, loaded in zip(part[row, chunk] * busy[row, chunk], load[row, 0], strict=True):
            needs, left = loaded * exchanging[row, chunk], whole - used
            longest = max(longest, needs * whole / left if left > 0 and needs <= left else used + needs)
        longest = longest if exchanging[row, chunk] else 0.0
        assert found[row, chunk] == pytest.approx(longest, rel=1e-12)
        assert prolonged[row, chunk] == pytest.approx(waiting(np.array(whole), np.array(longest), share), rel=1e-12)
    alone = Pass(seconds, share)
    assert alone.exchanged(part, exchanging) is exchanging
    assert alone.prolonged(part, exchanging).tolist() == waiting(part * seconds, exchanging, share).tolist()


@pytest.mark.parametrize("dims", [(3, 4), (4, 3), (5, 3), (3, 3, 4)])
@pytest.mark.parametrize("all_to_all", [False, True])
def test_outer_axes_carry_what_inner_ones_leave(dims: tuple[int, ...], all_to_all: bool) -> None:
    """Of a share of 1 − 1/n of the data around an axis of n ranks; of an all-to-all every axis carries all the data."""
    fabric = Torus(ranks=int(np.prod(dims)), dims=dims)
    sizes = [axis.size for axis in fabric.axes]
    assert sorted(sizes) == sorted(dims)
    carried = [(1 - 1 / size) / (1 if all_to_all else np.prod(sizes[:place])) for place, size in enumerate(sizes)]
    shares = link_shares(fabric, fabric.ranks, 1, all_to_all)
    expected = np.unique(np.round(np.array(carried) / max(carried), 9))
    assert np.unique(shares.round(9)) == pytest.approx(expected)
    for axis, seconds in zip(fabric.axes, carried, strict=True):
        rank = np.arange(fabric.ranks)
        number = rank // axis.stride % axis.size
        after = rank + ((number + 1) % axis.size - number) * axis.stride
        path = fabric.path(rank, after, fabric.route(rank, after))
        assert (path >= 0).sum() == fabric.ranks
        assert shares[path[path >= 0]] == pytest.approx(seconds / max(carried))
    assert not link_shares(fabric, 1, 1, all_to_all).any()


def test_what_is_known_of_links_does_not_ask_which_library_uses_them() -> None:
    one, other = Torus(ranks=12, dims=(3, 4)), Torus(ranks=12, dims=(3, 4), bandwidth=2e9)
    assert LinkTurns.on(one) is LinkTurns.on(one.model_copy())
    assert LinkTurns.on(one) is not LinkTurns.on(other)
    named = one.model_copy(update={"sources": {"bandwidth": "a data sheet"}})
    assert LinkTurns.on(named) is LinkTurns.on(one)
