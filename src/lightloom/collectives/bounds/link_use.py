"""C(N, H) and A(N, H): the fewest links that a byte must use on a ring if nothing goes more than H hops.

    H = 3     ●──────────────────►●─────────►●           a lightpath of length 5 uses five links to serve one rank
              ●─►●◄──┘     ●◄─────┘├─►●   ●◄─┘

C counts the links of a broadcast to N ranks, A those of an all-reduce of one byte. Together with the hops that a time
allows they are joint bounds of bandwidth and latency: in X seconds data makes at most ⌊X/h⌋ hops, h being the least
delay of one, and all links carry at most 2 N w r X bytes.

The optimal trees attach the N − 1 ranks at the smallest of infinitely many costs, and how many of these costs are v
is a coefficient of a power series. Proofs: docs/collectives/bounds.md.
"""

from collections.abc import Callable
from functools import lru_cache
from math import ceil, floor

import numpy as np

from lightloom.collectives.bounds.one_to_one import Demand, rank_seconds
from lightloom.collectives.collective import OF_PARTS, Collective
from lightloom.core.arrays import Effort, Floats
from lightloom.machines.fabrics.fabric import Fabric

_LARGEST_TABLE: Effort = 1 << 18
"""Costs of attachments above which first hops are not told from others."""
_PAID_WITHIN = 1e-10
"""Links within which what a rank pays is found."""
Uses = Callable[[int, int], int]
"""Link uses of one byte among so many ranks within so many hops; never more in more hops, and least from as many hops
as there are ranks on."""


def ring_all_to_all_wavelengths(nodes: int) -> int:
    """Return the fewest wavelengths, each way, for one-stage all-to-all on a ring: ``ceil(floor(n²/4)/2)``.

    OpTree's Lemma 1 prints ``ceil(n²/8)``, which is one more than this for odd n above 1 (n = 5: 4 instead of 3).
    """
    return (nodes * nodes // 4 + 1) // 2


def line_all_to_all_wavelengths(nodes: int) -> int:
    """Return the fewest wavelengths, each way, for one-stage all-to-all on a line: ``floor(n²/4)``.

    Source: OpTree, Lemma 1.
    """
    return nodes * nodes // 4


@lru_cache(maxsize=1 << 12)
def broadcast_uses(ranks: int, hops: int) -> int:
    """Return C(N, H), the fewest link uses of a broadcast on a ring within H = ``hops`` hops to N = ``ranks`` ranks,
    its source included.

    A hop is a lightpath, which uses every link that it passes; ``hops`` is 1 or more. Never below the closed form
    (N − 1) + max(0, N − 1 − 2 H), and equal to it where 2 H (H + 1) ≥ N − 1.
    """
    if 2 * hops * (hops + 1) >= ranks - 1:
        return closed_form(ranks, hops)
    left, uses, cost = ranks - 1, 0, 0
    # Coefficients of ((1 + x) / (1 − x))^hops, which satisfy a recurrence of two terms.
    before, count = 0, 1
    while left > 0:
        cost += 1
        before, count = count, (2 * hops * count + (cost - 2) * before) // cost
        taken = min(left, count)
        left, uses = left - taken, uses + taken * cost
    return uses


def closed_form(ranks: int, hops: int) -> int:
    """Return N − 1 + max(0, N − 1 − 2 H) for N = ``ranks`` and H = ``hops``, the most lightpaths one after the other
    from the source to any rank: link uses of a broadcast on a ring that are never above :func:`broadcast_uses`, one for
    every rank but the source and the excess of reaching both ends of the ring."""
    return ranks - 1 + max(0, ranks - 1 - 2 * hops)


@lru_cache(maxsize=1 << 12)
def all_reduce_uses(ranks: int, hops: int) -> int:
    """Return A(N, H), a lower bound on the link uses of an all-reduce of one byte on a ring of N = ``ranks`` ranks,
    within H = ``hops`` hops.

    Never below 2 C(N, H), nor below 2 (N − 1) + max(0, 2 (N − 1) − 2 (H + 1)). Within one hop every rank hears every
    other directly; within few, ranks on opposite sides of the ring meet at some rank.
    """
    if hops == 1:
        return ranks * broadcast_uses(ranks, 1)
    collecting = np.array([broadcast_uses(ranks, level) for level in range(1, hops + 1)], np.float64)
    return max(int((collecting + _two_phases(ranks, hops)).min()), opposite_uses(ranks, hops))


def opposite_uses(ranks: int, hops: int) -> int:
    """Return a lower bound on the link uses with which every rank hears of the one opposite on the ring within ``hops``
    hops.

    In half of the hops, rounded up, a rank that pays for u links is led at most u + S(u) + S(S(u)) + ... links away, a
    term for each hop (see :func:`_led_away`). The bound is ``ranks`` times the smallest u that leads N // 2 links away,
    rounded up. It is ``ranks`` where half of the hops is N // 2, so that one link for each will do, and 0 where half of
    the hops is more.
    """
    from scipy.optimize import brentq

    half, distance = -(-hops // 2), ranks // 2
    if half >= distance:
        return 0 if half > distance else ranks
    paid = float(brentq(lambda u: _led_away(u, half, distance) - distance, 1.0, float(distance), xtol=_PAID_WITHIN))
    return ceil(ranks * (paid - 2 * _PAID_WITHIN))


def _led_away(paid: float, hops: int, enough: int) -> float:
    """Return u + S(u) + S(S(u)) + ... for u = ``paid``, with ``hops`` terms, which is how far so many links lead; a sum
    that exceeds ``enough`` ends early.

    S(u) = Σ max(0, u − |x|) over whole numbers x, which is the square of u for whole u and linear in between.
    """
    away = 0.0
    for _ in range(hops):
        away += paid
        if away > enough:
            break
        whole = floor(paid)
        paid = whole * whole + (2 * whole + 1) * (paid - whole)
    return away


def _two_phases(ranks: int, hops: int) -> Floats:
    """Return the fewest link uses of a tree that reaches all ranks of a ring within ``hops`` hops, where lightpaths of
    the first p levels cost one more than their lengths, for p = 0 ... ``hops`` − 1: [p]."""
    phases = np.arange(hops, dtype=np.float64)
    left, uses = np.full(hops, float(ranks - 1)), np.zeros(hops)
    whole, first = (0.0, 1.0), (np.zeros(hops), np.ones(hops))
    cost = 0
    while left.any():
        cost += 1
        # Coefficients of U^H − (1 − x) U^p − x, U = (1 + x) / (1 − x). Where they exceed what a float holds exactly
        # they exceed the ranks by far.
        whole = whole[1], (2 * hops * whole[1] + (cost - 2) * whole[0]) / cost
        first = first[1], (2 * phases * first[1] + (cost - 2) * first[0]) / cost
        taken = np.minimum(left, whole[1] - first[1] + first[0] - (cost == 1))
        left, uses = left - taken, uses + taken * cost
    return uses


def joint_seconds(
    ranks: int, hop: float, per_link_use: float, uses: Uses = broadcast_uses, more_uses: int = 0
) -> float:
    """Return the least X, in seconds, with X ≥ hop + (uses(``ranks``, ⌊X/hop⌋) + ``more_uses``) · ``per_link_use``.

    Hops count up to ``ranks`` − 1, from where on uses are the fewest; a ``hop`` of 0 seconds leaves time for as many.

    Args:
        hop: least seconds from a lightpath's first bit sent to it received.
        per_link_use: seconds in which all links of the ring together carry every byte of the collective over one link.
        uses: function of ranks and hops that counts the link uses of a byte: :func:`broadcast_uses` or
            :func:`all_reduce_uses`.
        more_uses: link uses of a byte to add at any number of hops.
    """
    return _joint(ranks, hop, per_link_use, uses, more_uses)[0]


def _joint(ranks: int, hop: float, per_link_use: float, uses: Uses, more_uses: int) -> tuple[float, int]:
    """Return the least X, in seconds, with X ≥ hop + (uses(``ranks``, ⌊X/hop⌋) + ``more_uses``) · ``per_link_use``, and
    the number of hops that it allows, 1 to ``ranks`` − 1.

    Arguments are as :func:`joint_seconds` says: seconds of a hop, seconds in which all links carry all bytes over one
    link, a function that counts the link uses of a byte, and uses to add.
    """
    most = max(1, ranks - 1)
    if hop <= 0:
        return (uses(ranks, most) + more_uses) * per_link_use, most
    return _least_seconds(lambda hops: hop + (uses(ranks, hops) + more_uses) * per_link_use, hop, 1, most)


def _least_seconds(seconds: Callable[[int], float], hop: float, fewest: int, most: int) -> tuple[float, int]:
    """Return the least X, in seconds, with X ≥ ``seconds``(⌊X/hop⌋), and its number of hops, ``fewest`` to ``most``.

    X is at least as long as the hops that are returned take.

    Args:
        seconds: function of a number of hops that returns the seconds needed, which fall as hops grow.
        hop: seconds of one hop.
        fewest, most: least and largest number of hops that is looked at.
    """
    # The time that links need falls with the hops, and the time that hops take rises.
    too_few, enough = fewest - 1, fewest
    while enough < most and seconds(enough) >= (enough + 1) * hop:
        too_few, enough = enough, min(2 * enough, most)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if seconds(middle) < (middle + 1) * hop:
            enough = middle
        else:
            too_few = middle
    return max(enough * hop, seconds(enough)), enough


def slotted_seconds(ranks: int, hop: float, per_link_use: float) -> float:
    """Return a lower bound in seconds of what :func:`joint_seconds` bounds with :func:`broadcast_uses`, where moreover
    links carry in every slot of one hop's length only what there is time for.

    All slots but the last are equally long, so that one price, that of a link in the last slot, decides. The bound is
    never less than that of :func:`joint_seconds`, and equal to it where the slots before the last one suffice.

    Args:
        hop: least seconds from a lightpath's first bit sent to it received.
        per_link_use: seconds in which all links of the ring together carry every byte of the collective over one link.
    """
    seconds, hops = _joint(ranks, hop, per_link_use, broadcast_uses, 0)
    if hop <= 0 or hops == 1 or seconds >= (hops + 1) * hop or per_link_use <= 0:
        return seconds
    last = _least_in_last_slot(ranks, hops, (hops - 1) * hop / per_link_use)
    return max(seconds, hops * hop + last * per_link_use)


def relayed_seconds(ranks: int, hop: float, per_link_use: float, first_uses: float) -> float:
    """Return a lower bound X, in seconds, of an all-gather on a ring whose circuits stand: the least X with
    X ≥ 2 ``hop`` + u · ``per_link_use``, as what first hops do not reach is relayed between ``hop`` and X − ``hop``.

    u is a lower bound on the link uses of a byte after its first hop, if it makes at most ⌊X / ``hop``⌋ hops, counted
    from 2 to ``ranks`` − 1. Zero where first hops may reach all ranks, or ``hop`` or ``per_link_use`` is zero.

    Args:
        hop: least seconds from a lightpath's first bit sent to it received.
        per_link_use: seconds in which all links of the ring together carry every byte of the collective over one link.
        first_uses: most link uses of a byte in its first hop, the links of all circuits that stand over the number of
            ranks: it passes a circuit once.
    """
    if hop <= 0 or per_link_use <= 0 or broadcast_uses(ranks, 1) <= first_uses:
        return 0.0
    return _least_seconds(
        lambda hops: 2 * hop + _relayed_uses(ranks, hops, first_uses) * per_link_use, hop, 2, max(2, ranks - 1)
    )[0]


def _least_in_last_slot(ranks: int, hops: int, capacity: float) -> float:
    """Return the fewest link uses, on average, of a byte of a broadcast in the last of ``hops`` slots of one hop's
    length, where at most ``capacity`` link uses of a byte are in all slots before together.

    The average is over bytes, of which some may take one tree and some another. 0 where the slots before suffice, or
    where even the tree that uses them least needs more than there is in them.
    """
    few, many = _cheapest(ranks, hops, 1.0), (float(broadcast_uses(ranks, hops - 1)), 0.0)
    if few[0] > capacity or many[0] <= capacity:
        return 0.0
    few, many = _segment(ranks, hops, few, many, lambda corner: corner[0] <= capacity)
    return few[1] - (capacity - few[0]) * (few[1] - many[1]) / (many[0] - few[0])


@lru_cache(maxsize=1 << 12)
def _relayed_uses(ranks: int, hops: int, first_uses: float) -> float:
    """Return a lower bound on the link uses of a byte of an all-gather on a ring after its first hop, within ``hops``
    hops, 2 or more, where at most ``first_uses`` are in the first; bytes may take different trees.

    Where tables would be too large, the bound is that of :func:`broadcast_uses` less ``first_uses``, as it is where the
    tree with fewest uses has no more than ``first_uses`` in its first hop.
    """
    if len(_coefficients(hops - 1, ranks - 1)) * len(_coefficients(hops, ranks - 1)) > _LARGEST_TABLE:
        return broadcast_uses(ranks, hops) - first_uses
    few = _cheapest(ranks, hops, 1.0)
    if few[1] <= first_uses:
        return few[0] + few[1] - first_uses
    many = (float(broadcast_uses(ranks, hops - 1)), 0.0)
    few, many = _segment(ranks, hops, few, many, lambda corner: corner[1] >= first_uses)
    return few[0] + (few[1] - first_uses) * (many[0] - few[0]) / (few[1] - many[1])


_Point = tuple[float, float]
"""Link uses in all levels of a tree but one, and those in that one."""


def _segment(
    ranks: int, hops: int, few: _Point, many: _Point, is_before: Callable[[_Point], bool]
) -> tuple[_Point, _Point]:
    """Return two neighbouring corners of the convex frontier of link uses, between ``few`` and ``many``, for the first
    of which ``is_before`` holds, and for the second not.

    A corner is the link uses of a tree within ``hops`` hops to ``ranks`` ranks of a ring in all levels but one, and
    those in that one level. The first corner uses more links in the one level than the second, as ``few`` does than
    ``many``; ``is_before`` must hold for ``few`` and not for ``many``.
    """
    while True:
        price = (many[0] - few[0]) / (few[1] - many[1])
        corner = _cheapest(ranks, hops, price)
        if corner[0] + price * corner[1] >= (few[0] + price * few[1]) * (1 - 1e-12):
            return few, many
        few, many = (corner, many) if is_before(corner) else (few, corner)


def _cheapest(ranks: int, hops: int, price: float) -> _Point:
    """Return the link uses of the tree within ``hops`` hops that is cheapest where a link of one level costs ``price``
    ≥ 1, and of all others 1: those in all other levels, and those in that level."""
    others, one, count = _costs(ranks, hops)
    # Equal costs keep their order, in which those with fewer other links come first.
    order = np.argsort(others + price * one, kind="stable")
    before = np.cumsum(count[order]) - count[order]
    taken = np.clip(ranks - 1 - before, 0, count[order])
    return float(taken @ others[order]), float(taken @ one[order])


@lru_cache(maxsize=64)
def _costs(ranks: int, hops: int) -> tuple[Floats, Floats, Floats]:
    """Return the costs at which ranks attach to a tree within ``hops`` hops: links in all levels but one, links in that
    one, and how many attachments there are at this cost, [cost] each.

    The root's own entry is left out; costs come by the first number, then by the second, and go as far as ``ranks``
    ranks need.
    """
    others = _coefficients(hops - 1, ranks - 1)
    one = np.full(len(_coefficients(hops, ranks - 1)), 2.0)
    one[0] = 1.0
    i, k = np.indices((len(others), len(one))).reshape(2, -1)[:, 1:]
    return i.astype(np.float64), k.astype(np.float64), others[i] * one[k]


def _coefficients(hops: int, ranks: int) -> Floats:
    """Return coefficients of ((1 + x) / (1 − x))^hops, from that of x⁰ to the first at which they add up to more than
    ``ranks``: [power]. ``hops`` is 1 or more unless ``ranks`` is 0."""
    found, total = [0.0, 1.0], 1.0
    while total <= ranks:
        cost = len(found) - 1
        found.append((2 * hops * found[-1] + (cost - 2) * found[-2]) / cost)
        total += found[-1]
    return np.array(found[1:])


# Circuits that stand: with D of them a rank, no more than D + D² + ... + D^k ranks lie within k hops of any.
#
# Ranks that hear of each other only over many circuits cannot do so early, and blocks of an all-to-all use as many
# circuits as they pass. Proofs: docs/collectives/bounds.md.


def ranks_by_hops(ranks: int, degree: int) -> list[int]:
    """Return the most ranks that can lie exactly 1, 2, ... hops from a rank, over D = ``degree`` circuits a rank: D,
    D², ..., and last what is left of ``ranks`` − 1, which they add up to; none for one rank."""
    numbers: list[int] = []
    left, most = ranks - 1, degree
    while left > 0:
        numbers.append(min(left, most))
        left -= numbers[-1]
        most *= degree
    return numbers


def degree_seconds(collective: Collective, fabric: Fabric) -> float:
    """Return the seconds from dark circuits that no schedule beats on a switch where every rank holds
    ``fabric.channels`` circuits.

    That is the first set-up and one conversion, and then the less of two times: of one set of circuits that serves all,
    over which data has its hops to go; and of circuits that are set at least twice, the larger of another set-up and of
    one hop's delay with what the rank that needs longest takes to receive (or send) its bytes.
    """
    if collective.kind in OF_PARTS:
        demand = Demand(collective)
        standing = standing_seconds(demand, fabric)
        receiving = max(seconds for seconds, _ in rank_seconds(demand, fabric)) + fabric.neighbour_latency()
    else:
        standing, receiving = _standing_seconds(collective, fabric), _receiving_seconds(collective, fabric)
    return fabric.setup_time + fabric.step_overhead + min(standing, max(fabric.setup_time, receiving))


def _receiving_seconds(collective: Collective, fabric: Fabric) -> float:
    """Return the seconds that receiving takes at least on a circuit switch: nothing arrives in one hop's delay, then as
    fast as a rank receives on all its circuits.

    That is ``nbytes`` in a broadcast or a reduce, the shares of all other ranks twice in an all-reduce, and once in any
    other kind.
    """
    if collective.kind in ("broadcast", "reduce"):
        return fabric.neighbour_latency() + collective.nbytes / (fabric.channels * fabric.channel_bandwidth)
    times = 2 if collective.kind == "all-reduce" else 1
    return fabric.neighbour_latency() + times * (collective.ranks - 1) * _share_seconds(collective, fabric)


def _share_seconds(collective: Collective, fabric: Fabric) -> float:
    """Return the seconds in which a rank of a circuit switch receives one rank's share, ``nbytes_per_rank``, on all its
    circuits at once."""
    return collective.nbytes_per_rank / (fabric.channels * fabric.channel_bandwidth)


def _standing_seconds(collective: Collective, fabric: Fabric) -> float:
    """Return the seconds that no schedule on circuits of a switch set once beats, set-up and the first conversion left
    out.

    The larger of the hops to the farthest rank and of carrying: in an all-to-all all blocks on each of their hops; in
    an all-gather or reduce-scatter, after k hops' delay, the shares of all ranks that lie farther away; else what each
    rank receives. With D circuits a rank at most D ranks lie one hop away, D² two, and so on.
    """
    hop = fabric.neighbour_latency()
    onward = hop + fabric.step_overhead
    at_distance = ranks_by_hops(collective.ranks, fabric.channels)
    last = hop + (len(at_distance) - 1) * onward
    share = _share_seconds(collective, fabric)
    if collective.kind == "all-to-all":
        return max(last, hop + sum((k + 1) * number for k, number in enumerate(at_distance)) * share)
    if collective.kind in ("all-reduce", "broadcast", "reduce", "reduce-scatter-v"):
        return max(last, _receiving_seconds(collective, fabric))
    least, beyond = 0.0, collective.ranks - 1
    for k, number in enumerate(at_distance):
        least = max(least, hop + k * onward + beyond * share)
        beyond -= number
    return least


def hops_needed(demand: Demand, degree: int) -> int:
    """Return the fewest hops within which the rank with most peers may reach them all, over circuits that stand,
    ``degree``, 1 or more, to and from each rank; some part makes as many at least. ``demand`` must have a part."""
    return len(ranks_by_hops(demand.peers + 1, degree))


def standing_seconds(demand: Demand, fabric: Fabric) -> float:
    """Return the seconds that parts from rank to rank take at least over circuits of a switch that are set once.

    The largest of: hops to the peer that lies farthest at best; bytes times hops over all circuits; and, for each
    number of hops, the bytes of one rank that go farther, after the delay of these hops. The first set-up and one
    conversion are left out.
    """
    degree, hop = fabric.channels, fabric.neighbour_latency()
    onward = hop + fabric.step_overhead
    at_distance = ranks_by_hops(demand.ranks, degree)
    beyond = np.cumsum([0, *at_distance])
    rate = degree * fabric.channel_bandwidth
    least = hop + (hops_needed(demand, degree) - 1) * onward
    for (order, place), rank in zip(demand.by_size, (demand.source, demand.destination), strict=True):
        # The largest parts of a rank are at best those of its nearest peers.
        hops = np.searchsorted(beyond, place, side="right")
        nbytes = demand.nbytes[order]
        least = max(least, hop + float(nbytes @ hops) / (demand.ranks * rate))
        for k in range(len(at_distance)):
            far = np.bincount(rank[order], nbytes * (hops > k), demand.ranks)
            if far.any():
                least = max(least, hop + k * onward + float(far.max()) / rate)
    return least
