"""Numbers that no schedule can beat, each with the resource that sets it. Proofs: docs/collectives/bounds.md.

With M bytes held in the end, N ranks and d = M / N:

* cut: across a cut with k ranks inside, all-gather must bring in (N − k)·d, all-reduce M, reduce-scatter must let out
  (N − k)·d, all-to-all both k·(N − k)·d; M leaves the side with the root in a broadcast, and enters it in a reduce;
* domains: m sets of ranks, each with a cut of its own, together take in 2(m − 1)·M bytes of an all-reduce without
  in-network reduction;
* receptions: a sum over N ranks needs N − 1 arrivals before some rank completes it and N − 1 after, so an all-reduce
  without in-network reduction takes 2(N − 1)·M bytes of receptions, out of what all ranks together can receive; all
  other kinds (N − 1)·M. Where a domain's switches add, only cuts and domains bind;
* rings of wavelengths: hops and links bind together, and so do hops and the number of circuits
  (:mod:`lightloom.collectives.bounds.ring`);
* circuit switches: with D circuits a rank, only so many ranks lie within so many hops
  (:mod:`lightloom.collectives.bounds.link_use`);
* distance: nothing arrives before the nearest rank's signal does, and the farthest ranks must hear of each other, or
  the farthest one of the root;
* circuits: from dark fibres the first set-up and one conversion are always paid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lightloom.collectives.bounds.link_use import degree_seconds
from lightloom.collectives.bounds.one_to_one import Demand, distance_seconds, rank_seconds
from lightloom.collectives.bounds.ring import ring_bounds
from lightloom.collectives.collective import (
    NOT_ALL_PAIRS,
    OF_PARTS,
    ROOTED,
    TO_OR_FROM_ROOT,
    Collective,
)
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.core.results import Result
from lightloom.core.units import format_time
from lightloom.machines.fabrics.fabric import Fabric

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, repr=False)
class Bound(Result):
    """A proved lower bound on the time of one run, seconds, and the resource that sets it."""

    time: float
    bound_by: str

    def ratio(self, cost: Cost) -> float | None:
        """Return the time of a run over the bound, the first set-up in both; None where the bound is zero."""
        return cost.time / self.time if self.time else None

    def repeated_ratio(self, cost: Cost) -> float | None:
        """Return time over bound without the first set-up in either, as for a run that finds its circuits in place.

        None where nothing is set up, where circuits change from step to step, and where nothing else is left.
        """
        if not (cost.static and cost.setup) or self.time <= cost.setup * (1 + _ROUNDING):
            return None
        return cost.repeated_time / (self.time - cost.setup)

    def summary(self) -> str:
        return f"at least {format_time(self.time)}, set by {self.bound_by}"

    def to_json(self) -> dict[str, Any]:
        return {"lower_bound_s": self.time, "bound_by": self.bound_by}


def lower_bound(
    collective: Collective, fabric: Fabric, model: CostModel = "physical", *, switches_add: bool = False
) -> Bound:
    """Return the largest of the bounds that hold under this cost model.

    With ``switches_add`` they hold where the switches of domains add what enters them, as schedules of ours do not.
    """
    if collective.kind == "barrier":
        # Every rank hears of every other, as in an all-gather of no bytes.
        return lower_bound(collective.of_kind("all-gather"), fabric, model)
    moving, resource = max(_bandwidth_bounds(collective, fabric, switches_add=switches_add))
    fixed = fabric.setup_time + fabric.step_overhead
    if model == "paper" and fabric.exclusive:
        return Bound(fixed + moving, resource)
    bounds = [
        (fabric.neighbour_latency() + moving, resource),
        _farthest(collective, fabric),
    ]
    if fabric.wavelength_routed:
        bounds += [(seconds - fabric.step_overhead, name) for seconds, name in ring_bounds(collective, fabric)]
    elif fabric.exclusive:
        seconds = degree_seconds(collective, fabric) - fixed
        bounds.append((seconds, f"the hops between ranks with {fabric.channels} circuits each"))
    arriving, resource = _largest(bounds)
    return Bound(fixed + arriving, "the first set-up of circuits" if fixed > arriving else resource)


def _farthest(collective: Collective, fabric: Fabric) -> tuple[float, str]:
    """Return the seconds in which signals of some rank reach the farthest one that must hear of it, relayed or not."""
    if collective.kind in (*ROOTED, *TO_OR_FROM_ROOT):
        to_root = collective.rule.after == "root"
        ends = "from the farthest rank to the root" if to_root else "from the root to the farthest rank"
        return fabric.root_latency(to_root=to_root), f"the distance {ends}"
    if collective.kind not in NOT_ALL_PAIRS:
        return fabric.diameter_latency(), "the distance between the farthest ranks"
    seconds = distance_seconds(Demand(collective), fabric)[0] if fabric.routes == 2 else fabric.neighbour_latency()
    return seconds, "the distance between the farthest ranks that exchange something"


def bandwidth_bound(collective: Collective, fabric: Fabric) -> float:
    """Return the seconds that the bytes alone take at least, which grow with the size of the collective."""
    return max(_bandwidth_bounds(collective, fabric, switches_add=False))[0]


def _largest(bounds: list[tuple[float, str]]) -> tuple[float, str]:
    """Return the largest bound; of those that are equal but for rounding the first."""
    largest = bounds[0]
    for bound in bounds[1:]:
        if bound[0] > largest[0] * (1 + _ROUNDING):
            largest = bound
    return largest


def _bandwidth_bounds(collective: Collective, fabric: Fabric, *, switches_add: bool) -> list[tuple[float, str]]:
    n, nbytes = collective.ranks, collective.nbytes
    if collective.kind in OF_PARTS:
        return rank_seconds(Demand(collective), fabric)
    bounds = []
    if collective.kind == "reduce-scatter-v":
        bounds += _owner_seconds(collective, fabric)
    # Failures make ranks unequal, and the cut that is worst may not be one that the root's data must cross.
    if fabric.blocked() is None or collective.kind not in ROOTED:
        bounds += [(_crossing(collective, cut.ranks) / cut.capacity, cut.name) for cut in fabric.cuts()]
    if not fabric.in_network_reduction and collective.kind == "all-reduce":
        bounds += _across_domains(nbytes, fabric)
    if not fabric.in_network_reduction and not switches_add:
        received = (2 if collective.kind == "all-reduce" else 1) * (n - 1) * nbytes
        bounds.append((received / fabric.total_receive_bandwidth(), "what all ranks together can receive"))
    return bounds


def _owner_seconds(collective: Collective, fabric: Fabric) -> list[tuple[float, str]]:
    """Return the seconds in which ranks send the parts of all others, and receive their own."""
    assert collective.sizes is not None
    own = collective.nbytes * collective.sizes.share
    receive, send = fabric.rank_bandwidths()
    into, out = own / receive, (collective.nbytes - own) / send
    return [
        (float(into.max()), f"what rank {into.argmax()} must receive"),
        (float(out.max()), f"what rank {out.argmax()} must send"),
    ]


def _across_domains(nbytes: float, fabric: Fabric) -> list[tuple[float, str]]:
    """Return the seconds in which all domains together take in an all-reduce, a domain's ranks counting as one."""
    return [
        (2 * (cut.sets - 1) * nbytes / (cut.sets * cut.capacity), f"{cut.name}, of all {cut.sets} together")
        for cut in fabric.cuts()
        if cut.sets > 1
    ]


def _crossing(collective: Collective, inside: int) -> float:
    """Return the bytes that must cross a cut with so many ranks inside, one way."""
    if collective.kind == "all-reduce" or collective.kind in ROOTED:
        return collective.nbytes
    outside = collective.nbytes * (collective.ranks - inside) / collective.ranks
    if collective.sizes is not None:
        # Whichever ranks are inside, what lies outside is no less than this.
        outside = collective.nbytes * float(np.sort(collective.sizes.share)[: collective.ranks - inside].sum())
    return outside * inside if collective.kind == "all-to-all" else outside
