"""Cost of one run of a collective, the figures that layers above ask for; and that of queued schedules.

Every row of a queued schedule is sent as soon as its lightpath is free and its data is there. A chunk holds its
lightpath for its bytes over the bundled bandwidth, and the fabric's overhead of a piece; it arrives a conversion and
the propagation later, while the lightpath serves the next one. Ranks that tap the lightpath receive it from one
transmission. Circuits are set up once.

On packet fabrics links take the place of lightpaths, and a row that crosses several is a transmission on each
(:func:`hops_of`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from lightloom.collectives.collective import ONE_TO_ONE
from lightloom.collectives.cost import kernels
from lightloom.collectives.schedule.build import distinct_transfers
from lightloom.collectives.schedule.columns import Folding, Schedule, grouped, run_begins, sorted_by
from lightloom.core.arrays import Effort, Floats, Ints, Mask, read_only
from lightloom.core.errors import UnknownNameError
from lightloom.core.results import Result
from lightloom.core.units import format_energy, format_time
from lightloom.machines.fabrics.fabric import Fabric

CostModel = Literal["paper", "physical"]
"""Every step costs d/B + a, or circuits change when they have to; see :mod:`lightloom.collectives.cost.stepped`."""
COST_MODELS: tuple[str, ...] = get_args(CostModel)


def known_cost_model(name: str) -> CostModel:
    """Return ``name`` if it is that of a cost model, "paper" or "physical".

    Raises:
        UnknownNameError: no such cost model.
    """
    if name not in COST_MODELS:
        raise UnknownNameError("cost model", str(name), COST_MODELS)
    return cast(CostModel, name)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cost(Result):
    """Time and energy of one run of a schedule.

    ``time = transmission + conversion + reconfiguration + encode + decode``; ``setup`` is the part of
    ``reconfiguration`` that the first step pays. When ``static`` holds, the schedule needs no other circuits than
    those, so a run that finds them in place (the same collective again, at any size) pays no reconfiguration at all.
    """

    steps: int
    time: float
    """Seconds, from dark fibres."""
    transmission: float
    """Seconds of bits on links, or through codecs in line with them where those are slower, and of propagation."""
    conversion: float
    """Seconds of conversion between light and electrons."""
    reconfiguration: float
    """Seconds of changing circuits, first set-up included."""
    setup: float
    """Seconds of the first set-up."""
    static: bool
    """True where one set of circuits serves every step."""
    energy: float | None
    """Joules of transmission; None when the fabric's energy per bit has no source."""
    encode: float = 0.0
    """Seconds of compressing between hops, which nothing else of the collective overlaps."""
    decode: float = 0.0
    """Seconds of decompressing between hops."""

    @property
    def repeated_time(self) -> float:
        """Seconds of a run after the first: without the set-up where circuits stay in place, else the same time."""
        return self.time - self.setup if self.static else self.time

    def summary(self) -> str:
        """Return one line: the time, the steps, the seconds that are not 0 by cause (transmission, conversion,
        reconfiguration, and codec for encoding and decoding together; "nothing to send" where all are 0), and the
        energy ("not sourced" for None), such as "1.2 µs in 3 steps (1 µs transmission, 200 ns conversion); energy 4
        µJ"."""
        parts = {name: getattr(self, name) for name in ("transmission", "conversion", "reconfiguration")}
        parts["codec"] = self.encode + self.decode
        spent = ", ".join(f"{format_time(seconds)} {name}" for name, seconds in parts.items() if seconds)
        steps, energy = "1 step" if self.steps == 1 else f"{self.steps} steps", format_energy(self.energy)
        return f"{format_time(self.time)} in {steps} ({spent or 'nothing to send'}); energy {energy}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name: seconds of ``time``, ``transmission``, ``conversion``, ``reconfiguration``,
        ``setup``, ``encode`` and ``decode`` as ``NAME_s``, energy as ``energy_j`` (None if unknown), and ``steps``.

        ``static`` is named ``static_circuits``.
        """
        names = {"steps": "steps", "static": "static_circuits", "energy": "energy_j"}
        return {names.get(name, f"{name}_s"): value for name, value in asdict(self).items()}


# Queued rows on packet fabrics as transmissions, each over one link.
#
# A link serves the rows that cross it in the order of their steps, those of one step as they are listed. A row begins
# when its source holds what it sends and the first link of its path is free; further on, its bits leave a switch when
# the link is free, and so late that the link need not wait for the rest of them:
#
# first link     ████████                 the second is as fast: begins a latency later
# second link       ████████
# faster link           ██████            ends a latency later than the one before
#
# So links are never used twice at once, a chunk never leaves before it arrived, and switches hold what waits.

_BLOCK: Effort = 1 << 16
"""Transfers of all copies whose links are looked up at once."""


class Hops(NamedTuple):
    """Links that rows cross, those of a row one after the other: arrays [hop]."""

    row: Ints
    link: Ints
    """Link that the hop crosses; in a folded schedule that of the first copy of the row."""
    busy: Floats
    """Seconds for which a chunk holds the link."""
    delay: Floats
    """Seconds after its beginning at which the chunk may begin on the next link, or has arrived."""
    first: Mask
    """True for the first hop of a row."""
    last: Mask
    """True for the last hop of a row."""
    order: Ints
    """Hops by link, those of a link in the order in which it serves them."""


def hops_of(schedule: Schedule, fabric: Fabric) -> Hops:
    """Return the hops of all rows of a queued schedule on packet links: the link of each, the seconds that a chunk
    holds it and those until it may begin on the next, or, after the last, has arrived, and the order in which links
    serve hops: arrays [hop], the hops of a row one after the other.

    On the fabric of a group of ranks, they include the hops of the sibling groups, which run the same schedule beside
    it: row r of group g then has number r · groups + g.
    """
    transfer, first_hop, link, busy, delay = _transfer_hops(schedule, fabric)
    count = np.diff(first_hop)[transfer]
    row, passed = grouped(count)
    hop = first_hop[transfer][row] + passed
    first, last = passed == 0, passed == count[row] - 1
    link = link[hop]
    if (schedule.step[1:] >= schedule.step[:-1]).all():
        order = sorted_by(link)
    else:
        groups = len(transfer) // len(schedule)
        place = np.empty(len(transfer), np.int64)
        place[np.argsort(np.repeat(schedule.step, groups), kind="stable")] = np.arange(len(transfer))
        order = sorted_by(place[row], link)
    return Hops(row, link, busy[hop], delay[hop], first, last, order)


def busiest_link(schedule: Schedule, fabric: Fabric) -> float:
    """Return the seconds for which the rows of a schedule hold one packet link together, of the link that they hold
    longest: what the schedule takes at least, whatever the order of its rows and their pieces. On the fabric of a group
    of ranks its sibling groups run the same schedule beside it."""
    transfer, first_hop, link, busy, _ = _transfer_hops(_beside_siblings(schedule, fabric), fabric)
    rows = np.bincount(transfer, minlength=len(first_hop) - 1)
    return float(np.bincount(link, weights=busy * np.repeat(rows, np.diff(first_hop))).max(initial=0.0))


def _beside_siblings(schedule: Schedule, fabric: Fabric) -> Schedule:
    """Return the schedule with the rows of all copies where sibling groups share the fabric's links, as copies then do
    not use them alike; else the schedule."""
    return schedule.unfolded(1) if len(fabric.siblings()[1]) > 1 else schedule


def _transfer_hops(schedule: Schedule, fabric: Fabric) -> tuple[Ints, Ints, Ints, Floats, Floats]:
    """Return the transfers of a schedule on packet links, one for all rows of equal ends and bytes, and their hops one
    after the other (:func:`_paths`); those of sibling groups of the fabric's ranks are included.

    Returns:
        The transfer of each row, those of all sibling groups one after the other, [row · groups]; the first hop of each
        transfer, [transfer + 1]; and link, seconds held and seconds until the next of each hop, [hop].
    """
    whole, members = fabric.siblings()
    groups = len(members)
    source, destination, route = schedule.ends(slice(None))
    if isinstance(nbytes := schedule.row_nbytes, np.ndarray):
        # Rows of different sizes hold links for different times, whatever their ends.
        transfer, nbytes = np.arange(len(source)), np.repeat(nbytes, groups)
    else:
        source, destination, route, transfer = distinct_transfers(fabric, source, destination, route)
    if groups > 1:
        source, destination = (members.T[end].ravel() for end in (source, destination))
        route = whole.route(source, destination)
        transfer = (transfer[:, None] * groups + np.arange(groups)).ravel()
    on = whole if groups > 1 else fabric
    return transfer, *_paths(on, source, destination, route, schedule.folding, nbytes)


def _paths(
    fabric: Fabric, source: Ints, destination: Ints, route: Ints, folding: Folding | None, nbytes: Floats | float
) -> tuple[Ints, Ints, Floats, Floats]:
    """Return the hops of transfers one after the other, and the seconds that each takes.

    Args:
        folding: of the schedule; then the links are those of the first copy (:func:`_first_copies`). None: not folded.
        nbytes: bytes of each transfer, or of all of them.

    Returns:
        The first hop of each transfer, [transfer + 1]; and the link of each hop, the seconds for which the transfer
        holds it, and those from its beginning after which the next hop may begin (the latency of the link, and longer
        where the next link is faster, so that it ends no sooner) or, of the last hop, the data has arrived and is
        converted: [hop] each.
    """
    path = fabric.path(source, destination, route)
    taken = path >= 0
    transfer, link = np.nonzero(taken)[0], path[taken]
    begins = np.searchsorted(transfer, np.arange(len(path) + 1))
    latency = fabric.link_latency()[link]
    total = fabric.latency(source, destination, route)
    # Where a fabric states other latencies of transfers than of links, those of links are their parts.
    sums = np.bincount(transfer, weights=latency, minlength=len(path))
    alike = np.isclose(sums, total, rtol=1e-9, atol=0)
    share = np.where(sums[transfer] > 0, latency / np.maximum(sums, 1e-300)[transfer], 1 / np.diff(begins)[transfer])
    latency = np.where(alike[transfer], latency, total[transfer] * share)
    sent = nbytes[transfer] if isinstance(nbytes, np.ndarray) else nbytes
    busy = sent / fabric.link_bandwidth()[link] + fabric.piece_overhead
    final = np.zeros(len(link), np.bool_)
    final[begins[1:] - 1] = True
    # On all but the last link of a path; what the last hop of all is compared with is not used.
    delay = latency + np.where(final, busy + fabric.step_overhead, np.maximum(busy - np.roll(busy, -1), 0.0))
    if folding is not None:
        link = _first_copies(fabric, source, destination, route, folding)[taken]
    return begins, link, busy, delay


def _first_copies(fabric: Fabric, source: Ints, destination: Ints, route: Ints, folding: Folding) -> Ints:
    """Return the links of transfers, each link named by the smallest number among those in its place in all copies:
    [transfer, place].

    Places are the links of a path in order, below 0 where it has fewer.
    """
    link = fabric.path(source, destination, route)
    at_once = max(_BLOCK, len(source)) // len(source)
    for first in range(1, folding.copies, at_once):
        copy = np.arange(first, min(first + at_once, folding.copies))[:, None]
        begins, ends = (folding.moved(rank, copy).ravel() for rank in (source, destination))
        path = fabric.path(begins, ends, np.tile(route, len(copy))).reshape(len(copy), *link.shape)
        np.minimum(link, path.min(axis=0), out=link)
    return link


def queued_line(schedule: Schedule, fabric: Fabric) -> tuple[Cost, float]:
    """Return the cost of a queued, verified schedule from dark circuits, and a lower bound of the seconds that a byte
    of the collective adds to it: the seconds of sending on the way to the last arrival, over the bytes.

    The second holds at any size if rows cross one packet link each: links then serve them in the same order. It is 0.0
    on circuits, with an overhead of pieces, and of 0 bytes.

    The cost counts one step, with one overhead of a step as conversion; its time includes the set-up of circuits.
    Energy is None where the fabric states none per bit.
    """
    played = play(schedule, fabric)
    linear = not fabric.exclusive and fabric.piece_overhead == 0 and schedule.collective.nbytes > 0
    conversion = min(fabric.step_overhead, played.seconds)
    price = Cost(
        steps=1,
        time=fabric.setup_time + played.seconds,
        transmission=played.seconds - conversion,
        conversion=conversion,
        reconfiguration=fabric.setup_time,
        setup=fabric.setup_time,
        static=True,
        energy=None if fabric.energy_per_bit is None else fabric.energy_per_bit * _sent_bits(schedule, fabric),
    )
    return price, played.sending / schedule.collective.nbytes if linear else 0.0


def _sent_bits(schedule: Schedule, fabric: Fabric) -> float:
    """Return the bits that all copies of a queued schedule send: on circuits those of each transmission once, however
    many ranks tap it (of every row where chunks differ in size), on packets those on the wire for every link
    crossed."""
    weights, copies = schedule.weights, 1 if schedule.folding is None else schedule.folding.copies
    if not fabric.exclusive:
        hops = fabric.hops(*schedule.ends(slice(None)))
        crossings = float(hops.sum() if weights is None else weights @ hops)
        return 8.0 * copies * crossings * fabric.wire_bytes(schedule.chunk_nbytes)
    if weights is not None:
        return 8.0 * float(weights.sum()) * schedule.chunk_nbytes
    transmissions = len(schedule) - int(follows(schedule, _queue_order(schedule)).sum())
    return 8.0 * copies * transmissions * schedule.chunk_nbytes


class Played(NamedTuple):
    """The times at which the rows of a queued schedule are sent, circuits in place."""

    seconds: float
    """Seconds until the last arrival."""
    sending: float
    """Seconds of these in which the rows that the last arrival waited for held their lightpaths."""
    begin: Floats
    """Seconds at which each row begins: [row]."""


def play(schedule: Schedule, fabric: Fabric) -> Played:
    """Return when every row of a queued schedule is sent, each as soon as its lightpath is free and its data is there:
    the seconds until the last arrival, those of sending on the way to it, and those at which each row begins.

    Circuits stand already. The schedule is verified: its rows are all sent in the end. Where it serves groups of ranks,
    all siblings are played, and a row begins when the last of them begins it.
    """
    if fabric.exclusive:
        rows, held = rows_over_circuits(schedule, fabric, _queue_order(schedule))
        first, groups = np.ones(len(schedule), np.bool_), 1
    else:
        groups = len(fabric.siblings()[1])
        rows, held, first = _rows_over_links(_beside_siblings(schedule, fabric), fabric, groups)
    begin = np.zeros(len(first))
    place = np.concatenate([[0], np.cumsum(np.bincount(rows.lightpath))])
    seconds, sending = kernels.play_rows(rows, place, held, begin)
    return Played(float(seconds), float(sending), begin[first].reshape(-1, groups).max(axis=1))


def rows_over_circuits(schedule: Schedule, fabric: Fabric, order: Ints) -> tuple[kernels.PlayedRows, Mask]:
    """Return the rows of a schedule on circuits with their times, to be played in ``order``, and True for cells that
    hold data from the start: [cell].

    Args:
        order: row numbers, those of a lightpath in the order in which it sends them: [row].
    """
    (origin, target, held), same = cells_of(schedule), follows(schedule, order)
    times = busy_and_delay(schedule, fabric)
    return kernels.PlayedRows(order, schedule.lightpath, same, origin, target, schedule.reduces, *times), held


def _rows_over_links(schedule: Schedule, fabric: Fabric, groups: int) -> tuple[kernels.PlayedRows, Mask, Mask]:
    """Return every hop of a queued schedule on packet links as a transmission over its link, from the cell before it to
    one of its own.

    Args:
        groups: number of sibling groups that run the schedule at once, all of which are returned; 1 where there are
            none.

    Returns:
        The hops; True for cells that hold data from the start: [cell]; and True for hops that are the first of a row:
        [hop].
    """
    hops, (origin, target, held) = hops_of(schedule, fabric), cells_of(schedule)
    origin, target = ((cell[:, None] + len(held) * np.arange(groups)).ravel() for cell in (origin, target))
    reduces, held = np.repeat(schedule.reduces, groups), np.tile(held, groups)
    if len(hops.row) > len(origin):
        # A row that crosses several links lies in a cell of its own between two of them.
        between = len(held) + np.arange(len(hops.row))
        origin = np.where(hops.first, origin[hops.row], between - 1)
        target = np.where(hops.last, target[hops.row], between)
        reduces = reduces[hops.row]
        held = np.concatenate([held, np.zeros(len(hops.row), np.bool_)])
    link, nothing_follows = read_only(hops.link.astype(np.int32)), np.zeros(len(hops.row), np.bool_)
    rows = kernels.PlayedRows(
        hops.order, link, nothing_follows, origin, target, read_only(reduces), hops.busy, hops.delay
    )
    return rows, held, hops.first


def busy_and_delay(schedule: Schedule, fabric: Fabric) -> tuple[Floats, Floats]:
    """Return the seconds that each row of a schedule on circuits holds its lightpath (bytes over the bandwidth of its
    channels, plus the overhead of a piece), and the seconds from its start to its arrival (those plus the overhead of a
    step and the latency): [row] each."""
    busy = schedule.row_nbytes / (schedule.wavelength_count * fabric.channel_bandwidth) + fabric.piece_overhead
    return busy, busy + fabric.step_overhead + fabric.latency(*schedule.ends(slice(None)))


def _queue_order(schedule: Schedule) -> Ints:
    """Return row numbers by lightpath, each lightpath's by ``step``, the order in which it sends them."""
    path, step = schedule.lightpath, schedule.step
    if np.all((path[1:] > path[:-1]) | ((path[1:] == path[:-1]) & (step[1:] >= step[:-1]))):
        return np.arange(len(step))
    return np.lexsort((step, path))


def follows(schedule: Schedule, order: Ints) -> Mask:
    """Return True where a row is of the same transmission as the one before it in ``order``: same lightpath, step and
    chunk, [place in the order]."""
    return ~run_begins(schedule.lightpath[order], schedule.step[order], schedule.chunk[order])


def cells_of(schedule: Schedule) -> tuple[Ints, Ints, Mask]:
    """Return the cells that each row reads and writes, [row] each, and True for cells in which data lies from the
    start: [cell].

    A cell is a chunk at a rank of the first period of a folded schedule, or at any rank: rank · chunks + chunk. In
    kinds whose parts go from one rank to one rank, cells are numbered anew, only those that rows name, and data lies in
    those of the ranks that begin with it; in other kinds in every cell to which no row stores (rows that add do not
    count).
    """
    ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
    period = ranks if schedule.folding is None else schedule.folding.period
    source, destination, chunk = (
        column.astype(np.int64) for column in (schedule.source, schedule.destination, schedule.chunk)
    )
    first_chunk = chunk if schedule.folding is None else schedule.moved_chunk(chunk, destination // period, back=True)
    origin, target = source * chunks + chunk, destination % period * chunks + first_chunk
    if kind in ONE_TO_ONE:
        cells, number = np.unique(np.concatenate([origin, target]), return_inverse=True)
        held = cells // chunks == schedule.collective.begins_at(cells % chunks // (chunks // schedule.collective.parts))
        return number[: len(origin)], number[len(origin) :], held
    held = np.ones(period * chunks, np.bool_)
    held[target[~schedule.reduces]] = False
    return origin, target, held
