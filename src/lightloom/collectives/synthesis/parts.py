"""Gather, scatter, permute and all-to-all-v: candidates on circuits and on packet links, the fastest of which is taken.

On circuits: those that even collectives stand on, parts finding their ways over them; circuits straight from rank to
rank; and passing on between neighbours. On packet links: straight sends and passing on, without barriers; and where
links join ranks, parts finding their ways over these, as routes in one order of dimensions do not.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from lightloom.collectives.algorithms.direct import ONE_STAGE
from lightloom.collectives.algorithms.ring import RING_TWO_WAY
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.bounds.one_to_one import Demand
from lightloom.collectives.collective import TO_OR_FROM_ROOT, Collective, Kind
from lightloom.collectives.cost.price import cells_of
from lightloom.collectives.cost.stepped import cost, fastest
from lightloom.collectives.schedule.build import Rows, assemble, without_barriers
from lightloom.collectives.schedule.columns import Schedule, grouped
from lightloom.collectives.synthesis import packet_kernels as kernels
from lightloom.collectives.synthesis.engine.kernels import OrderedRows, seconds_left
from lightloom.collectives.synthesis.engine.queues import turns
from lightloom.collectives.synthesis.engine.standing import StandingCircuits
from lightloom.collectives.synthesis.exchange.search import exchange
from lightloom.collectives.synthesis.grid_links import GridLinks, neighbours_join
from lightloom.collectives.synthesis.packets import listed, rows_of, steps_of
from lightloom.collectives.synthesis.ring.damaged import around_damage
from lightloom.collectives.synthesis.ring.rooted import rooted
from lightloom.collectives.synthesis.switch import on_switch
from lightloom.core.arrays import Floats, Ints, read_only
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric

# Parts that go from one rank to one rank over circuits that stand: ways by price, then a list schedule.
#
# circuits ──► cheapest way of every part ──► busy circuits dearer, ways again ──► list schedule ──► queued schedule
#
# Parts of any size share circuits so that all are busy alike; a circuit sends first what has the longest way left.

_SWEEPS = 6
"""Times that every part chooses its way, all others having chosen."""
_TREES = 1 << 14
"""Trees of ways that are grown in all sweeps together, about."""
_LARGEST_WAY_TABLE = 1 << 25
"""Largest table of parts and the hops of their ways."""
_GOAL = 1.1
"""Times the bound for which circuits may be busy at no great price."""


def _rates(fabric: Fabric, circuits: StandingCircuits) -> Floats:
    """Return the bytes per second of every circuit, all channels that it bundles together, or on packet fabrics of the
    first link of its path: [circuit]."""
    if fabric.exclusive:
        return np.asarray(circuits.width * fabric.channel_bandwidth, np.float64)
    path = fabric.path(circuits.source, circuits.destination, circuits.route)
    return np.asarray(fabric.link_bandwidth()[path[:, 0]])


def over_circuits(
    collective: Collective, fabric: Fabric, circuits: StandingCircuits, pieces: int, *, bound: float, note: str
) -> Schedule:
    """Return a queued schedule named "synthesized" over these circuits, not yet verified, in which every part travels
    in ``pieces`` equal pieces, each a chunk that may take a way of its own.

    Pieces take ways by price, so that busy circuits are avoided, and a circuit sends first what has the longest way
    left. Rows stand in an order in which they can be sent, each numbered as a step of its own.

    Args:
        collective: one whose parts go from one rank to one rank, each of its own size.
        circuits: circuits that stand throughout or, on a packet fabric, links between ranks.
        pieces: pieces of each part.
        bound: seconds that no schedule beats, circuits in place; circuits that would be busy for more than 1.1 times
            as long are dear.
        note: the only note of the schedule; it has none where this is empty.

    Raises:
        UnsupportedError: no way over the circuits leads from where some part begins to where it ends, or only one of
            more hops than a table of 33,554,432 entries has room for, one for each piece and hop.
    """
    demand = Demand(collective)
    piece = np.repeat(np.arange(len(demand.source)), pieces)
    part = piece[np.lexsort((-demand.nbytes[piece], demand.source[piece]))]
    taken, circuits = _ways(demand, part, fabric, circuits, max(bound, 1e-12), pieces)
    number = np.empty(len(part), np.int64)
    number[np.argsort(part, kind="stable")] = np.arange(len(part)) % pieces
    # Hops of a way are listed from its end.
    hops = (taken >= 0).sum(axis=1)
    row_part, place = grouped(hops)
    circuit = taken[row_part, hops[row_part] - 1 - place]
    chunk = (demand.part[part] * pieces + number)[row_part]
    count, stores = len(circuit), np.zeros(len(circuit), np.bool_)
    path = np.unique(circuit, return_inverse=True)[1]
    source, destination, route, channel, width = (column[circuit] for column in circuits.columns)
    sent = Rows(np.arange(count), path, source, destination, route, channel, width, chunk, stores)
    chunks, notes = collective.parts * pieces, (note,) if note else ()
    schedule = assemble("synthesized", collective, fabric, sent, chunks=chunks, steps=count, notes=notes)
    # Rows in an order in which circuits can send them, each after the one before on its way.
    busy = demand.nbytes[part[row_part]] / pieces / _rates(fabric, circuits)[circuit] + fabric.piece_overhead
    latency = fabric.latency(circuits.source, circuits.destination, circuits.route)[circuit]
    seconds = (np.asarray(column, np.float64) for column in (busy, busy + fabric.step_overhead + latency))
    origin, target, held = cells_of(schedule)
    begins, link = np.arange(count + 1), read_only(circuit)
    rows = OrderedRows(origin, target, read_only(stores), begins, link, *seconds)
    turn, _ = turns(rows, held, len(circuits), -seconds_left(rows, len(held)))
    schedule = schedule.with_rows(np.argsort(turn))
    return schedule.with_columns({"step": np.arange(count)}, queued=True)


def _ways(
    demand: Demand, part: Ints, fabric: Fabric, circuits: StandingCircuits, bound: float, pieces: int
) -> tuple[Ints, StandingCircuits]:
    """Return the circuits of each piece's way, [piece, hop], and all circuits ordered by the rank that sends.

    A way is listed from its end, hop 0 being the circuit that reaches the destination, and −1 fills up ways of fewer
    hops; the numbers are those of the circuits that are returned. All pieces choose their ways six times, each by the
    loads of the others; the ways returned are those of the time with the fewest seconds on the busiest circuit, bytes
    over bandwidth.

    Args:
        demand: parts with source, destination and bytes.
        part: index into the arrays of ``demand`` of the part of each piece, ordered by the rank that sends it, its
            largest parts first: [piece].
        circuits: circuits that stand throughout or, on a packet fabric, links between ranks.
        bound: seconds that the collective takes at least, more than 0.
        pieces: pieces into which each part is cut.

    Raises:
        UnsupportedError: no way over the circuits leads from where some part begins to where it ends, or only one of
            more than 33,554,432 / pieces of all parts.
    """
    ranks = fabric.ranks
    circuits = circuits.only(np.argsort(circuits.source, kind="stable"))
    nbytes = np.maximum(demand.nbytes[part] / pieces, 1e-3)
    busy = 1 / _rates(fabric, circuits)
    hop = fabric.step_overhead + fabric.latency(circuits.source, circuits.destination, circuits.route)
    delay = hop + fabric.piece_overhead + busy * nbytes.mean()
    leaving = np.searchsorted(circuits.source, np.arange(ranks + 1))
    links = kernels.Links(leaving, circuits.source, circuits.destination, busy, delay)
    first = np.searchsorted(demand.source[part], np.arange(ranks + 1))
    demands = kernels.Demands(first, demand.destination[part], nbytes)
    most = min(ranks - 1, max(_LARGEST_WAY_TABLE // len(part), 1))
    taken, load = np.full((len(part), most), -1, np.int64), np.zeros(len(circuits))
    batch = max(-(-len(part) * _SWEEPS // _TREES), 1)
    allowed, best, least = _GOAL * bound, taken, np.inf
    for _ in range(_SWEEPS):
        toll = max(float(delay.mean()), 0.1 * bound)
        if not kernels.route(links, demands, allowed, toll, batch, taken, load):
            raise UnsupportedError(f"{len(circuits)} circuits do not join all of {ranks} ranks within {most} hops")
        if load.max() < least:
            best, least = taken.copy(), load.max()
    return best[:, : int((best >= 0).sum(axis=1).max())], circuits


_PIECES = (1, 2, 4, 8)
_LINK_PIECES = (*_PIECES, 16, 32, 64)
"""On links between ranks, where a part that one rank passes on waits for all of a piece."""
_NEAR = 1.02
"""Times the bound, without the set-up in either, at which the search ends."""
_MOST_ROWS = 1 << 19
"""Most rows that are tried, in pieces."""
_MOST_HOPS = 1 << 16
"""Links that all parts cross together, up to which they find their ways over links between ranks."""
_MOST_RANKS = 512
"""Ranks up to which an all-to-all is searched for its circuits."""


def between_ranks(collective: Collective, fabric: Fabric) -> Schedule:
    """Return the fastest gather, scatter, permute, all-to-all or all-to-all-v found, not yet verified.

    Tried are steps of plain algorithms, except on a damaged ring, and parts that find their own ways over standing
    circuits, or on packet fabrics schedules without barriers and parts over links between ranks. Nothing more is tried
    once a schedule takes at most 2 % more than the lower bound, the set-up in neither.

    Raises:
        UnsupportedError: nothing that was tried carries the parts on this fabric.
    """
    bound = lower_bound(collective, fabric).time - fabric.setup_time
    steps = () if fabric.damaged else _in_steps(collective, fabric)
    queues = _over_circuits(collective, fabric) if fabric.exclusive else _over_links(collective, fabric)
    return fastest(chain(steps, queues), fabric, fabric.setup_time + _NEAR * bound)[0]


def _in_steps(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Yield schedules of steps by plain algorithms, named "synthesized" and not yet verified: one-stage striped and
    not, and the striped two-way ring; an algorithm that refuses is left out. The only note of each names its algorithm:
    "steps of ..."."""
    for algorithm in (ONE_STAGE.bundled(), ONE_STAGE, RING_TWO_WAY.bundled()):
        if (schedule := steps_of(algorithm, collective, fabric)) is not None:
            yield replace(schedule, algorithm="synthesized", notes=(f"steps of {algorithm.name}",))


def _over_links(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Yield schedules on packet links, named "synthesized", not yet verified: one stage, then the striped two-way ring,
    without barriers between steps, each once with every chunk in 1, 2, 4 and 8 pieces, and then parts that find their
    own ways, in 1, 2, 4, ... 64 pieces as long as more of them are faster.

    Algorithms that refuse, and schedules of more than 524,288 rows, are left out. Parts find their ways over links
    between ranks where these join all ranks, no other group of ranks shares them (the fabric has no siblings), and the
    shortest ways of all parts cross at most 65,536 links.
    """
    offered = rows_of(ONE_STAGE, collective, fabric, _MOST_ROWS), steps_of(RING_TWO_WAY.bundled(), collective, fabric)
    for steps in offered:
        for pieces in _PIECES:
            if steps is not None and len(steps) * pieces <= _MOST_ROWS:
                yield replace(listed(without_barriers(steps, fabric, pieces, 1), fabric), algorithm="synthesized")
    demand = Demand(collective)
    hops = fabric.hops(demand.source, demand.destination, np.zeros_like(demand.source)).sum()
    if len(fabric.siblings()[1]) == 1 and neighbours_join(fabric) and hops <= _MOST_HOPS:
        # Parts may take the links that join ranks as they take circuits.
        links = GridLinks.of(fabric)
        none = np.zeros(len(links.source), np.int64)
        joining = StandingCircuits(fabric.ranks, links.source, links.destination, links.route, none, none)
        yield from _by_ways(collective, fabric, joining, "links between ranks", _LINK_PIECES)


def _over_circuits(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Yield schedules, not yet verified, of parts over the standing circuits of each schedule that :func:`_carriers`
    yields, those of collectives whose parts are all equal.

    Over each set of circuits the parts travel in 1, 2, 4 and 8 pieces, one schedule each, until one is not faster.
    """
    for carrier in _carriers(collective, fabric):
        # None of the circuits of a carrier ever changes.
        fibres = fabric.fibre_channels
        rows = carrier.standing(fibres) if carrier.queued else carrier.unfolded(fibres)
        channel = rows.fibre.astype(np.int64) * fibres + rows.first_wavelength
        columns = np.stack([*rows.ends(slice(None)), channel, rows.wavelength_count.astype(np.int64)])
        circuits = StandingCircuits(fabric.ranks, *np.unique(columns, axis=1))
        yield from _by_ways(collective, fabric, circuits, carrier.notes[0], _PIECES)


def _by_ways(
    collective: Collective, fabric: Fabric, circuits: StandingCircuits, named: str, tries: tuple[int, ...]
) -> Iterator[Schedule]:
    """Yield schedules, not yet verified, of parts over these circuits, each part in as many pieces as ``tries`` says in
    turn, as long as more pieces are faster: the first that is not is yielded last.

    Nothing is yielded where the circuits do not join the parts' ends, and nothing after a schedule of more than 262,144
    rows. ``named`` names the circuits in the only note, such as "over NAMED, every part in 4 pieces".
    """
    bound, before = lower_bound(collective, fabric).time - fabric.setup_time, float("inf")
    for pieces in tries:
        note = f"over {named}, every part in {pieces} pieces" if pieces > 1 else f"over {named}"
        try:
            schedule = over_circuits(collective, fabric, circuits, pieces, bound=bound, note=note)
        except UnsupportedError:
            break
        yield schedule
        seconds = cost(schedule, fabric).time
        if seconds >= before or len(schedule) * 2 > _MOST_ROWS:
            break
        before = seconds


def _carriers(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Yield schedules of collectives whose parts are all equal, not yet verified, whose circuits never change, so that
    the parts of ``collective`` may take them too; the first of the notes of each names its circuits.

    On a damaged ring it is the all-gather around the damage alone. Otherwise it is the all-gather of the striped
    two-way ring, and what synthesis finds for an all-to-all among at most 512 ranks, or on a ring of wavelengths
    instead for a reduce where ``collective`` is a gather, and for a broadcast where it is a scatter. Of these a
    schedule whose circuits change is left out.

    Raises:
        UnsupportedError: the circuits that damage leaves cannot join all ranks.
    """
    if fabric.damaged:
        around = around_damage(Collective("all-gather", fabric.ranks, collective.nbytes), fabric)
        yield replace(around, notes=("circuits around the damage",))
        return
    steps = steps_of(RING_TWO_WAY.bundled(), Collective("all-gather", fabric.ranks, 1.0), fabric)
    if steps is not None and cost(steps, fabric).static:
        yield replace(steps, notes=("circuits between neighbours alone",))
    kinds: list[Kind] = ["all-to-all"] if fabric.ranks <= _MOST_RANKS else []
    nbytes = max(collective.distinct_nbytes / fabric.ranks, float(fabric.ranks))
    if collective.kind in TO_OR_FROM_ROOT and fabric.wavelength_routed:
        kinds = ["reduce" if collective.kind == "gather" else "broadcast"]
    for kind in kinds:
        search = rooted if kind != "all-to-all" else exchange if fabric.wavelength_routed else on_switch
        schedule = search(Collective(kind, fabric.ranks, nbytes), fabric)
        if schedule.queued or cost(schedule, fabric).static:
            yield replace(schedule, notes=(f"circuits of an even {kind}",))
