"""Numbers that no schedule can beat, each with the resource that sets it. Proofs: docs/collectives.md.

With M bytes held in the end, N ranks and d = M / N:

* cut: across a cut with k ranks inside, all-gather must bring in (N − k)·d, all-reduce M, reduce-scatter must let out
  (N − k)·d, all-to-all both k·(N − k)·d; M leaves the side with the root in a broadcast, and enters it in a reduce;
* receptions: a sum over N ranks needs N − 1 arrivals before some rank completes it and N − 1 after, so an all-reduce
  without in-network reduction takes 2(N − 1)·M bytes of receptions, out of what all ranks together can receive; an
  all-to-all takes N(N − 1)·d;
* hops: on a ring of wavelengths whose lightpaths serve one rank each, time allows only so many hops, and few hops need
  long lightpaths (:mod:`lightloom.collectives.link_use`); the blocks of an all-to-all have their distance to go anyway;
* distance: nothing arrives before the nearest rank's signal does, and the farthest ranks must hear of each other;
* circuits: from dark fibres the first set-up and one conversion are always paid.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.collectives.link_use import joint_seconds
from lightloom.collectives.price import CostModel
from lightloom.collectives.spec import ROOTED, Collective
from lightloom.fabrics.base import Fabric

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Bound:
    """A proved lower bound on the time of one run, seconds, and the resource that sets it."""

    time: float
    bound_by: str


def lower_bound(collective: Collective, fabric: Fabric, model: CostModel = "physical") -> Bound:
    """The largest of the bounds that hold under this cost model."""
    moving, resource = max(_bandwidth_bounds(collective, fabric))
    fixed = fabric.setup_time + fabric.step_overhead
    if model == "paper" and fabric.exclusive:
        return Bound(fixed + moving, resource)
    arriving = fabric.neighbour_latency() + moving
    if fabric.wavelength_routed and fabric.taps == 1:
        hopping = _hop_bound(collective, fabric) - fabric.step_overhead
        if hopping > arriving * (1 + _ROUNDING):
            arriving, resource = hopping, "the links that so few hops must use"
    crossing = fabric.diameter_latency()
    if crossing > arriving:
        return Bound(fixed + crossing, "the distance between the farthest ranks")
    if fixed > arriving:
        return Bound(fixed + arriving, "the first set-up of circuits")
    return Bound(fixed + arriving, resource)


def _hop_bound(collective: Collective, fabric: Fabric) -> float:
    """Seconds, circuits in place, that data on a ring needs for its hops and its use of links."""
    ranks, share = collective.ranks, collective.nbytes / collective.ranks
    hop = fabric.step_overhead + fabric.neighbour_latency()
    per_use = share / (2 * fabric.channels * fabric.channel_bandwidth)
    if collective.kind == "all-to-all":
        return hop + ranks * ranks // 4 * per_use
    if collective.kind == "all-reduce":
        return joint_seconds(ranks, hop, per_use, more_uses=ranks - 1)
    return joint_seconds(ranks, hop, per_use)


def _bandwidth_bounds(collective: Collective, fabric: Fabric) -> list[tuple[float, str]]:
    n, nbytes = collective.ranks, collective.nbytes
    bounds = [(_crossing(collective, cut.ranks) / cut.capacity, cut.name) for cut in fabric.cuts()]
    received = {"all-reduce": 2 * (n - 1) * nbytes, "all-to-all": (n - 1) * nbytes}.get(collective.kind)
    if received is not None and not fabric.in_network_reduction:
        bounds.append((received / fabric.total_receive_bandwidth(), "what all ranks together can receive"))
    return bounds


def _crossing(collective: Collective, inside: int) -> float:
    """Bytes that must cross a cut with so many ranks inside, one way."""
    if collective.kind == "all-reduce" or collective.kind in ROOTED:
        return collective.nbytes
    outside = collective.nbytes * (collective.ranks - inside) / collective.ranks
    return outside * inside if collective.kind == "all-to-all" else outside
