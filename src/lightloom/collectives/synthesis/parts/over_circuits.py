"""Parts that go from one rank to one rank over circuits that stand: ways by price, then a list schedule.

    circuits ──► cheapest way of every part ──► busy circuits dearer, ways again ──► list schedule ──► queued schedule

Parts of any size share circuits so that all are busy alike; a circuit sends first what has the longest way left.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.bounds.one_to_one import Demand
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.engine.standing import StandingCircuits
from lightloom.collectives.synthesis.grid.links import GridLinks
from lightloom.core.arrays import Floats, Ints, read_only
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric

_SWEEPS = 6
"""Times that every part chooses its way, all others having chosen."""
_TREES = 1 << 14
"""Trees of ways that are grown in all sweeps together, about."""
_MOST_HOPS = 1 << 25
"""Largest table of parts and the hops of their ways."""
_GOAL = 1.1
"""Times the bound for which circuits may be busy at no great price."""


def standing_of(schedule: Schedule, fabric: Fabric) -> StandingCircuits:
    """The circuits of a schedule none of whose circuits ever change."""
    rows = schedule.standing(fabric.fibre_channels) if schedule.queued else schedule.unfolded(fabric.fibre_channels)
    channel = rows.fibre.astype(np.int64) * fabric.fibre_channels + rows.first_wavelength
    columns = np.stack([*rows.ends(slice(None)), channel, rows.wavelength_count.astype(np.int64)])
    return StandingCircuits(fabric.ranks, *np.unique(columns, axis=1))


def links_of(fabric: Fabric) -> StandingCircuits:
    """The links of a packet fabric that join ranks, which parts may take as they take circuits.

    Raises:
        UnsupportedError: some rank has no neighbour at the other end of a single link.
    """
    links = GridLinks.of(fabric)
    none = np.zeros(len(links.source), np.int64)
    return StandingCircuits(fabric.ranks, links.source, links.destination, links.route, none, none)


def _rates(fabric: Fabric, circuits: StandingCircuits) -> Floats:
    """Bytes per second of every circuit, or link: [circuit]."""
    if fabric.exclusive:
        return np.asarray(circuits.width * fabric.channel_bandwidth, np.float64)
    link = fabric.path(circuits.source, circuits.destination, circuits.route)[:, 0]
    return np.asarray(fabric.link_bandwidth()[link])


def over_circuits(
    collective: Collective, fabric: Fabric, circuits: StandingCircuits, pieces: int, *, bound: float, note: str
) -> Schedule:
    """A queued schedule over these circuits, not yet verified, every part in so many equal pieces.

    Args:
        bound: seconds that no schedule beats, circuits in place.

    Raises:
        UnsupportedError: the circuits join some parts' ends within no or too many hops.
    """
    demand = Demand(collective)
    piece = np.repeat(np.arange(len(demand.source)), pieces)
    order = piece[np.lexsort((-demand.nbytes[piece], demand.source[piece]))]
    taken, part, circuits = _ways(demand, order, fabric, circuits, max(bound, 1e-12), pieces)
    number = np.empty(len(part), np.int64)
    number[np.argsort(part, kind="stable")] = np.arange(len(part)) % pieces
    chunk = demand.part[part] * pieces + number
    # Hops of a way are listed from its end.
    hops = (taken >= 0).sum(axis=1)
    row_part = np.repeat(np.arange(len(part)), hops)
    place = np.arange(len(row_part)) - np.repeat(np.cumsum(hops) - hops, hops)
    circuit = taken[row_part, hops[row_part] - 1 - place]
    nbytes = demand.nbytes[part[row_part]] / pieces
    schedule = _listed(collective, fabric, circuits, circuit, chunk[row_part], nbytes)
    return schedule.with_columns({}, chunks=collective.parts * pieces, notes=(note,) if note else ())


def _ways(
    demand: Demand, part: Ints, fabric: Fabric, circuits: StandingCircuits, bound: float, pieces: int
) -> tuple[Ints, Ints, StandingCircuits]:
    """Circuits of the way of each piece [piece, hop], of which part it is, and the circuits by the rank that sends."""
    from lightloom.collectives.synthesis.parts import _route_kernels as kernels

    ranks = fabric.ranks
    circuits = circuits.only(np.argsort(circuits.source, kind="stable"))
    nbytes = np.maximum(demand.nbytes[part] / pieces, 1e-3)
    busy = 1 / _rates(fabric, circuits)
    hop = fabric.step_overhead + fabric.latency(circuits.source, circuits.destination, circuits.route)
    delay = hop + fabric.piece_overhead + busy * nbytes.mean()
    links = kernels.Links(
        np.searchsorted(circuits.source, np.arange(ranks + 1)), circuits.source, circuits.destination, busy, delay
    )
    first = np.searchsorted(demand.source[part], np.arange(ranks + 1))
    demands = kernels.Demands(first, demand.destination[part], nbytes)
    most = min(ranks - 1, max(_MOST_HOPS // len(part), 1))
    taken, load = np.full((len(part), most), -1, np.int64), np.zeros(len(circuits))
    batch = max(-(-len(part) * _SWEEPS // _TREES), 1)
    allowed, best, least = _GOAL * bound, taken, np.inf
    for _ in range(_SWEEPS):
        toll = max(float(delay.mean()), 0.1 * bound)
        if not kernels.route(links, demands, allowed, toll, batch, taken, load):
            raise UnsupportedError(f"{len(circuits)} circuits do not join all of {ranks} ranks within {most} hops")
        if load.max() < least:
            best, least = taken.copy(), load.max()
    return best[:, : int((best >= 0).sum(axis=1).max())], part, circuits


def _listed(
    collective: Collective, fabric: Fabric, circuits: StandingCircuits, circuit: Ints, chunk: Ints, nbytes: Floats
) -> Schedule:
    """The rows in an order in which circuits can send them, each hop after the one before."""
    from lightloom.collectives.synthesis.packets import _order_kernels as kernels

    source, destination = circuits.source[circuit], circuits.destination[circuit]
    busy = nbytes / _rates(fabric, circuits)[circuit] + fabric.piece_overhead
    latency = fabric.latency(circuits.source, circuits.destination, circuits.route)[circuit]
    delay = busy + fabric.step_overhead + latency
    most = int(chunk.max()) + 1
    cells, number = np.unique(np.concatenate([source * most + chunk, destination * most + chunk]), return_inverse=True)
    origin, target = np.split(number, 2)
    held = np.ones(len(cells), np.bool_)
    held[target] = False
    rows = kernels.OrderedRows(
        origin,
        target,
        read_only(np.zeros(len(circuit), np.bool_)),
        np.arange(len(circuit) + 1),
        read_only(circuit),
        np.asarray(busy, np.float64),
        np.asarray(delay, np.float64),
    )
    ranked = np.lexsort((-kernels.seconds_left(rows, len(cells)), circuit))
    place = np.empty(len(ranked), np.int64)
    place[ranked] = np.arange(len(ranked))
    first = np.searchsorted(circuit[ranked], np.arange(len(circuits) + 1))
    turn = np.empty(len(circuit), np.int64)
    kernels.list_order(rows, kernels.Urgency(first, ranked, place), held, turn)
    order = np.argsort(turn)
    circuit = circuit[order]
    fibre, wavelength = np.divmod(circuits.channel[circuit], fabric.fibre_channels)
    return Schedule(
        algorithm="synthesized",
        collective=collective,
        chunks=most,
        steps=len(order),
        step=np.arange(len(order)),
        lightpath=np.unique(circuit, return_inverse=True)[1],
        source=source[order],
        destination=destination[order],
        route=circuits.route[circuit],
        fibre=fibre,
        first_wavelength=wavelength,
        wavelength_count=circuits.width[circuit],
        chunk=chunk[order],
        reduces=np.zeros(len(order), np.bool_),
        queued=True,
    )
