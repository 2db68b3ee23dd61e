"""All-gather, reduce-scatter and all-reduce on rings of light: circuits and trees found for this ring and this size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace

import numpy as np

from lightloom.collectives.algorithms.one_stage import one_stage
from lightloom.collectives.algorithms.wrht import wrht
from lightloom.collectives.bounds.link_use import joint_seconds
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.wavelengths import ring_all_to_all, ring_all_to_all_wavelengths
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.engine.cache import read_design, write_design
from lightloom.collectives.synthesis.engine.effort import effort
from lightloom.collectives.synthesis.engine.hubs import chord_text
from lightloom.collectives.synthesis.engine.queues import ring_schedule, tree_schedule
from lightloom.collectives.synthesis.engine.standing import StandingCircuits, gather_over
from lightloom.collectives.synthesis.engine.trees import Design, RingTrees, Timing, make_trees
from lightloom.collectives.synthesis.ring.circulant import SHARE, Circulant, CirculantCircuits, CirculantSearch
from lightloom.collectives.synthesis.ring.search import NEAR, RingSearch
from lightloom.fabrics.base import Fabric

_AT_HUBS = 0.06
"""Of the effort of the search for all-gathers, what that for sums completed at hubs may add."""
_FEW_HOPS = 20
"""Hops' time of an all-gather above which a hop less counts for little."""
_FEW = 64
"""Ranks up to which sums by groups are tried; they move whole vectors."""
_STRAIGHT_PIECES = (1, 4, 16)
"""Of every share that goes straight to all ranks as soon as it is summed up."""
_STRAIGHT_ROWS = 1 << 20
"""Rows above which sums that go straight to their ranks are not cut smaller."""


def gather(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Queued schedules on standing circuits, not yet verified; the three kinds share the designs of the all-gather.

    Cached designs are used where there are any.
    """
    ranks, channels = fabric.ranks, fabric.usable_channels
    nbytes = max(collective.nbytes_per_rank, 1.0)
    timing = Timing(fabric.channel_bandwidth, fabric.step_overhead, fabric.hop_latency, fabric.piece_overhead)
    hop = fabric.step_overhead + fabric.neighbour_latency()
    bound = joint_seconds(ranks, hop, nbytes / (2 * channels * timing.bandwidth))
    most = effort(ranks)
    reach = ranks if fabric.reach is None else fabric.reach
    request = [ranks, channels, reach, nbytes, *astuple(timing), most]
    design, cached = read_design(request) or (None, None)
    trees = make_trees(design, ranks, channels, nbytes, timing, bound) if design else None
    circulant = Circulant(*cached) if cached else None
    search = CirculantSearch(ranks, channels, nbytes, timing, bound, reach)
    if design is None or trees is None:
        design, trees = RingSearch(ranks, channels, nbytes, timing, bound, reach).run(most)
        found = search.run(SHARE * most) if trees.time > NEAR * bound else None
        circulant = found[0] if found and found[1] < trees.time else None
        write_design(request, design, circulant)
    forest = search.forest(circulant) if circulant else None
    circuits = CirculantCircuits.of(ranks, channels, circulant.skips) if circulant else None
    faster = circulant is not None and forest is not None and circuits is not None and forest.time < trees.time
    # What is faster one way need not be where both ways overlap.
    if not faster or collective.kind == "all-reduce":
        yield ring_schedule(collective, fabric, trees, _note(design, trees, fabric))
    least = forest.time if faster and forest else trees.time
    if collective.kind == "all-reduce" and NEAR * bound < least <= _FEW_HOPS * hop:
        # Sums may be completed at any rank, so that hubs save the hops between them and the ranks around.
        at_hubs = RingSearch(ranks, channels, nbytes, timing, bound, reach, known=design).run(int(_AT_HUBS * most))
        if at_hubs[1].time < least:
            yield ring_schedule(
                collective, fabric, at_hubs[1], f"sums are completed at hubs; {_note(*at_hubs, fabric)}"
            )
    if circulant is None or forest is None or circuits is None or not faster:
        return
    lengths = " and ".join(map(str, circulant.skips))
    yield tree_schedule(
        collective,
        fabric,
        circuits.queues(ranks),
        lambda backward: forest,  # noqa: ARG005 - circuits are the same both ways
        lambda queue, _: queue ^ 1,
        pieces=circulant.pieces,
        note=f"chords of {lengths} ranks start at every rank and share wavelengths, {circuits.width[0]} wide; every "
        f"share travels in {circulant.pieces} pieces",
    )


def in_few_steps(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Where few ranks share many wavelengths: circuits for all pairs at once, and sums by groups."""
    if fabric.reach is not None and fabric.reach < fabric.diameter():
        return
    if ring_all_to_all_wavelengths(fabric.ranks) <= fabric.usable_channels:
        straight = one_stage(collective, fabric, striped=True)
        yield replace(straight, algorithm="synthesized", notes=("every rank sends straight to every other",))
        if collective.kind == "all-reduce":
            yield from _straight_sums(collective, fabric)
    if collective.kind == "all-reduce" and fabric.ranks <= _FEW:
        groups = wrht(collective, fabric, striped=True)
        yield replace(groups, algorithm="synthesized", notes=("groups add up in their middle, as WRHT's do",))


def _straight_sums(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Circuits between all pairs that carry sums to the rest while contributions still arrive, nothing set anew."""
    ranks = fabric.ranks
    source, destination, route, colour = ring_all_to_all(ranks)
    width = fabric.usable_channels // ring_all_to_all_wavelengths(ranks)
    circuits = StandingCircuits(ranks, source, destination, route, colour * width, np.full(len(colour), width))
    for pieces in _STRAIGHT_PIECES:
        if pieces == 1 or 2 * pieces * ranks * (ranks - 1) <= _STRAIGHT_ROWS:
            note = f"every rank sends straight to every other, contributions and sums in {pieces} pieces a share"
            yield gather_over(collective, fabric, circuits, pieces, note=note)


def _note(design: Design, trees: RingTrees, fabric: Fabric) -> str:
    chords = [chord_text(level.hubs, level.skips, level.width, fabric.ranks) for level in trees.circuits.levels]
    return f"{'; '.join(chords)}; every share travels in {design.pieces} pieces"
