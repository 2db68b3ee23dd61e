"""The best multicast design for a ring: candidates in the order of their estimate, then random steps from the best.

Deterministic: the effort is counted in receptions scheduled, not in seconds, and the steps are seeded.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import nsmallest

import numpy as np

from lightloom.collectives.synthesis.engine.trees import RingTrees, Timing
from lightloom.collectives.synthesis.multicast.candidates import MulticastCandidate, multicast_candidates
from lightloom.collectives.synthesis.multicast.trees import Arc, MulticastDesign, make_multicast_trees
from lightloom.collectives.synthesis.ring.candidates import hub_counts

_NEAR = 1.01
"""Times the bound at which a search is content."""
_KEPT = 8
"""Designs that random steps start from."""
_PIECES = (1, 2, 3, 4, 6, 8, 12, 16)
_SLACKS = (1.1, 1.35, 1.7, 2.2, 3.0)
_SHARE = 0.3
"""Of the effort, for candidates in the order of their estimates."""
_QUICK = 0.1
"""Of a hop, in which a piece is sent."""
_QUICK_PART = 0.004
"""Of the effort, for a candidate in many pieces."""
_LARGEST_PART = 0.02
"""Of the effort, that one design may take."""
_OVERHEAD = 1500
"""Receptions that would take as long to schedule as the rest of trying a design."""
_LARGEST_TABLE = 1 << 22
"""Receptions of one design above which it is not tried."""
_MOST_MISSES = 20_000
_MOST_ARCS = 5


class MulticastSearch:
    """Designs tried for one all-gather on one ring."""

    def __init__(
        self, ranks: int, channels: int, taps: int, reach: int | None, nbytes: float, timing: Timing, *, bound: float
    ) -> None:
        """Args:
        channels: wavelengths each way.
        taps: most ranks that a lightpath may reach.
        reach: most links that it may pass, or None.
        nbytes: of one rank's share.
        bound: seconds that no schedule beats, circuits in place.
        """
        self._ranks, self._channels, self._limits = ranks, channels, (taps, reach)
        self._nbytes, self._timing, self._bound = nbytes, timing, bound
        self._spent = 0
        self._tried: dict[MulticastDesign, float] = {}
        self._best: tuple[float, MulticastDesign] | None = None
        self._leading: dict[tuple[tuple[int, int], ...], MulticastDesign] = {}

    def run(self, effort: int) -> tuple[MulticastDesign, RingTrees]:
        """The best design found, and its trees; ``effort`` counts receptions scheduled."""
        channels, (taps, reach) = self._channels, self._limits
        most = min(taps, self._ranks - 1)
        for pieces in _PIECES:
            for near in sorted({1, *(count for count in (2, 4, 5, 8, most) if count <= most)}):
                alone = Arc(self._ranks, 1, near, 1)
                width = channels // alone.level(self._ranks).colours
                self._try(MulticastDesign((alone._replace(width=width),), pieces))
        if not self._content():
            self._sweep(multicast_candidates(self._ranks, channels, taps, reach, self._nbytes, self._timing), effort)
        self._walk(effort)
        assert self._best is not None
        trees = make_multicast_trees(self._best[1], self._ranks, self._nbytes, self._timing, self._bound)
        assert trees is not None
        return self._best[1], trees

    def _sweep(self, candidates: list[MulticastCandidate], effort: int) -> None:
        """Candidates in the order of their estimates, with the same effort for each period of their trees."""
        classes: dict[int, list[MulticastDesign]] = {}
        for candidate in candidates:
            classes.setdefault(candidate.design.period(self._ranks), []).append(candidate.design)
        for designs in classes.values():
            until = self._spent + _SHARE * effort / len(classes)
            for design in designs:
                if self._content() or self._spent > until:
                    break
                self._try(replace(design, pieces=self._pieces(design, effort)))

    def _pieces(self, design: MulticastDesign, effort: int) -> int:
        """So many that a piece is sent in a fraction of a hop, as long paths pay that at every hop, if not too dear."""
        sending = self._nbytes / (min(arc.width for arc in design.arcs) * self._timing.bandwidth)
        most = _QUICK_PART * effort / self._cost(design)
        quick = next((pieces for pieces in _PIECES if sending <= pieces * _QUICK * self._timing.hop), _PIECES[-1])
        return max(pieces for pieces in _PIECES if pieces == 1 or (pieces <= quick and pieces <= most))

    def _content(self) -> bool:
        return self._best is not None and self._best[0] <= _NEAR * self._bound

    def _try(self, design: MulticastDesign) -> None:
        if design in self._tried:
            return
        self._tried[design] = np.inf
        cost = self._cost(design) if self._fits(design) else _LARGEST_TABLE
        if cost >= _LARGEST_TABLE:
            return
        self._spent += cost + _OVERHEAD
        trees = make_multicast_trees(design, self._ranks, self._nbytes, self._timing, self._bound)
        if trees is not None:
            self._tried[design] = trees.time
            shape = tuple((arc.hubs, arc.spacing) for arc in design.arcs)
            if shape not in self._leading or trees.time < self._tried[self._leading[shape]]:
                self._leading[shape] = design
            if self._best is None or trees.time < self._best[0]:
                self._best = trees.time, design

    def _cost(self, design: MulticastDesign) -> int:
        return design.period(self._ranks) * self._ranks * design.pieces

    def _fits(self, design: MulticastDesign) -> bool:
        return design.sound(self._ranks, *self._limits) and design.wavelengths(self._ranks) <= self._channels

    def _walk(self, effort: int) -> None:
        rng = np.random.default_rng(0)
        misses = 0
        while self._spent < effort and not self._content() and misses < _MOST_MISSES:
            # The best of each shape, since the best of all are all alike.
            leaders = nsmallest(_KEPT, self._leading.values(), key=lambda tried: self._tried[tried])
            design = self._step(leaders[min(int(rng.exponential(1.5)), len(leaders) - 1)], rng)
            if rng.random() < 0.3 and design is not None:
                design = self._step(design, rng)
            if design is None or design in self._tried or self._cost(design) > _LARGEST_PART * effort:
                misses += 1
                continue
            self._try(design)

    def _step(self, design: MulticastDesign, rng: np.random.Generator) -> MulticastDesign | None:
        """A design near this one; None where the step leads nowhere."""
        arcs, kind = list(design.arcs), int(rng.integers(0, 10))
        at = int(rng.integers(0, len(arcs)))
        if kind == 0:
            return replace(design, pieces=int(rng.choice(_PIECES)))
        if kind == 1:
            return replace(design, slack=float(rng.choice(_SLACKS)))
        if kind == 2 and len(arcs) > 1:
            half = -(-self._ranks // 2 // arcs[-1].links)
            longest = (design.longest or half) + int(rng.choice((-3, -2, -1, 1, 2, 3)))
            return replace(design, longest=None if longest >= half else max(1, longest))
        if kind == 3 and len(arcs) > 1:
            tail = self._ranks / 2 - (design.longest or 0) * arcs[-1].links
            return replace(design, walk=max(0, int(rng.choice((0, 0.25, 0.5, 0.75, 1.0)) * tail)))
        if kind == 4 and len(arcs) < _MOST_ARCS:
            arcs.append(self._arc(rng))
        elif kind == 5 and at:
            del arcs[at]
        else:
            arcs[at] = self._changed(arcs[at], base=at == 0, rng=rng)
        arcs[1:] = sorted(arcs[1:], key=lambda arc: (arc.links, -arc.hubs))
        return self._filled(replace(design, arcs=tuple(arcs)), rng)

    def _filled(self, design: MulticastDesign, rng: np.random.Generator) -> MulticastDesign | None:
        """With wavelengths taken from, or given to, other levels until the fibre is just filled."""
        if not design.sound(self._ranks, *self._limits):
            return None
        arcs = list(design.arcs)
        colours = [arc.level(self._ranks).colours for arc in arcs]
        left = self._channels - sum(c * arc.width for c, arc in zip(colours, arcs, strict=True))
        while left < 0:
            wide = [i for i, arc in enumerate(arcs) if arc.width > 1]
            if not wide:
                return None
            at = wide[int(rng.integers(0, len(wide)))]
            arcs[at], left = arcs[at]._replace(width=arcs[at].width - 1), left + colours[at]
        while fitting := [i for i, colour in enumerate(colours) if colour <= left]:
            at = fitting[int(rng.integers(0, len(fitting)))]
            more = max(1, left // colours[at] // 2)
            arcs[at], left = arcs[at]._replace(width=arcs[at].width + more), left - more * colours[at]
        return replace(design, arcs=tuple(arcs))

    def _changed(self, arc: Arc, *, base: bool, rng: np.random.Generator) -> Arc:
        most = self._limits[0]
        kind = int(rng.integers(0, 2 if base else 6))
        if kind == 0:
            return arc._replace(width=max(1, arc.width + int(rng.choice((-2, -1, 1, 2)))))
        if kind == 1:
            taps = int(np.clip(arc.taps + rng.choice((-2, -1, 1, 2)), 1, most))
            return arc._replace(taps=taps, between=min(arc.between, most // taps - 1))
        if kind == 2:
            return arc._replace(hubs=int(rng.choice(hub_counts(self._ranks))))
        stride = max(1, self._ranks // arc.hubs)
        if kind == 3:
            return arc._replace(spacing=max(1, arc.spacing + stride * int(rng.choice((-1, 1)))))
        if kind == 4:
            return arc._replace(between=int(rng.integers(0, most // arc.taps)))
        factor = float(rng.choice((0.5, 2.0)))
        spacing, taps = max(1, round(arc.spacing * factor)), int(np.clip(round(arc.taps / factor), 1, most))
        return arc._replace(spacing=spacing, taps=taps, between=min(spacing, most // taps) - 1)

    def _arc(self, rng: np.random.Generator) -> Arc:
        """Any lightpath, as like as not with a tap at every rank."""
        hubs = int(rng.choice(hub_counts(self._ranks)))
        stride = max(1, self._ranks // hubs)
        taps = int(rng.integers(1, self._limits[0] + 1))
        if rng.random() < 0.4:
            return Arc(hubs, 1, taps, 1)
        spacing = stride * int(rng.integers(1, max(2, self._ranks // 2 // (stride * taps) + 1)))
        return Arc(hubs, spacing, taps, 1, min(self._limits[0] // taps, spacing) - 1)
