"""All-gather, reduce-scatter and all-reduce on rings of light: circuits and trees found for this ring and this size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace

from lightloom.collectives.algorithms.one_stage import one_stage
from lightloom.collectives.algorithms.wrht import wrht
from lightloom.collectives.bounds.link_use import joint_seconds
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.wavelengths import ring_all_to_all_wavelengths
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.engine.cache import read_design, write_design
from lightloom.collectives.synthesis.engine.effort import effort
from lightloom.collectives.synthesis.engine.hubs import chord_text
from lightloom.collectives.synthesis.engine.queues import ring_schedule
from lightloom.collectives.synthesis.engine.trees import Design, RingTrees, Timing, make_trees
from lightloom.collectives.synthesis.ring.search import RingSearch
from lightloom.fabrics.base import Fabric

_FEW = 64
"""Ranks up to which sums by groups are tried; they move whole vectors."""


def gather(collective: Collective, fabric: Fabric) -> Schedule:
    """A queued schedule on standing circuits, not yet verified; the three kinds share the design of the all-gather.

    A cached design is used where there is one.
    """
    ranks, channels = fabric.ranks, fabric.usable_channels
    nbytes = max(collective.nbytes_per_rank, 1.0)
    timing = Timing(fabric.channel_bandwidth, fabric.step_overhead, fabric.hop_latency, fabric.piece_overhead)
    hop = fabric.step_overhead + fabric.neighbour_latency()
    bound = joint_seconds(ranks, hop, nbytes / (2 * channels * timing.bandwidth))
    most = effort(ranks)
    reach = ranks if fabric.reach is None else fabric.reach
    request = [ranks, channels, reach, nbytes, *astuple(timing), most]
    design = read_design(request)
    trees = make_trees(design, ranks, channels, nbytes, timing, bound) if design else None
    if design is None or trees is None:
        design, trees = RingSearch(ranks, channels, nbytes, timing, bound, reach).run(most)
        write_design(request, design)
    return ring_schedule(collective, fabric, trees, _note(design, trees, fabric))


def in_few_steps(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Where few ranks share many wavelengths: circuits for all pairs at once, and sums by groups."""
    if fabric.reach is not None and fabric.reach < fabric.diameter():
        return
    if ring_all_to_all_wavelengths(fabric.ranks) <= fabric.usable_channels:
        straight = one_stage(collective, fabric, striped=True)
        yield replace(straight, algorithm="synthesized", notes=("every rank sends straight to every other",))
    if collective.kind == "all-reduce" and fabric.ranks <= _FEW:
        groups = wrht(collective, fabric, striped=True)
        yield replace(groups, algorithm="synthesized", notes=("groups add up in their middle, as WRHT's do",))


def _note(design: Design, trees: RingTrees, fabric: Fabric) -> str:
    chords = [chord_text(level.hubs, level.skips, level.width, fabric.ranks) for level in trees.circuits.levels]
    return f"{'; '.join(chords)}; every share travels in {design.pieces} pieces"
