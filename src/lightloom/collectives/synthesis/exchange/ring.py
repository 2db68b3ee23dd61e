"""All-to-all on a ring of wavelengths: every block straight to its rank where circuits suffice, else over hubs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lightloom.collectives.algorithms.one_stage import one_stage, one_stage_steps
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.engine.effort import scaled
from lightloom.collectives.synthesis.engine.hubs import chord_text
from lightloom.collectives.synthesis.engine.queues import Queues, Rows, queued_schedule
from lightloom.collectives.synthesis.engine.trees import Timing
from lightloom.collectives.synthesis.exchange.circuits import Wiring
from lightloom.collectives.synthesis.exchange.paths import Exchange, Plan, plan
from lightloom.collectives.synthesis.exchange.search import EFFORT, FINAL_TREES, ExchangeSearch
from lightloom.core.effort import Effort
from lightloom.fabrics.base import Fabric

_NEAR, _CLOSE = 1.01, 1.003
"""Times the bound at which straight circuits suffice, and at which blocks are left whole."""
_STEPS = 8
"""In which circuits for all pairs may take turns, as pays where changing them takes no time."""
_PIECES = (2, 4, 8, 16)
_HOPS_OF_PIECES: Effort = 1 << 17
"""Hops of the pieces of one period of ranks above which blocks are not cut."""


def exchange(collective: Collective, fabric: Fabric) -> Schedule:
    """The fastest all-to-all found, not yet verified."""
    straight, ranks, reach = None, fabric.ranks, fabric.reach
    few = one_stage_steps(ranks, fabric.usable_channels) <= _STEPS
    if few and (reach is None or reach >= ranks // 2):
        straight = one_stage(collective, fabric, striped=True)
        straight = replace(straight, algorithm="synthesized", notes=("every rank sends straight to every other",))
        if cost(straight, fabric).time <= _NEAR * lower_bound(collective, fabric).time:
            return straight
    block = max(collective.nbytes / collective.ranks, 1e-3)
    timing = Timing(fabric.channel_bandwidth, fabric.step_overhead, fabric.hop_latency, fabric.piece_overhead)
    bound = max(lower_bound(collective, fabric).time - fabric.setup_time, 1e-12)
    problem = Exchange(ranks, fabric.usable_channels, block, timing, bound, reach)
    wiring, whole = ExchangeSearch(problem).run(scaled(EFFORT))
    pieces, best = _in_pieces(problem, wiring, whole)
    cut = f"; every block travels in {pieces} pieces" if pieces > 1 else ""
    queued = exchange_schedule(collective, fabric, best, _note(wiring, ranks) + cut)
    return queued if straight is None else min(queued, straight, key=lambda schedule: cost(schedule, fabric).time)


def _in_pieces(problem: Exchange, wiring: Wiring, whole: Plan) -> tuple[int, Plan]:
    """Into how many pieces blocks had better be cut, which then wait less for each other, and the plan of these."""
    best = 1, whole
    for pieces in _PIECES:
        if best[1].time <= _CLOSE * problem.bound or pieces * len(whole.path) > _HOPS_OF_PIECES:
            break
        finer = plan(wiring, replace(problem, pieces=pieces), FINAL_TREES)
        if finer is not None and finer.time < best[1].time:
            best = pieces, finer
    return best


def exchange_schedule(collective: Collective, fabric: Fabric, planned: Plan, note: str = "") -> Schedule:
    """The rows of one period of ranks, on circuits that stand throughout."""
    ring, path, ranks = planned.circuits, planned.path, planned.circuits.ranks
    pieces = (len(planned.begin) - 1) // (ring.period * ranks)
    block = np.repeat(np.arange(len(planned.begin) - 1), np.diff(planned.begin))
    place, reader = np.divmod(block, ranks)
    piece, owner = np.divmod(place, ring.period)
    length, start = ring.length[path], ring.start[path]
    passed = np.cumsum(length) - length
    shift = (owner + passed - passed[planned.begin[block]]) % ranks - start
    chunk = ((owner - shift) % ranks * ranks + (reader - shift) % ranks) * pieces + piece
    rows = Rows(
        path.astype(np.int64), start, (start + length) % ranks, chunk, np.zeros(len(path), np.bool_), planned.when
    )
    queues = Queues(ring.channel, ring.width, (ring.length < 0).astype(np.int64))
    return queued_schedule(collective, fabric, queues, [rows], chunks=ranks**2 * pieces, note=note)


def _note(wiring: Wiring, ranks: int) -> str:
    parts = [chord_text(chords.hubs, chords.skips, chords.width, ranks) for chords in wiring.chords]
    if wiring.feeder is not None:
        parts.append(
            f"each of {wiring.hubs} hubs reaches the ranks around it within {wiring.feeder.depth} hops over "
            f"{wiring.feeder.wavelengths} wavelengths"
        )
    return "; ".join(parts)
