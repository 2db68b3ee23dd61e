"""Numbers that no schedule can beat, each with the resource that sets it. Proofs: docs/collectives/bounds.md.

With M bytes held in the end, N ranks and d = M / N:

* cut: across a cut with k ranks inside, all-gather must bring in (N − k)·d, all-reduce M, reduce-scatter must let out
  (N − k)·d, all-to-all both k·(N − k)·d; M leaves the side with the root in a broadcast, and enters it in a reduce;
* domains: m sets of ranks, each with a cut of its own, together take in 2(m − 1)·M bytes of an all-reduce without
  in-network reduction;
* receptions: a sum over N ranks needs N − 1 arrivals before some rank completes it and N − 1 after, so an all-reduce
  without in-network reduction takes 2(N − 1)·M bytes of receptions, out of what all ranks together can receive; all
  other kinds (N − 1)·M. Where a domain's switches add, only cuts and domains bind;
* rings of wavelengths: hops and links bind together, and so do hops and the number of circuits (:func:`ring_bounds`);
* circuit switches: with D circuits a rank, only so many ranks lie within so many hops
  (:mod:`lightloom.collectives.bounds.link_use`);
* distance: nothing arrives before the nearest rank's signal does, and the farthest ranks must hear of each other, or
  the farthest one of the root;
* circuits: from dark fibres the first set-up and one conversion are always paid.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from lightloom.collectives.bounds import link_use
from lightloom.collectives.bounds.one_to_one import Demand, distance_seconds, end_seconds, link_seconds, rank_seconds
from lightloom.collectives.bounds.priced import blocks_in_two_hops, ends_seconds, priced_seconds, two_hops_join
from lightloom.collectives.bounds.rooted import broadcast_seconds, standing_broadcast_seconds
from lightloom.collectives.collective import NOT_ALL_PAIRS, OF_PARTS, ROOTED, TO_OR_FROM_ROOT, Collective
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
        """Return the bound, its time with four significant digits, and what sets it, in words: "at least 12 µs, set by
        what all ranks together can receive"."""
        return f"at least {format_time(self.time)}, set by {self.bound_by}"

    def to_json(self) -> dict[str, Any]:
        """Return the time as ``lower_bound_s`` and what sets it as ``bound_by``."""
        return {"lower_bound_s": self.time, "bound_by": self.bound_by}


def lower_bound(
    collective: Collective,
    fabric: Fabric,
    model: CostModel = "physical",
    *,
    switches_add: bool = False,
    quick: bool = False,
) -> Bound:
    """Return the largest of the bounds that hold under this cost model.

    Its time is in seconds from dark fibres (the first set-up of circuits and one conversion are included), and what
    sets it is the first set-up where that, with the conversion, takes longer than all else. In the paper model circuits
    are bound by their bytes, one set-up and one conversion alone, and packets as in the physical one; a barrier is
    bound as an all-gather without bytes.

    Args:
        switches_add: the bound must also hold where the switches of domains add what enters them, as schedules of this
            package do not.
        quick: leave out the one bound that may take a second to find (:func:`priced_seconds`).
    """
    if collective.kind == "barrier":
        # Every rank hears of every other, as in an all-gather of no bytes.
        return lower_bound(collective.of_kind("all-gather"), fabric, model, quick=quick)
    moving, resource = max(_bandwidth_bounds(collective, fabric, switches_add=switches_add))
    fixed = fabric.setup_time + fabric.step_overhead
    if model == "paper" and fabric.exclusive:
        return Bound(fixed + moving, resource)
    bounds = [(fabric.neighbour_latency() + moving, resource), _farthest(collective, fabric)]
    if fabric.wavelength_routed:
        on_ring = ring_bounds(collective, fabric, quick=quick)
        bounds += [(seconds - fabric.step_overhead, name) for seconds, name in on_ring]
    elif fabric.exclusive:
        seconds = link_use.degree_seconds(collective, fabric) - fixed
        bounds.append((seconds, f"the hops between ranks with {fabric.channels} circuits each"))
    arriving, resource = _largest(bounds)
    return Bound(fixed + arriving, "the first set-up of circuits" if fixed > arriving else resource)


def _farthest(collective: Collective, fabric: Fabric) -> tuple[float, str]:
    """Return the seconds in which signals of some rank reach the farthest one that must hear of it, relayed or not, and
    the name of that distance, as "the distance between the farthest ranks".

    From or to the root in a kind that has one; else over all pairs of ranks or, where a kind's parts go between some of
    them only, over these on a ring, and elsewhere the least latency between two ranks. Conversion is not included.
    """
    if collective.kind in (*ROOTED, *TO_OR_FROM_ROOT):
        to_root = collective.rule.after == "root"
        ends = "from the farthest rank to the root" if to_root else "from the root to the farthest rank"
        return fabric.root_latency(to_root=to_root), f"the distance {ends}"
    if collective.kind not in NOT_ALL_PAIRS:
        return fabric.diameter_latency(), "the distance between the farthest ranks"
    seconds = distance_seconds(Demand(collective), fabric)[0] if fabric.routes == 2 else fabric.neighbour_latency()
    return seconds, "the distance between the farthest ranks that exchange something"


def bandwidth_bound(collective: Collective, fabric: Fabric) -> float:
    """Return the seconds that the bytes alone take at least on the resource that needs longest, in proportion to the
    size of the collective: without latencies, conversion and set-up. Switches of domains are taken not to add."""
    return max(_bandwidth_bounds(collective, fabric, switches_add=False))[0]


def _largest(bounds: list[tuple[float, str]]) -> tuple[float, str]:
    """Return the bound, seconds and name, with the most seconds; of those that are equal but for rounding the first."""
    return reduce(lambda largest, bound: bound if bound[0] > largest[0] * (1 + _ROUNDING) else largest, bounds)


def _bandwidth_bounds(collective: Collective, fabric: Fabric, *, switches_add: bool) -> list[tuple[float, str]]:
    """Return pairs of the seconds that bytes alone take at least on a resource that may bind, and its name.

    Resources are cuts (in an all-reduce, unless the fabric adds, also all equal domains of a cut together), what all
    ranks together receive (unless the fabric or, as ``switches_add`` says, the switches of domains add), and where
    parts differ single ranks; for a gather, a scatter or parts between pairs of ranks no cuts, but single ranks, all
    together, and arcs of a ring. Cuts are left out for a broadcast or a reduce where something has failed. Latencies,
    conversion and set-up are left out.
    """
    n, nbytes = collective.ranks, collective.nbytes
    if collective.kind in OF_PARTS:
        return rank_seconds(Demand(collective), fabric)
    bounds = []
    if collective.kind == "reduce-scatter-v":
        assert collective.sizes is not None
        own = nbytes * collective.sizes.share
        bounds += end_seconds(own, nbytes - own, fabric)
    # Failures make ranks unequal, and the cut that is worst may not be one that the root's data must cross.
    if fabric.blocked() is None or collective.kind not in ROOTED:
        bounds += [(_crossing(collective, cut.ranks) / cut.capacity, cut.name) for cut in fabric.cuts()]
    if not fabric.in_network_reduction and collective.kind == "all-reduce":
        # All domains together, a domain's ranks counting as one.
        bounds += [
            (2 * (cut.sets - 1) * nbytes / (cut.sets * cut.capacity), f"{cut.name}, of all {cut.sets} together")
            for cut in fabric.cuts()
            if cut.sets > 1
        ]
    if not adds(fabric) and not switches_add:
        received = (2 if collective.kind == "all-reduce" else 1) * (n - 1) * nbytes
        bounds.append((received / fabric.total_receive_bandwidth(), "what all ranks together can receive"))
    return bounds


def _crossing(collective: Collective, inside: int) -> float:
    """Return the bytes that must cross a cut with ``inside`` ranks inside, one way.

    All bytes of an all-reduce, a broadcast or a reduce; else the shares of the ranks outside (the smallest ones where
    they differ), in an all-to-all times the ranks inside.
    """
    if collective.kind == "all-reduce" or collective.kind in ROOTED:
        return collective.nbytes
    outside = collective.nbytes * (collective.ranks - inside) / collective.ranks
    if collective.sizes is not None:
        # Whichever ranks are inside, what lies outside is no less than this.
        outside = collective.nbytes * float(np.sort(collective.sizes.share)[: collective.ranks - inside].sum())
    return outside * inside if collective.kind == "all-to-all" else outside


# Rings of wavelengths: few hops need long lightpaths, and only so many lightpaths leave a rank or half the ring.
#
# Seconds count from standing circuits on; circuits that change on the way only add. Proofs: docs/collectives/bounds.md.


def ring_bounds(collective: Collective, fabric: Fabric, *, quick: bool = False) -> list[tuple[float, str]]:
    """Return the lower bounds of a collective on a ring of wavelengths, from standing circuits on: (seconds, what sets
    it) each, as (2e-6, "2 hops on circuits that stand, or circuits set twice").

    The conversion of the first hop is included, the first set-up is not. With ``quick`` :func:`priced_seconds` is left
    out.
    """
    hop = _hop_seconds(fabric)
    if collective.kind in OF_PARTS:
        return _bounds_of_parts(Demand(collective), fabric)
    hops = _standing_hops(collective, fabric)
    bounds = [
        (_link_and_hop_seconds(collective, fabric), "the links that so few hops must use"),
        (min(hops * hop, fabric.setup_time + hop), f"{hops} hops on circuits that stand, or circuits set twice"),
    ]
    if collective.kind in ("all-gather", "reduce-scatter") and fabric.taps == 1:
        bounds += _relay_bounds(collective, fabric, max(bounds)[0], quick=quick)
    if collective.kind == "all-to-all":
        bounds += _all_to_all_bounds(collective, fabric, hops)
    if collective.kind in ROOTED and not _tapped(collective, fabric):
        direction_seconds = collective.nbytes / (fabric.channels * fabric.channel_bandwidth)
        seconds = broadcast_seconds(collective.ranks, hop, direction_seconds)
        bounds.append((seconds, "the links around the root and few hops together"))
        least = max(bounds)[0]
        standing = standing_broadcast_seconds(collective.ranks, hop, direction_seconds, least, fabric.setup_time + hop)
        if standing > least:
            bounds.append((standing, "standing circuits and what the root sends together"))
    if fabric.reach is not None:
        # At the least half the ring away lies some rank even from a root, whatever has failed.
        hops = -(-(fabric.ranks // 2) // fabric.reach)
        bounds.append((hops * hop, f"{hops} hops, as light reaches {fabric.reach} links"))
    return bounds


def _relay_bounds(collective: Collective, fabric: Fabric, least: float, *, quick: bool) -> list[tuple[float, str]]:
    """Return the two bounds of an all-gather or a reduce-scatter on a ring by what standing circuits can do, with
    ``quick`` the first alone: (seconds, what sets it) each.

    The first is that of :func:`relayed_seconds`, at most a set-up and a hop, as circuits may be set anew on the way.
    The second is that of :func:`priced_seconds`, from the larger of ``least``, the seconds that other bounds prove, and
    the first one on; prices raise it to two set-ups and a hop at most.
    """
    ranks, hop, twice = collective.ranks, _hop_seconds(fabric), fabric.setup_time + _hop_seconds(fabric)
    per_use = collective.nbytes / float(fabric.link_bandwidth().sum())
    relayed = min(link_use.relayed_seconds(ranks, hop, per_use, 2 * fabric.channels), twice)
    bounds = [(relayed, "what standing circuits relay in few hops")]
    if not quick:
        share = collective.nbytes_per_rank / fabric.channel_bandwidth
        priced = priced_seconds(ranks, hop, share, fabric.channels, max(least, relayed), fabric.setup_time)
        bounds.append((priced, "standing circuits that serve first hops and later ones"))
    return bounds


def _all_to_all_bounds(collective: Collective, fabric: Fabric, hops: int) -> list[tuple[float, str]]:
    """Return the one or two bounds of an all-to-all on a ring, some of whose blocks make at least ``hops`` hops on
    standing circuits: (seconds, what sets it) each.

    The first is that of blocks of ``hops`` hops that cross from one half of the ring to the other in the time left
    after their hops. Where light cannot be tapped a second follows: for more than two hops by the standing circuits
    that first and last hops leave idle, for two hops by the ranks that join pairs (three hops' time at most). None is
    more than a set-up and a hop, which circuits take that are set a second time on the way.
    """
    ranks, hop, twice = collective.ranks, _hop_seconds(fabric), fabric.setup_time + _hop_seconds(fabric)
    seconds = _crossing_seconds(collective, fabric, hops)
    bounds = [(min(seconds, twice), f"blocks of {hops} hops that cross the ring in the time left")]
    block = collective.nbytes / ranks / fabric.channel_bandwidth
    if fabric.taps == 1 and hops > 2:
        seconds = ends_seconds(ranks, hop, block, fabric.channels)
        bounds.append((min(seconds, twice), "standing circuits that first hops and last ones leave idle"))
    if fabric.taps == 1 and hops == 2:
        seconds = 2 * hop + blocks_in_two_hops(ranks, fabric.channels) * block
        bounds.append((min(seconds, 3 * hop, twice), "two hops over ranks that join many pairs"))
    return bounds


def _bounds_of_parts(demand: Demand, fabric: Fabric) -> list[tuple[float, str]]:
    """Return the bounds, on a ring of wavelengths from standing circuits on, of a collective whose parts go from rank
    to rank: (seconds, what sets it) each.

    The links that parts pass at least; hops on standing circuits, or a set-up and a hop if that is less; and, where
    reach is limited, the hops of the part that passes most links.
    """
    hop = _hop_seconds(fabric)
    hops = link_use.hops_needed(demand, _circuit_ends(fabric) * fabric.taps)
    bounds = [
        (hop + link_seconds(demand, fabric), "the links that the parts must pass"),
        (min(hops * hop, fabric.setup_time + hop), f"{hops} hops on circuits that stand, or circuits set twice"),
    ]
    if fabric.reach is not None:
        hops = -(-distance_seconds(demand, fabric)[1] // fabric.reach)
        bounds.append((hops * hop, f"{hops} hops, as light reaches {fabric.reach} links"))
    return bounds


def _circuit_ends(fabric: Fabric) -> int:
    """Return how many circuits can begin, or end, at one rank: its channels both ways, or its transmitters if fewer."""
    ends = 2 * fabric.channels
    return ends if fabric.transmitters is None else min(ends, fabric.transmitters)


def _hop_seconds(fabric: Fabric) -> float:
    """Return the least seconds from the first bit that a lightpath sends to its reception: one conversion (the fabric's
    overhead of a step) and the least latency between two ranks."""
    return fabric.step_overhead + fabric.neighbour_latency()


def _tapped(collective: Collective, fabric: Fabric) -> bool:
    """Return True where light that several ranks tap may reach them all in one hop: in all-gathers and broadcasts, as
    sums and blocks cannot be tapped."""
    return fabric.taps > 1 and collective.kind in ("all-gather", "broadcast")


def _link_and_hop_seconds(collective: Collective, fabric: Fabric) -> float:
    """Return the least X such that, on a ring, one hop and all link uses of data that makes ⌊X / hop⌋ hops take no more
    than X.

    Where fewer hops need more link uses it is :func:`slotted_seconds`, or :func:`joint_seconds` for an all-reduce. The
    uses of an all-to-all, and of an all-gather or broadcast whose light is tapped, do not depend on the hops, so that
    it is one hop and the seconds of the uses. An all-reduce whose light is tapped uses as many links as a broadcast
    that is not, and one for every other rank.
    """
    ranks, kind, hop = collective.ranks, collective.kind, _hop_seconds(fabric)
    per_use = collective.nbytes / float(fabric.link_bandwidth().sum())
    if kind == "all-to-all":
        return hop + ranks * ranks // 4 * per_use
    # That tapped light uses no link twice bounds nothing new.
    if _tapped(collective, fabric):
        return hop + (ranks - 1) * per_use
    if kind == "all-reduce" and fabric.taps > 1:
        return link_use.joint_seconds(ranks, hop, per_use, more_uses=ranks - 1)
    if kind == "all-reduce":
        return link_use.joint_seconds(ranks, hop, per_use, link_use.all_reduce_uses)
    return link_use.slotted_seconds(ranks, hop, per_use)


def _standing_hops(collective: Collective, fabric: Fabric) -> int:
    """Return the hops that some data makes at least if circuits are set once.

    On rings of wavelengths; tapped light counts as a circuit to each rank that may tap it.
    """
    ranks, ends = collective.ranks, _circuit_ends(fabric)
    hops = len(link_use.ranks_by_hops(ranks, ends * fabric.taps))
    if collective.kind in ROOTED:
        # Within two hops lightpaths from the root leave room for so many others on the links that they pass.
        crowded = fabric.taps == 1 and ranks - 1 > 3 * fabric.channels * (fabric.channels + 1)
        return max(hops, 3) if crowded else hops
    while _pairs_joined(fabric, hops) < (ranks // 2) * -(-ranks // 2):
        hops += 1
    if fabric.taps > 1 or (hops == 1 and link_use.ring_all_to_all_wavelengths(ranks) <= fabric.channels):
        return hops
    return max(hops, 2 if two_hops_join(ranks, fabric.channels, ends) else 3)


def _pairs_joined(fabric: Fabric, hops: int) -> int:
    """Return the most pairs of a rank of one half of the ring and a rank of the other that the circuits between the two
    halves may join within ``hops`` hops: an upper bound, which may exceed the number of such pairs; 0 for no hop."""
    ranks, degree = fabric.ranks, _circuit_ends(fabric) * fabric.taps
    exactly: list[int] = [degree**k for k in range(hops)]
    pairs = sum(min(ranks, exactly[k]) * min(ranks, sum(exactly[: hops - k])) for k in range(hops))
    return 2 * fabric.channels * fabric.taps * pairs


def _crossing_seconds(collective: Collective, fabric: Fabric, hops: int) -> float:
    """Return a lower bound in seconds of an all-to-all on a ring whose blocks make at least ``hops`` hops on standing
    circuits, save for as many as fewer hops may join.

    It is ``hops`` hops and the seconds in which all channels between the two halves of the ring carry the blocks that
    cross, over ``hops``, as blocks may cross in any of them; at most ``hops`` + 1 hops.
    """
    ranks, hop = collective.ranks, _hop_seconds(fabric)
    crossing = max(0, (ranks // 2) * -(-ranks // 2) - _pairs_joined(fabric, hops - 1)) * collective.nbytes / ranks
    left = crossing / (2 * fabric.channels * fabric.channel_bandwidth * hops)
    return min(hops * hop + left, (hops + 1) * hop)


def adds(fabric: Fabric) -> bool:
    """Return True where a fabric, or a fabric that is part of it at any depth, reduces in its network."""
    return fabric.in_network_reduction or any(adds(part) for part in fabric.parts)
