"""Schedules without barriers on packet links: what a replay by rows says, verified, folded, never below a bound."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import KINDS, Collective
from lightloom.collectives.cost.price import busiest_link, hops_of, play
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, costed, find
from lightloom.collectives.schedule.build import without_barriers
from lightloom.collectives.schedule.columns import Folding, Schedule
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import UnsupportedError, VerificationError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import PartFabric
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.fabrics.wdm_ring import Ring
from tests.collectives.cost.reference import Row, nbytes_of_rows, rows_of
from tests.collectives.strategies import collective_of, jobs, packet_fabrics, tier_fabrics, wdm_ring
from tests.fabrics.tiers_as_graph import to_graph

QUEUEABLE = ("ring", "ring-two-way-striped", "one-stage", "hierarchical", "mesh-broadcast", "worker-aggregator")
"""Algorithms whose ranks pass on nothing of which they still wait for a part."""


def unbarred(algorithm: Algorithm, collective: Collective, fabric: Fabric, pieces: int, interval: int) -> Schedule:
    steps = build(algorithm, collective, fabric)
    schedule = without_barriers(steps, fabric, pieces, interval)
    while steps.folding is not None and not turns(schedule, fabric):
        steps = steps.unfolded_once()
        schedule = without_barriers(steps, fabric, pieces, interval)
    return schedule


def turns(schedule: Schedule, fabric: Fabric) -> bool:
    """Whether links, on which rows now wait, turn with the ranks as steps do."""
    try:
        verify(schedule, fabric)
    except VerificationError:
        return False
    return True


def times_of(schedule: Schedule, fabric: Fabric, members: tuple[int, ...] | None = None) -> tuple[list[float], float]:
    """When each row begins, and the last arrival: links serve rows in order, and bits follow each other over a path.

    Args:
        members: the ranks of the fabric that those of the schedule stand for, where they are not the same.
    """
    schedule = schedule.unfolded(1)
    bandwidth, seconds = fabric.link_bandwidth(), fabric.link_latency()
    source, destination, route = schedule.ends(slice(None))
    if members is not None:
        source, destination = np.array(members)[source], np.array(members)[destination]
        route = fabric.route(source, destination)
    paths, latency = fabric.path(source, destination, route), fabric.latency(source, destination, route)
    free: dict[int, float] = defaultdict(float)
    ready: dict[tuple[int, int], float] = defaultdict(float)
    begin, end = [0.0] * len(schedule), 0.0
    rows: list[Row] = rows_of(schedule)
    nbytes = nbytes_of_rows(schedule)
    for i in sorted(range(len(rows)), key=lambda i: rows[i]["step"]):
        row, path = rows[i], paths[i][paths[i] >= 0].tolist()
        assert seconds[path].sum() == pytest.approx(latency[i])
        head, tail = ready[row["source"], row["chunk"]], 0.0
        for place, link in enumerate(path):
            busy = nbytes[i] / bandwidth[link]
            starts = max(head, tail - busy, free[link])
            free[link] = starts + busy
            begin[i] = starts if place == 0 else begin[i]
            head, tail = starts + seconds[link], free[link] + seconds[link]
        cell = row["destination"], row["chunk"]
        ready[cell] = max(ready[cell], tail)
        end = max(end, tail)
    return begin, end


@settings(deadline=None, max_examples=60)
@given(jobs(packet_fabrics(largest=9), QUEUEABLE), st.integers(1, 3), st.integers(0, 2))
def test_rows_are_sent_as_a_replay_row_by_row_says(
    job: tuple[Algorithm, Collective, Fabric], pieces: int, interval: int
) -> None:
    algorithm, collective, fabric = job
    schedule = unbarred(algorithm, collective, fabric, pieces, interval)
    verify(schedule, fabric)
    begin, end = times_of(schedule, fabric)
    seconds, _, played = play(schedule, fabric)
    assert seconds == pytest.approx(end, rel=1e-12)
    if schedule.folding is None:
        assert played == pytest.approx(np.array(begin), rel=1e-12, abs=1e-18)
    price, bound = costed(schedule, fabric)
    assert price.time == pytest.approx(seconds)
    assert price.time >= bound.time * (1 - 1e-9)


@st.composite
def parts(draw: st.DrawFn) -> PartFabric:
    """Any ranks of a packet fabric, in any order."""
    whole = draw(packet_fabrics(largest=12).filter(lambda fabric: fabric.ranks > 2))
    members = draw(st.permutations(range(whole.ranks)))
    return PartFabric.on(whole, members[: draw(st.integers(2, whole.ranks))])


@settings(deadline=None, max_examples=100)
@given(jobs(parts(), (*QUEUEABLE, "synthesized")), st.integers(1, 3), st.integers(0, 2))
def test_a_part_takes_as_long_as_its_ranks_on_the_whole_fabric(
    job: tuple[Algorithm, Collective, Fabric], pieces: int, interval: int
) -> None:
    algorithm, collective, part = job
    assert isinstance(part, PartFabric)
    schedule = build(algorithm, collective, part)
    if algorithm.name in QUEUEABLE:
        schedule = unbarred(algorithm, collective, part, pieces, interval)
    assume(schedule.queued)
    verify(schedule, part)
    begin, end = times_of(schedule, part.whole, part.members)
    seconds, _, played = play(schedule, part)
    assert seconds == pytest.approx(end, rel=1e-12)
    if schedule.folding is None and schedule.pipeline is None:
        assert played == pytest.approx(np.array(begin), rel=1e-12, abs=1e-18)
    price, bound = costed(schedule, part)
    assert price.time == pytest.approx(seconds)
    assert price.time >= bound.time * (1 - 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_far_apart_are_not_taken_for_neighbours(kind: str) -> None:
    """Four ranks of three domains, of which the first four ranks of the fabric are one."""
    whole = load_fabric("two-tier-400g", ranks=24)
    part = PartFabric.on(whole, (3, 11, 19, 23))
    schedule = build(find("synthesized"), collective_of(kind, 4, 4e8), part)
    price, bound = costed(schedule, part)
    assert price.time >= bound.time * (1 - 1e-9)
    if schedule.queued:
        assert price.time == pytest.approx(times_of(schedule, whole, part.members)[1], rel=1e-12)


@settings(deadline=None, max_examples=25)
@given(tier_fabrics(largest=12), st.sampled_from(["ring", "one-stage", "hierarchical"]), st.integers(1, 2))
def test_tiers_take_as_long_as_their_graph(fabric: Tiers, name: str, pieces: int) -> None:
    algorithm, collective = find(name), Collective("all-gather", fabric.ranks, 1e7)
    assume(algorithm.refusal("all-gather", fabric) is None)
    schedule = unbarred(algorithm, collective, fabric, pieces, 1).unfolded(1)
    assert cost(schedule, to_graph(fabric)).time == pytest.approx(cost(schedule, fabric).time, rel=1e-9)


@pytest.mark.parametrize("outer", ["ring", "full-mesh", "switch", "torus"])
def test_ranks_that_share_a_port_have_each_of_its_links(outer: str) -> None:
    """A rank sends over all links of a port at once, shared or its own, with steps and in a queue."""
    inner = Tier(shape="ring", size=2, bandwidth=8e9)
    fabric = Tiers(ranks=12, tiers=(inner, Tier.model_validate({"shape": outer, "ports": 1, "bandwidth": 1e9})))
    for name in ("one-stage", "hierarchical"):
        steps = find(name).build(Collective("all-gather", 12, 1e7), fabric)
        for schedule in (steps, without_barriers(steps, fabric, 2).unfolded(1)):
            assert cost(schedule, to_graph(fabric)).time == pytest.approx(cost(schedule, fabric).time, rel=1e-9)


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
@pytest.mark.parametrize("fabric", [Ring(ranks=6, hop_latency=1e-6), Torus(ranks=12, hop_latency=1e-6)], ids=str)
def test_what_is_folded_takes_as_long_unfolded(kind: str, fabric: Fabric) -> None:
    ring = find("ring" if fabric.kind_name == "ring" else "hierarchical")
    schedule = unbarred(ring, Collective(kind, fabric.ranks, 6e5), fabric, 2, 0).unfolded(1)  # type: ignore[arg-type]
    period = 1 if fabric.kind_name == "ring" else 4
    rows = schedule.source < period
    folding = Folding(period, np.zeros((fabric.ranks // period, 0), np.int32))
    folded = schedule.with_columns({name: c[rows] for name, c in schedule.columns().items()}, folding=folding)
    verify(schedule, fabric)
    verify(folded, fabric)
    assert cost(folded, fabric).time == pytest.approx(cost(schedule, fabric).time, rel=1e-12)
    joules = fabric.model_copy(update={"energy_per_bit": 1e-12})
    assert cost(folded, joules).energy == pytest.approx(cost(schedule, joules).energy)


def test_copies_of_a_row_go_before_the_next_row_of_its_step() -> None:
    """Rows of one step are served as they are listed, whichever copies they belong to."""
    fabric = load_fabric("two-tier-400g", ranks=24)
    schedule = unbarred(find("hierarchical"), Collective("all-reduce", 24, 1e6), fabric, 2, 1)
    assert schedule.folding is not None
    tied = schedule.with_columns({"step": schedule.step // 7})
    verify(tied, fabric)
    assert cost(tied, fabric).time == pytest.approx(cost(tied.unfolded(1), fabric).time, rel=1e-12)
    assert play(tied, fabric).seconds == pytest.approx(times_of(tied, fabric)[1], rel=1e-12)


def test_a_fabric_that_is_not_the_same_further_on_folds_nothing() -> None:
    for fabric, why in ((Mesh(ranks=12), "takes other ways"), (load_fabric("switch", 12), None)):
        schedule = unbarred(find("ring"), Collective("all-gather", 12, 1e6), Ring(ranks=12), 1, 0)
        folded = schedule.with_columns({"route": np.zeros(len(schedule))})
        if why is None:
            verify(folded, fabric)
            continue
        with pytest.raises(VerificationError, match=why):
            verify(folded, fabric)


def test_a_row_before_the_one_that_brings_its_chunk_is_found() -> None:
    fabric = Ring(ranks=4)
    schedule = unbarred(find("ring"), Collective("all-gather", 4, 4e3), fabric, 1, 0)
    with pytest.raises(VerificationError, match="waits for something that does not come before it"):
        verify(schedule.with_columns({"step": schedule.steps - 1 - schedule.step}), fabric)
    with pytest.raises(VerificationError, match="does not end with the complete chunk"):
        verify(schedule.with_columns({name: c[:-1] for name, c in schedule.columns().items()}), fabric)
    doubled = {name: np.append(c, c[-1:]) for name, c in schedule.columns().items()}
    with pytest.raises(VerificationError, match="already held"):
        verify(schedule.with_columns(doubled), fabric)


def test_doubling_needs_its_steps() -> None:
    """Partners swap sums that they go on adding to: no rank has sent all that it holds when it sends."""
    fabric = load_fabric("switch", 4)
    schedule = unbarred(find("recursive-doubling"), Collective("all-reduce", 4, 4e3), fabric, 1, 0)
    with pytest.raises(VerificationError):
        verify(schedule, fabric)


def test_circuits_and_orders_of_steps_stay_as_they_are() -> None:
    collective, light = Collective("all-gather", 4, 4e3), wdm_ring(4, 1)
    steps = find("ring").build(collective, light)
    with pytest.raises(UnsupportedError, match="only packets between ranks"):
        without_barriers(steps, light)
    fabric = Ring(ranks=4)
    steps = find("ring").build(collective, fabric)
    with pytest.raises(UnsupportedError, match="expected steps in order"):
        without_barriers(replace(steps, dependencies=np.zeros((0, 2), np.int64)), fabric)


def test_a_second_piece_hides_the_latency_of_every_hop() -> None:
    """A share of 4 us and 1 us a hop: barriers pay the hop in each of 4 steps, two pieces only in the last."""
    fabric = Ring(ranks=9, bandwidth=1e9, hop_latency=1e-6)
    collective = Collective("all-gather", 9, 36e3)
    steps = find("ring-two-way-striped").build(collective, fabric, striped=True)
    assert cost(steps, fabric).time == pytest.approx(4 * (4e-6 + 1e-6))
    assert cost(without_barriers(steps, fabric), fabric).time == pytest.approx(4 * (4e-6 + 1e-6))
    assert cost(without_barriers(steps, fabric, 2), fabric).time == pytest.approx(4 * 4e-6 + 1e-6)


def test_siblings_of_a_group_share_the_links() -> None:
    """Groups at a stride of 2 around a ring: all of them cross every link, as one schedule of all would say."""
    whole = Torus(ranks=16, bandwidth=1e9, hop_latency=1e-7)
    part = whole.group(4, 1)
    assert part is not None
    schedule = unbarred(find("one-stage"), Collective("all-gather", 4, 4e6), part, 2, 1).unfolded(1)
    verify(schedule, part)
    members = part.siblings()[1]
    rows = {name: np.repeat(column, 4) for name, column in schedule.columns().items()}
    group = np.tile(np.arange(4), len(schedule))
    rows |= {name: members[group, rows[name]] for name in ("source", "destination")}
    rows["chunk"] = rows["chunk"] + group * schedule.chunks
    rows["lightpath"] = rows["lightpath"] + group * (int(schedule.lightpath.max()) + 1)
    everything = Collective("broadcast", 16, 4 * 4e6)  # for its chunks alone: what holds what is not replayed
    joint = schedule.with_columns(rows, chunks=4 * schedule.chunks, collective=everything)
    assert play(schedule, part).seconds == pytest.approx(times_of(joint, whole)[1], rel=1e-12)


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("listed", ["in order", "backwards", "shuffled", "some of them at once"])
def test_links_serve_rows_by_their_steps_however_they_are_listed(listed: str, group: bool) -> None:
    """Of one step, rows and groups go as they are listed; each crosses its path link by link."""
    whole = Torus(ranks=16, bandwidth=1e9, hop_latency=1e-7)
    part = whole.group(4, 1) if group else whole
    assert part is not None
    schedule = unbarred(find("one-stage"), Collective("all-gather", part.ranks, 4e6), part, 2, 1).unfolded(1)
    rows, members, rng = np.arange(len(schedule)), part.siblings()[1], np.random.default_rng(5)
    step = {"in order": rows, "backwards": rows[::-1], "shuffled": rng.permutation(rows)}.get(listed, rows * 7 % 5)
    schedule = schedule.with_columns({"step": step})
    hops, groups = hops_of(schedule, part), len(members) if group else 1
    assert hops.order.tolist() == np.lexsort((hops.row, step[hops.row // groups], hops.link)).tolist()
    assert hops.first.tolist() == (np.diff(hops.row, prepend=-1) > 0).tolist()
    assert hops.last.tolist() == [*hops.first[1:].tolist(), True]
    source, destination, route = (np.repeat(column, groups) for column in schedule.ends(slice(None)))
    if group:
        own = np.tile(np.arange(groups), len(schedule))
        source, destination = members[own, source], members[own, destination]
        route = whole.route(source, destination)
    path = whole.path(source, destination, route)
    assert hops.row.tolist() == np.nonzero(path >= 0)[0].tolist() and hops.link.tolist() == path[path >= 0].tolist()
    latency = whole.latency(source, destination, route)
    assert np.bincount(hops.row, weights=hops.delay) == pytest.approx(latency + hops.busy[hops.last])


@pytest.mark.parametrize("fabric", [Torus(ranks=16, bandwidth=1e9, hop_latency=1e-7), load_fabric("dgx-h100", 16)])
@pytest.mark.parametrize("ranks", [4, 16])
def test_no_queue_is_faster_than_its_busiest_link(fabric: Fabric, ranks: int) -> None:
    """In as many pieces as one likes; the busiest link is that which plain counting of hops finds."""
    part, met = fabric.group(ranks, 1) if ranks < fabric.ranks else fabric, 0
    assert part is not None
    names = "one-stage", "ring-two-way-striped", "ring"
    for name, kind in product(names, ("all-gather", "all-reduce")):
        steps = find(name).schedule(Collective(kind, part.ranks, 4e6), part).unfolded(1)  # type: ignore[arg-type]
        for pieces in (1, 2, 8):
            queue = without_barriers(steps, part, pieces)
            verify(queue, part)
            hops = hops_of(queue, part)
            counted = max(float(hops.busy[hops.link == link].sum()) for link in np.unique(hops.link))
            assert busiest_link(queue, part) == pytest.approx(counted, rel=1e-12)
            assert busiest_link(steps, part) <= counted * (1 + 1e-12)
            seconds = play(queue, part).seconds
            assert busiest_link(steps, part) <= seconds
            met += seconds < 1.05 * busiest_link(steps, part)
    assert met


@pytest.mark.parametrize("ranks", [5, 7])
def test_a_row_that_waits_for_a_copy_of_itself_does_not_stand_for_it(ranks: int) -> None:
    """Of a second hop and the first one of a copy a link serves one before the other, copy after copy."""
    fabric = Torus(ranks=ranks, bandwidth=1e9, hop_latency=1e-7)
    folded = without_barriers(build(find("one-stage"), Collective("all-gather", ranks, 1e6), fabric), fabric)
    assert folded.folding is not None
    assert play(folded, fabric).seconds < 0.6 * play(folded.unfolded(1), fabric).seconds
    with pytest.raises(VerificationError, match=r"^row \d+ waits for a copy of itself on a link: expected the rows"):
        verify(folded, fabric)
    verify(folded.unfolded(1), fabric)
