"""Prices of collectives in one group of ranks, and lower bounds of these prices.

    SchedulePrices     one algorithm: a verified schedule for each kind, resized to each size; cached on disk
    LibraryPrices      the fabric's collective library, by a closed form
    CheapestPrices     of several algorithms the cheapest for each kind and size
    ExchangePrices     a method of exchanging gradients: each phase at the price of its collective, and the coding
    LevelPrices        a fabric of parts: each level at the price of its collective on a part

All are called with a kind and bytes, and return a ``Priced``. A lower bound (``LowerPrice``) is a function of columns
of bytes that no price falls below.

Where every size has a schedule of its own, one is built for each power of two and carries up to twice its bytes, at the
time that those bytes take: no plan searches more than a few designs, and plans share those that are cached.

With a codec the same schedule carries coded sums of gradients: hop by hop of their own size. A codec behind the port
makes every packet smaller, one between the hops makes every message smaller; the fabric says what that is worth.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from math import floor, log2
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol, TypeAlias, cast

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.bounds.lower_bound import Bound, bandwidth_bound, lower_bound
from lightloom.collectives.collective import CLASSIC, ROOTED, TO_OR_FROM_ROOT, Collective, Kind
from lightloom.collectives.cost.loads import StepLoads, at_size
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.cost.stepped import CodecWork, codec_work
from lightloom.collectives.levels import GroupPhase, levels
from lightloom.collectives.registry import (
    Refusal,
    attempt,
    build,
    build_with_loads,
    costed,
    find,
    keeps_to,
    loads_costed,
    with_bound,
)
from lightloom.collectives.schedule.columns import Schedule, circuits_key
from lightloom.collectives.synthesis.engine.cache import effort
from lightloom.core.arrays import Effort, Floats, Ints
from lightloom.core.caches import Latest, cached_method
from lightloom.core.errors import BoundError, UnsupportedError
from lightloom.core.files import LOG, cache_directory, read_entry, source_hash, write_entry
from lightloom.core.results import Document, attributes, content_hash
from lightloom.exchange.method import Phase, nbytes_of_terms, sum_over_hops
from lightloom.machines.fabrics.derived import structure
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.transports.price import ranks_in_domain
from lightloom.planning.gradients import VALUE_BYTES, PricedExchange
from lightloom.planning.simulation.engine import Price, Priced

_RING = "ring"
"""Algorithms of this name, striped or not, add up hop by hop."""


@dataclass(slots=True)
class _Built:
    """A schedule that was verified, and what its cost takes from it whatever its size."""

    schedule: Schedule | None
    """None once its rows were dropped."""
    loads: StepLoads | None
    """None of a queued schedule, whose rows are priced."""
    circuits: str | None
    work: dict[bool, CodecWork] = field(default_factory=dict)
    """Work of a codec, by whether it runs in line with the links."""


_MOST_STRUCTURES: Effort = 16384
_of_structures: Latest[object, _Built] = Latest(_MOST_STRUCTURES)
"""Schedules that were built and verified last, without rows, by algorithm, kind, cost model and structure of the
fabric."""


PriceKey: TypeAlias = tuple[Kind, float, float]
"""Kind of a collective, the size that its schedule was built for, and its size."""
Prices: TypeAlias = Mapping[PriceKey, Priced]


class SchedulePrices:
    """Prices of one algorithm's schedules among all ranks of one fabric: builds and verifies a schedule on first use of
    a kind (and size, where the algorithm builds by size), costs it on first use of a size."""

    def __init__(self, algorithm: Algorithm, fabric: Fabric, model: CostModel) -> None:
        self.algorithm = algorithm
        self.fabric = fabric
        self.model = model
        self.exchange: PricedExchange | None = None
        self.element_bytes: Mapping[Kind, int] = {}
        self._only: float | None = None
        """The size of which the schedules of all collectives are built."""
        self._built: dict[tuple[Kind, float], _Built] = {}
        """By kind and the size that the schedule was built for."""
        self._priced: dict[PriceKey, Priced] = {}
        self.proved: dict[tuple[Kind, float, float, bool], Bound] = {}
        """Lower bounds by kind, bytes sent, bytes coded in line, and whether the quick ones alone are among them;
        shared by all algorithms on the fabric."""
        self.read = 0
        """Number of prices that are on the disk."""
        self._unchecked: set[PriceKey] = set()
        """Prices from the disk that were not held against their bounds yet."""

    def coded(self, exchange: PricedExchange, element_bytes: Mapping[Kind, int]) -> SchedulePrices:
        """Return new prices of the same schedules, built once for both objects, with coded payload in the kinds of
        collectives that ``element_bytes`` names; no prices are taken over.

        Args:
            exchange: method whose coded sums travel along a schedule (``PricedExchange.in_schedule``).
            element_bytes: bytes of one uncompressed gradient, by kind of collective.
        """
        prices = SchedulePrices(self.algorithm, self.fabric, self.model)
        prices.exchange, prices.element_bytes, prices._built = exchange, element_bytes, self._built
        prices.proved = self.proved
        return prices

    def at(self, size: float) -> SchedulePrices:
        """Return a copy of these prices for which an algorithm that builds by size builds all schedules for a
        collective of ``size`` bytes (above 0), whatever the bytes that they carry, so that one set of circuits serves
        all; for other algorithms nothing changes. Schedules and prices are kept in common with this object."""
        prices = copy(self)
        prices._only = size
        return prices

    def built_for(self, kind: Kind, nbytes: float) -> float:
        """Return the bytes for which the schedule that carries this collective is built: the size that :meth:`at` set,
        else the largest power of two that is at most what is sent, at least 1; 0 where one schedule serves all sizes.
        ``nbytes`` is the size of the collective before coding."""
        if not self.algorithm.by_size:
            return 0.0
        return self._only or 2.0 ** floor(log2(max(self.sent_nbytes(kind, nbytes), 1.0)))

    def values_nbytes(self, kind: Kind, nbytes: float) -> float | None:
        """Return the bytes as float32 of the gradients in a collective of ``nbytes`` uncompressed bytes, 4 for each
        gradient; None where this kind is not coded."""
        return nbytes / self.element_bytes[kind] * VALUE_BYTES if kind in self.element_bytes else None

    def sent_nbytes(self, kind: Kind, nbytes: float) -> float:
        """Return the size in bytes of the collective that the schedule carries in the place of one of ``nbytes``
        uncompressed bytes: that of coded sums where an exchange method is set and the kind carries gradients, else
        ``nbytes``."""
        values = self.values_nbytes(kind, nbytes)
        if self.exchange is None or values is None:
            return nbytes
        ring = self.algorithm.name.startswith(_RING)
        return self.exchange.along_schedule(kind, values / VALUE_BYTES, self.fabric.ranks, ring=ring)

    def schedule(self, kind: Kind, nbytes: float) -> Schedule:
        """Return the verified schedule of one collective of ``nbytes`` bytes before coding, resized to the bytes that
        it sends; built again where its rows were dropped.

        Raises:
            UnsupportedError: the algorithm cannot build it.
            VerificationError: what it builds is wrong.
        """
        schedule, sent = self._rows(kind, nbytes), self.sent_nbytes(kind, nbytes)
        loads = self._build(kind, nbytes).loads
        return schedule.resized(sent) if loads is None else at_size(schedule, sent, loads, self.fabric)

    def _carried(self, kind: Kind, nbytes: float) -> tuple[Fabric, float]:
        """Return the fabric that carries a collective of ``nbytes`` bytes before coding, and the bytes that are sent
        for it (:meth:`sent_nbytes`). The fabric is this object's; where gradients are coded in line with its links, it
        is one whose packets are smaller by the ratio of both numbers of bytes."""
        sent = self.sent_nbytes(kind, nbytes)
        in_line = self.exchange is not None and self.exchange.in_line and self.values_nbytes(kind, nbytes) is not None
        return (self.fabric.with_smaller_packets(nbytes / sent) if in_line and sent else self.fabric), sent

    @property
    def cached(self) -> Prices:
        """Prices known so far, those from the disk included, by kind, size that the schedule was built for (0 where one
        serves all sizes), and bytes of the collective before coding."""
        return self._priced

    def preload(self, prices: Prices) -> None:
        """Add prices that the same schedules had before, as read from the disk, in place, and set ``read`` to the
        number of all prices. Each is held against its lower bound at its first use, and made again where it fails;
        until then, no schedule is built for it."""
        self._priced.update(prices)
        self._unchecked.update(prices)
        self.read = len(self._priced)

    def _bound(self, kind: Kind, nbytes: float, *, quick: bool = False) -> Bound:
        """Return the lower bound of what is sent for a collective of ``nbytes`` bytes before coding, found once for all
        algorithms; with ``quick``, and at the sizes through which lines are drawn, of which nothing is told, by the
        quick bounds alone."""
        fabric, sent = self._carried(kind, nbytes)
        quick = quick or nbytes in LINE_SIZES
        key = kind, sent, nbytes if fabric is not self.fabric else sent, quick
        if key not in self.proved:
            self.proved[key] = lower_bound(Collective(kind, fabric.ranks, sent), fabric, self.model, quick=quick)
        return self.proved[key]

    def _proved(self, kind: Kind, nbytes: float, cost: Cost) -> Bound:
        """Return the lower bound of a collective of ``nbytes`` bytes before coding, which its cost is held against.

        Raises:
            BoundError: the cost lies below it.
        """
        fabric, sent = self._carried(kind, nbytes)
        collective, bound = Collective(kind, fabric.ranks, sent), self._bound(kind, nbytes)
        return with_bound(self.algorithm.name, cost, collective, fabric, self.model, bound)[1]

    def drop_schedules(self) -> None:
        """Drop the rows of all schedules (one for each transfer), in place, and keep prices and loads: rows grow with
        the square of the ranks, and are built again where they are asked for. A queued schedule, which has no loads, is
        forgotten as a whole."""
        for key, built in list(self._built.items()):
            built.schedule = None
            if built.loads is None:
                del self._built[key]

    def _rows(self, kind: Kind, nbytes: float) -> Schedule:
        """Return the verified schedule of a collective of ``nbytes`` bytes before coding, at the size that it was built
        for, not resized; rows (of its transfers) that were dropped are built again."""
        built = self._build(kind, nbytes)
        if built.schedule is None:
            size = self.built_for(kind, nbytes)
            built.schedule = build(self.algorithm, Collective(kind, self.fabric.ranks, size), self.fabric)
        return built.schedule

    def _build(self, kind: Kind, nbytes: float) -> _Built:
        """Return what was built for a collective of ``nbytes`` bytes before coding: from this object, else, without
        rows, from another fabric of the same structure, else built and verified now. It has the schedule (None where
        its rows are absent), its loads (None of a queued one), the key of circuits that stand, and the work of codecs
        along it."""
        size = self.built_for(kind, nbytes)
        if (kind, size) not in self._built:
            alike = self.algorithm.by_structure and (self.algorithm, kind, self.model, structure(self.fabric))
            known = _of_structures.get(alike) if alike else None
            built = self._built[kind, size] = self._made(kind, size) if known is None else replace(known)
            if alike and built.loads is not None:
                _of_structures[alike] = replace(built, schedule=None)
        return self._built[kind, size]

    def _made(self, kind: Kind, size: float) -> _Built:
        """Build and verify a schedule for ``size`` bytes and return it with its loads (None of a queued schedule) and
        the key of its circuits: None unless the fabric's circuits are exclusive and either one set of them serves the
        whole schedule or the schedule is queued. UnsupportedError where the algorithm cannot build it, and
        VerificationError where what it builds is wrong, pass through."""
        collective = Collective(kind, self.fabric.ranks, size)
        schedule, loads = build_with_loads(self.algorithm, collective, self.fabric, self.model)
        channels = self.fabric.fibre_channels
        circuits = circuits_key(schedule, channels) if loads is None and self.fabric.exclusive else None
        if loads is not None and loads.changes is not None and loads.changes.static:
            circuits = circuits_key(schedule, channels, loads.changes.rows)
            loads = replace(loads, changes=replace(loads.changes, rows=None))
        return _Built(schedule, loads, circuits)

    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of a collective, computed once for each kind, size built for and size, and held against the
        quick bounds; its ``bound`` is found, and the price held against it, when it is asked for. A price from the disk
        that fails the quick bounds is made again, with a warning."""
        key = kind, self.built_for(kind, nbytes), nbytes
        if key in self._unchecked:
            self._unchecked.discard(key)
            if not keeps_to(self._priced[key].cost, self._bound(kind, nbytes, quick=True)):
                name = self.algorithm.name
                LOG.warning("warning: a cached price of %s does not keep to its lower bound: it is made again", name)
                del self._priced[key]
        if key not in self._priced:
            built, (fabric, sent) = self._build(kind, nbytes), self._carried(kind, nbytes)
            codec, values = None, self.values_nbytes(kind, nbytes)
            if self.exchange is not None and values is not None:
                work, engine = self._work(kind, nbytes), self.exchange.coder
                codec = work.times(values, engine.encode, engine.decode, (engine.encode_message, engine.decode_message))
            bound = self._bound(kind, nbytes, quick=True)
            if built.loads is not None:
                price, _ = loads_costed(self.algorithm, built.loads.at_size(sent, fabric), fabric, codec, bound)
            else:
                assert built.schedule is not None
                price, _ = costed(built.schedule.resized(sent), fabric, self.model, codec, bound)
            circuits = built.circuits if price.static else None
            self._priced[key] = Priced(cost=price, circuits=circuits, algorithm=self.algorithm.name)
        return replace(self._priced[key], proof=partial(self._proved, kind, nbytes, self._priced[key].cost))

    def _work(self, kind: Kind, nbytes: float) -> CodecWork:
        """Return the encodings and decodings of the codec along the schedule of a collective of ``nbytes`` bytes before
        coding, cached for each schedule and by whether the codec runs in line with the links; an exchange must be
        set."""
        assert self.exchange is not None
        work, in_line = self._build(kind, nbytes).work, self.exchange.in_line
        if in_line not in work:
            work[in_line] = codec_work(self._rows(kind, nbytes), in_line=in_line)
        return work[in_line]


# Prices on disk, keyed by the content of what was priced: schedules of a thousand ranks have millions of rows, and
# every plan on the same cluster asks for the same ones.
#
# Cached prices were verified when they were computed, and are held against their lower bound again where they are
# used. The code that builds, verifies and costs is part of the key, so that no change of it meets an old price, and
# so is the effort of searches; plug-ins, whose code is elsewhere, are priced each time.

_PRICING = ("core", "exchange", "photonics", "machines", "collectives", "planning/gradients.py", "planning/pricing")
"""Packages and modules that decide what a collective costs."""
_MOST: Effort = 4096
"""Prices in a file, the latest ones."""


def prices_path(prices: SchedulePrices) -> Path | None:
    """Return the path of the cache file for the prices of an algorithm on a fabric, whether or not it exists; its name
    is a hash of both, of the cost model, of the code that prices, of the exchange method with its engine, and, for
    algorithms that build by size, of the effort of their search. None where prices are not cached, as the algorithm,
    the fabric or the method is a plug-in."""
    algorithm, fabric, exchange = prices.algorithm, prices.fabric, prices.exchange
    module, name = fabric.implementation
    builder = algorithm.build.func if isinstance(algorithm.build, partial) else algorithm.build
    origins = (builder.__module__, module, __name__ if exchange is None else type(exchange.method).__module__)
    if not all(origin.startswith("lightloom.") for origin in origins):
        return None
    key: list[object] = [algorithm.name, name, fabric.model_dump(mode="json"), prices.model, source_hash(*_PRICING)]
    if exchange is not None:
        # What is sent follows the model's tensors, each byte of a collective alike.
        sizes = {kind: prices.sent_nbytes(kind, _LARGE) for kind in prices.element_bytes}
        key.append(repr((exchange.name, exchange.engine, prices.element_bytes, sizes)))
    if algorithm.by_size:
        key.append(effort(fabric.ranks))
    return cache_directory() / "prices" / f"{content_hash(key)}.json"


def read_prices(path: Path | None, algorithm: str) -> Prices:
    """Return the cached prices in a file, each named after ``algorithm``; an empty mapping where ``path`` is None,
    there is no file, or it is damaged."""
    content = None if path is None else read_entry(path)
    if content is None:
        return {}
    try:
        return dict(_price_of(row, algorithm) for row in json.loads(content))
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _price_of(row: Document, algorithm: str) -> tuple[PriceKey, Priced]:
    """Return the key (kind, size built for, size) and the price of one row of a cache file (``kind``, ``built_for``,
    ``nbytes``, ``cost``, ``circuits``), without its bound; ``algorithm`` becomes the price's algorithm."""
    key = cast(Kind, row["kind"]), float(row["built_for"]), float(row["nbytes"])
    return key, Priced(cost=Cost(**row["cost"]), circuits=row["circuits"], algorithm=algorithm)


def write_prices(path: Path | None, prices: Prices) -> None:
    """Write the last 4,096 of the prices, in their order, to a cache file as a JSON list of rows, each with ``kind``,
    ``built_for``, ``nbytes``, ``cost`` and ``circuits``; do nothing without a path or without prices."""
    if path is None or not prices:
        return
    rows = [
        {"kind": kind, "built_for": size, "nbytes": nbytes, "cost": asdict(priced.cost), "circuits": priced.circuits}
        for (kind, size, nbytes), priced in islice(reversed(prices.items()), _MOST)  # type: ignore[call-overload]
    ]
    write_entry(path, json.dumps(rows[::-1]))


# Lower bounds of prices: lines below convex prices, chords below concave ones, steps below all others.
#
# A verified schedule's cost is a sum over steps (or along a chain of steps) of maxima of linear functions of the bytes:
# convex. The line through two sizes lies below a convex function outside of the two. So two lines, through sizes below
# and above all that occur, bound every size between them. A pipeline takes the number of pieces that suits the size:
# the least of linear functions, which is concave, so that chords lie below it; so is the closed form of a collective
# library, the least of concave ways. Schedules that are built anew for each size have no such law; the proved lower
# bounds of the collective, at sizes a quarter of an octave apart, stay below their prices.

_SMALL, _LARGE = 2.0**12, 2.0**37
"""Bytes; smaller sizes are bounded by the price of nothing, larger ones by the first line alone."""
LINE_SIZES = (0.0, _SMALL, _LARGE, 2 * _LARGE)
"""Bytes of the collectives whose prices lines are drawn through."""
_OCTAVES: Effort = 44
"""Octaves of the sizes at which bounds are tabled; larger sizes are bounded by the last."""
_PARTS: Effort = 4
"""Sizes in an octave."""
_CHORD_SIZES = (0.0, *(4.0**power for power in range(5, 21)))
"""Bytes of the pipelines between whose prices chords are drawn."""
_DENSE_SIZES = (0.0, *(2.0 ** (part / _PARTS) for part in range(_PARTS * _OCTAVES)))
_BELOW_ROUNDING = 1 - 1e-12
"""Factor that keeps lower bounds below prices whose sums are rounded otherwise."""


class LowerPrice(Protocol):
    """A lower bound of the prices of one algorithm."""

    def __call__(self, nbytes: Floats, /) -> Floats:
        """Return the seconds that collectives of so many bytes take at least, in the shape of ``nbytes``."""


class PriceLine(NamedTuple):
    """Two lines below a convex price, in seconds by bytes of the collective."""

    nothing: float
    """Seconds of a collective of no bytes."""
    slope: float
    """Seconds per byte from there to small sizes."""
    far: float
    """Seconds of a large collective."""
    far_slope: float
    """Seconds per byte beyond it."""

    def __call__(self, nbytes: Floats) -> Floats:
        """Return the lower bound in seconds at each size (bytes), in the shape of ``nbytes``: the larger of both lines,
        the first without its slope below 4 KiB, the second only up to 128 GiB."""
        near = self.nothing + np.where(nbytes >= _SMALL, self.slope * nbytes, 0.0)
        return np.maximum(near, np.where(nbytes <= _LARGE, self.far - self.far_slope * (_LARGE - nbytes), 0.0))


def price_line(price: Price, kind: Kind, *, hidden_setup: bool) -> PriceLine:
    """Return two lines below the prices of one algorithm, a convex function of the bytes: the first through the prices
    of no bytes and of 4 KiB, the second through those of 128 and of 256 GiB; as seconds of no bytes and seconds for
    each byte, then seconds of 128 GiB (less round-off) and seconds for each byte. The bound that they give is the
    larger of both, the first without its slope below 4 KiB, the second up to 128 GiB only.

    With ``hidden_setup`` prices are taken without the first set-up of circuits, which is done before the data exists;
    otherwise without it only where the circuits can stay in place (``Cost.repeated_time``).
    """
    costs = (price(kind, nbytes).cost for nbytes in LINE_SIZES)
    nothing, small, large, twice = (cost.time - cost.setup if hidden_setup else cost.repeated_time for cost in costs)
    # Far from its two sizes the second line is a difference of large numbers.
    far = large - 16 * np.finfo(np.float64).eps * twice
    return PriceLine(nothing, (small - nothing) / _SMALL, far, (twice - large) / _LARGE)


def chords(sizes: Sequence[float] | Floats, seconds: Sequence[float] | Floats) -> LowerPrice:
    """Return the lower bound of a concave price that takes ``seconds`` at ``sizes`` (bytes, ascending): linear between
    two sizes, constant below the first and beyond the last, and smaller by 1e-12 of itself for rounding."""
    known = np.array(seconds) * _BELOW_ROUNDING

    def bound(nbytes: Floats) -> Floats:
        """Return the seconds on the chord at each size, in the shape of ``nbytes``."""
        return np.interp(nbytes, sizes, known)

    return bound


def steps_between(seconds: Callable[[float], float]) -> LowerPrice:
    """Return a lower bound that is constant from one size to the next, for prices of schedules that are built for each
    size. The sizes are 0 and four an octave from 1 byte on, over 44 octaves; a size takes the bound of the largest of
    these that is not above it.

    ``seconds`` gives the bound in seconds of a size in bytes; it is called once for each of these sizes, when it is
    first needed.
    """
    known = np.full(len(_DENSE_SIZES), np.nan)

    def bound(nbytes: Floats) -> Floats:
        """Return the seconds of the step that each size lies on, in the shape of ``nbytes``."""
        place = np.floor(_PARTS * np.log2(np.maximum(nbytes, 0.5)) + 1e-9).astype(np.int64) + 1
        place = np.clip(place, 0, len(known) - 1)
        for step in np.unique(place[np.isnan(known[place])]):
            known[step] = seconds(_DENSE_SIZES[step])
        return known[place]

    return bound


def exchange_line(
    phases: Sequence[tuple[Sequence[LowerPrice], float]], coding: tuple[float, float], every: int
) -> LowerPrice:
    """Return a lower bound of a step's share of the price of an exchange: the sum of its phases' lower bounds, in each
    phase the least among its algorithms, and the coding, all divided by ``every``.

    Args:
        phases: for each phase, lower bounds of the algorithms that may carry it, and its bytes for each byte of the
            collective that the exchange stands for.
        coding: seconds of coding an exchange of no bytes, and seconds for each byte of the collective that the exchange
            stands for.
        every: number of steps that share one exchange.
    """

    def bound(nbytes: Floats) -> Floats:
        """Return a step's least seconds for ``nbytes`` of the collective that the exchange stands for, in its shape."""
        seconds = coding[0] + coding[1] * nbytes
        for lines, share in phases:
            seconds = seconds + np.minimum.reduce([line(nbytes * share) for line in lines])
        return seconds / every

    return bound


def sized_line(kind: Kind, fabric: Fabric, model: CostModel) -> LowerPrice:
    """Return a lower bound of the prices of schedules that are built for each size, constant between the sizes of
    :func:`steps_between`: the proved lower bound of the collective among all ranks of the fabric less the fabric's
    set-up time, as if circuits were set up beforehand; never below 0."""

    def seconds(nbytes: float) -> float:
        """Return the least seconds of a size with circuits in place."""
        return max(lower_bound(Collective(kind, fabric.ranks, nbytes), fabric, model).time - fabric.setup_time, 0.0)

    return steps_between(seconds)


def proved_line(kind: Kind, fabric: Fabric, model: CostModel) -> PriceLine:
    """Return a lower bound of a collective among all ranks of a fabric that holds for every schedule and needs none:
    the larger of the proved seconds for no bytes, less the set-up of circuits (at least 0), and of the bytes at the
    fabric's bandwidth, which counts up to 128 GiB only; beyond, the bound is that for no bytes."""
    nothing = lower_bound(Collective(kind, fabric.ranks, 0.0), fabric, model).time - fabric.setup_time
    slope = bandwidth_bound(Collective(kind, fabric.ranks, 1.0), fabric) * _BELOW_ROUNDING
    return PriceLine(max(nothing, 0.0) * _BELOW_ROUNDING, 0.0, slope * _LARGE, slope)


# Prices of collectives as a collective library carries them, in the place of verified schedules.
#
# A fabric that states what a library reaches on its links (``Fabric.library``) is priced so unless algorithms are
# named: these prices are held to measured steps (:mod:`lightloom.planning.calibration`).

_BOUND_TOLERANCE = 1e-9
"""Share by which a closed form may lie below a proved bound, from rounding."""
_NODE_LINKS, _NETWORK_LINKS = 2, 4
"""Links that a message crosses inside a node and between nodes."""
_PASSES: Mapping[Kind, int] = dict.fromkeys(CLASSIC, 1) | {"all-reduce": 2}
"""How often the bytes of a collective pass a rank's link, but for its own share; for its energy."""


def _no_schedule(collective: Collective, fabric: Fabric, *, striped: bool) -> NoReturn:  # noqa: ARG001
    """Raise UnsupportedError: a collective of the library has no schedule."""
    raise UnsupportedError(f"the {collective.kind} of the fabric's collective library has no schedule of ours")


LIBRARY = Algorithm(
    name="library",
    build=_no_schedule,
    kinds=CLASSIC,
    declines=lambda _, fabric: None if fabric.library else f"library: the {fabric.kind_name} states none (transport)",
    rows=lambda kind, fabric: 0,  # noqa: ARG005 - a closed form lists no transfers
    summary="the fabric's collective library, by the closed form of what it reaches; not a verified schedule",
)
"""Stands in the place of an algorithm, and is in no registry of schedules."""


def carrier(name: str) -> Algorithm:
    """Return the algorithm of a name: ``LIBRARY`` for "library", otherwise the one in the registry of algorithms.

    Raises:
        UnknownNameError: no such algorithm.
    """
    return LIBRARY if name == LIBRARY.name else find(name)


class LibraryPrices:
    """Prices of a group of ranks that is a fabric of its own, by the closed form of its collective library; stands in
    the place of ``SchedulePrices``."""

    algorithm = LIBRARY

    def __init__(self, fabric: Fabric, model: CostModel) -> None:
        assert fabric.library is not None
        self.fabric = fabric
        self.model: CostModel = model
        self._library = fabric.library
        self._carried = fabric.as_carried()

    def seconds(self, kind: Kind, nbytes: Floats) -> Floats:
        """Return the seconds of collectives of ``nbytes`` bytes, [sizes], among all ranks of the group by the library's
        closed form: [sizes]."""
        ranks = np.full(len(nbytes), self.fabric.ranks)
        return self._library.seconds(kind, ranks, np.ones_like(ranks), nbytes)

    @cached_method()
    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of a collective by the closed form, with its joules and its proved lower bound; cached.

        Raises:
            BoundError: it lies below the proved lower bound by more than rounding.
        """
        group = np.array([self.fabric.ranks]), np.ones(1, np.int64)
        seconds = float(self.seconds(kind, np.array([nbytes]))[0])
        collective, adds = Collective(kind, self.fabric.ranks, nbytes), self._library.tiers.reduction
        bound = lower_bound(collective, self._carried, self.model, switches_add=adds)
        if seconds < bound.time * (1 - _BOUND_TOLERANCE):
            raise BoundError(f"{LIBRARY.name}: {kind} costs {seconds} s, below the lower bound of {bound.time} s")
        energy = self._energy(kind, nbytes, int(ranks_in_domain(self._library.domain, *group)[0]))
        return replace(_priced(seconds, energy), proof=lambda: bound)

    def _energy(self, kind: Kind, nbytes: float, inside: int) -> float | None:
        """Return the joules of a collective of ``nbytes`` bytes over all ranks, as a ring through all ranks would send
        it, (ranks - 1) times the bytes, in an all-reduce twice, with their overhead on the wire; None where the fabric
        states no energy per bit. ``inside`` is the number of ranks of the group in each node: messages inside a node
        cross two links, those between nodes four, which is one message in ``inside``, or none where the group lies in
        one node."""
        if self.fabric.energy_per_bit is None:
            return None
        ranks = self.fabric.ranks
        leaving = 0.0 if inside == ranks else 1 / inside
        links = (1 - leaving) * _NODE_LINKS + leaving * _NETWORK_LINKS
        return 8 * self.fabric.wire_bytes(_PASSES[kind] * (ranks - 1) * nbytes) * links * self.fabric.energy_per_bit

    def schedule(self, kind: Kind, nbytes: float) -> NoReturn:
        """Refuse: a closed form has no schedule.

        Raises:
            UnsupportedError: always.
        """
        _no_schedule(Collective(kind, self.fabric.ranks, nbytes), self.fabric, striped=False)

    def drop_schedules(self) -> None:
        """Do nothing: a closed form keeps no schedules."""


class LibraryPricing:
    """Prices of the library alone for all groups of a fabric, without looking for the parts of the fabric.

    Stands in the place of ``GroupPrices`` where strategies are priced and none is searched.
    """

    def __init__(self, fabric: Fabric) -> None:
        """``fabric`` states what its library reaches."""
        assert fabric.library is not None
        self._library = fabric.library

    def on_axis(self, _: object) -> Callable[[Kind, Ints, Ints, Ints, Ints, Floats], Floats]:
        """Return the function that gives the seconds of columns of collectives in groups of an axis,
        :meth:`exchange_time`: the same one whatever axis of parallelism is given."""
        return self.exchange_time

    def exchange_time(
        self, kind: Kind, algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats
    ) -> Floats:
        """Return the seconds of collectives for columns of strategies by the library's closed form, 0 where ``nbytes``
        is 0: [rows].

        Args:
            kind: of all the collectives.
            algorithm: ignored, as the library has one closed form.
            ranks: ranks of each group: [rows].
            stride: distance between neighbouring ranks of a group: [rows].
            exchange: ignored; bytes are taken as they are.
            nbytes: bytes of each collective: [rows].
        """
        return np.where(nbytes > 0, self._library.seconds(kind, ranks, stride, nbytes), 0.0)

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        """Return None: the library serves every kind on every group, whatever the arguments."""
        return None

    def price(self, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> Price:
        """Return the function of kind and bytes that prices collectives in a group of ``ranks`` that lie ``stride``
        apart, whatever the algorithm and the exchange; its prices have no energy and are not held against a bound."""
        group = np.array([ranks]), np.array([stride])

        def price(kind: Kind, nbytes: float) -> Priced:
            """Return the price of a collective in this group by the library's closed form."""
            return _priced(float(self._library.seconds(kind, *group, np.array([nbytes]))[0]), None)

        return price


def _priced(seconds: float, energy: float | None) -> Priced:
    """Return the price of a collective of the library that takes so many seconds, all of them transmission, in one
    step, with circuits that never change; ``energy`` in joules, None where unknown."""
    nothing = {"conversion": 0.0, "reconfiguration": 0.0, "setup": 0.0}
    cost = Cost(steps=1, time=seconds, transmission=seconds, static=True, energy=energy, **nothing)
    return Priced(cost=cost, algorithm=LIBRARY.name)


# The cheapest of several algorithms for each collective of a group.

STRIPED = "-striped"
"""Suffix of the name of an algorithm's striped form."""
_NOT_CHEAPER = 1 + 1e-9
"""Factor above the best price from which lower bounds are not followed up."""

CollectivePrices: TypeAlias = SchedulePrices | LibraryPrices
"""Prices of one algorithm's schedules, or of a fabric's collective library."""


def line_below(prices: CollectivePrices, kind: Kind, *, hidden_setup: bool) -> LowerPrice:
    """Return a lower bound of the prices of one algorithm for one kind of collective: steps for schedules built by size
    (:func:`sized_line`), chords for the library and for pipelines (:func:`chords`), else two lines
    (:func:`price_line`). ``hidden_setup``, used by the two lines alone, leaves the first set-up of circuits out of
    every price, not only where circuits can stay."""
    if prices.algorithm.by_size:
        return sized_line(kind, prices.fabric, prices.model)
    if isinstance(prices, LibraryPrices):
        return chords(_DENSE_SIZES, prices.seconds(kind, np.array(_DENSE_SIZES)).tolist())
    if prices.algorithm.pipelined:
        # A pipeline on a packet fabric sets up no circuits.
        return chords(_CHORD_SIZES, [prices(kind, nbytes).cost.time for nbytes in _CHORD_SIZES])
    return price_line(prices, kind, hidden_setup=hidden_setup)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An algorithm that may carry a kind of collective in a group, built where a price asks for it."""

    algorithm: Algorithm
    floor: PriceLine | None
    """A lower bound of its prices for which nothing is built; None where there is none."""
    near: bool
    """True where the floor follows from what the algorithm sends, so that it is near its prices."""
    failure: Callable[[], str | None]
    """Return the reason that it fails, None where it does not; builds its schedule the first time, cached."""
    prices: Callable[[], CollectivePrices]
    line: Callable[[bool], LowerPrice]
    """Return the lower bound of its prices, with the first set-up of circuits hidden or not; cached."""
    spare: bool = False
    """True where the striped form of the algorithm, than which it is not faster, comes before: it counts only where
    that fails."""


def _in_turn(candidates: Sequence[Candidate], worth: Callable[[PriceLine], bool]) -> Iterator[Candidate | str]:
    """Yield the candidates, built, whose floors are ``worth`` building at that moment, or the reason that one fails;
    those without a floor always are."""
    failed: set[str] = set()
    for each in candidates:
        if each.spare and f"{each.algorithm.name}{STRIPED}" not in failed:
            continue
        if each.floor is None or worth(each.floor):
            why = each.failure()
            failed |= set() if why is None else {each.algorithm.name}
            yield each if why is None else why


class LeastPrice:
    """The least of the lower bounds of several algorithms, a :class:`LowerPrice`: of their floors where these are near
    their prices; any other algorithm is built where its floor is below the least at some size that is asked for."""

    def __init__(self, candidates: Sequence[Candidate], *, hidden_setup: bool) -> None:
        self._candidates, self._hidden_setup = candidates, hidden_setup
        self._near = np.array([each.floor for each in candidates if each.near], np.float64).reshape(-1, 4).T
        self._others = [each for each in candidates if not each.near]

    def __call__(self, nbytes: Floats, /) -> Floats:
        """Return the least seconds at each size (bytes), in its shape; infinite where every algorithm fails."""
        floors = PriceLine(*self._near.reshape(*self._near.shape, *[1] * np.ndim(nbytes)))
        least = np.array(floors(nbytes).min(axis=0, initial=np.inf))
        for each in _in_turn(self._others, lambda floor: bool((floor(nbytes) < least).any())):
            if isinstance(each, Candidate):
                np.minimum(least, each.line(self._hidden_setup)(nbytes), out=least)
        return least


class CheapestPrices:
    """Prices of the cheapest of several algorithms for each collective."""

    def __init__(self, candidates: Callable[[Kind], Sequence[Candidate]]) -> None:
        """``candidates`` are the algorithms that may serve a kind of collective, those that build by size last."""
        self._candidates = candidates

    @cached_method()
    def choice(self, kind: Kind, nbytes: float) -> CollectivePrices:
        """Return the prices of the algorithm that carries a collective of ``nbytes`` bytes in the least time, its
        circuits in place; cached. A single candidate whose schedule serves all sizes is returned without a price.

        Raises:
            UnsupportedError: no algorithm carries this kind, or every one fails at this size.
        """
        return _cheapest(self._candidates(kind), kind, nbytes)

    def carrier(self, kind: Kind, nbytes: float) -> CollectivePrices:
        """Return the prices of the schedule that carries a collective of ``nbytes`` bytes in the least time, that one
        schedule for all sizes, as where the algorithm of :meth:`choice` builds by size."""
        prices = self.choice(kind, nbytes)
        if isinstance(prices, SchedulePrices) and prices.algorithm.by_size:
            return prices.at(prices.built_for(kind, nbytes))
        return prices

    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of a collective of ``nbytes`` bytes by the algorithm that :meth:`choice` picks."""
        return self.choice(kind, nbytes)(kind, nbytes)

    def schedule(self, kind: Kind, nbytes: float) -> Schedule:
        """Return the verified schedule of one collective of ``nbytes`` bytes by the algorithm that carries it in the
        least time.

        Raises:
            UnsupportedError: every algorithm fails at this size, or a collective library carries it.
        """
        return self.choice(kind, nbytes).schedule(kind, nbytes)


def _cheapest(candidates: Sequence[Candidate], kind: Kind, nbytes: float) -> CollectivePrices:
    """Return the prices of the candidate that carries a collective in the least time with its circuits in place
    (``Cost.repeated_time``), of equal ones the first by name.

    A candidate whose floor is not below the best price so far is not built, one whose lower bound is above it is not
    priced, and a single candidate whose schedule serves all sizes is returned unpriced.

    Args:
        candidates: algorithms, those that build by size last.
        kind: of the collective.
        nbytes: its size in bytes.

    Raises:
        UnsupportedError: every algorithm fails, at this size or at all, which any exception but BoundError means; with
            their reasons.
        BoundError: a cost lies below its lower bound.
    """
    size = np.array(nbytes)
    priced: list[tuple[float, str, CollectivePrices]] = []
    failures: list[str] = []

    def least() -> float:
        """Return the least seconds of those priced so far."""
        return min((seconds for seconds, _, _ in priced), default=np.inf)

    for each in _in_turn(candidates, lambda floor: bool(floor(size) < least())):
        if isinstance(each, str):
            failures.append(each)
            continue
        prices = each.prices()
        if len(candidates) == 1 and not each.algorithm.by_size:
            return prices
        if each.line(False)(size) > least() * _NOT_CHEAPER:
            continue
        outcome = attempt(each.algorithm, partial(prices, kind, nbytes))
        if isinstance(outcome, Refusal):
            failures.append(outcome.why)
        else:
            priced.append((outcome.cost.repeated_time, each.algorithm.name, prices))
    if not priced:
        raise UnsupportedError("; ".join(dict.fromkeys(failures)))
    return min(priced, key=lambda each: each[:2])[2]


# Prices of exchanges that have phases of their own: each phase at the price of its collective, and the coding.
#
# int4     all-to-all of codes, all-gather of codes, coding
# diloco   what its inner method takes, every so many steps: a step pays its share
#
# A step pays 1 / every of an exchange that comes every so many steps.

_TIMES = ("time", "transmission", "conversion", "reconfiguration", "encode", "decode")


def group_phases(
    exchange: PricedExchange, kind: Kind, values: float, ranks: int, stride: int, adds: Callable[[int, int], bool]
) -> list[GroupPhase]:
    """Return the collectives of an exchange (kind, bytes at a rank, ranks, stride; the bytes are those at the end of an
    all-gather, at the start of other kinds), in order, in the place of one of ``kind``; phases among a single rank are
    left out, and phases between nodes have fewer ranks that lie further apart.

    Sums that are added up around a ring become a reduce-scatter of their mean size and an all-gather of finished ones.
    Where the network of a phase adds up light, an all-gather becomes an all-reduce of one rank's share.

    Args:
        exchange: the method on the model's gradient.
        kind: of the collective that the exchange stands for; of a reduce-scatter only the first phase is taken.
        values: number of gradients that are exchanged.
        ranks: ranks of the group.
        stride: distance between neighbouring ranks of the group.
        adds: returns, for a phase's number of ranks and their stride, whether the network adds up light there.
    """
    found: list[GroupPhase] = []
    for phase in exchange.phases(kind, values, ranks):
        members = exchange.method.ranks_of(phase, ranks)
        apart = ranks // members * stride if phase.where == "between nodes" else stride
        if members == 1:
            continue
        if phase.nbytes_by_terms:
            sizes = ("reduce-scatter", sum_over_hops(phase, members)), ("all-gather", nbytes_of_terms(phase, members))
            found += [GroupPhase(part, nbytes, members, apart) for part, nbytes in sizes]  # type: ignore[arg-type]
        elif phase.kind == "all-gather" and adds(members, apart):
            found.append(GroupPhase("all-reduce", phase.nbytes / members, members, apart))
        else:
            found.append(GroupPhase(phase.kind, phase.nbytes, members, apart))
    return found


class PhasedPrices(ABC):
    """Prices of a group of ranks in which several collectives, one after the other, carry one collective."""

    plain: Callable[[int, int], CheapestPrices | LevelPrices]
    """Prices of collectives as they are, in groups of so many ranks so far apart."""
    ranks: int
    """Ranks of the group."""
    stride: int
    """Distance between its ranks."""
    on_parts: bool
    """True on a fabric of parts, each of which has circuits of its own."""

    @abstractmethod
    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of a collective."""

    @abstractmethod
    def phases(self, kind: Kind, nbytes: float) -> list[GroupPhase]:
        """Return the collectives that carry one of ``kind`` and ``nbytes`` bytes, in order, each with its kind, bytes,
        ranks and stride."""

    def coding(self, kind: Kind, nbytes: float) -> tuple[float, float]:
        """Return the seconds in which a rank encodes and those in which it decodes in one whole collective of
        ``nbytes`` bytes before coding; both 0 unless a method codes what is sent."""
        return 0.0, 0.0

    @property
    def every(self) -> int:
        """Number of steps that share one exchange; 1 unless a method exchanges less often."""
        return 1

    def schedule(self, kind: Kind, nbytes: float) -> Schedule:
        """Return the verified schedule of the one phase that carries a collective of ``nbytes`` bytes.

        Raises:
            UnsupportedError: the number of its phases is not 1, or no algorithm has a schedule for it.
        """
        phases = self.phases(kind, nbytes)
        if len(phases) != 1:
            raise UnsupportedError(f"{kind}: {len(phases)} collectives have no schedule in common")
        return self.plain(phases[0].ranks, phases[0].stride).schedule(phases[0].kind, phases[0].nbytes)

    def algorithms(self, kind: Kind, nbytes: float) -> tuple[str, ...]:
        """Return the names of the algorithms that carry the phases of a collective, in the order of the phases, in each
        the cheapest; a phase on a fabric of parts gives a name for each of its levels."""
        names: list[str] = []
        for phase in self.phases(kind, nbytes):
            prices = self.plain(phase.ranks, phase.stride).choice(phase.kind, phase.nbytes)
            names += prices.algorithms(*phase[:2]) if isinstance(prices, LevelPrices) else (prices.algorithm.name,)
        return tuple(names)

    def lines(self, kind: Kind, lines_of: Callable[..., Sequence[LowerPrice]]) -> Sequence[LowerPrice]:
        """Return a list with one lower bound of these prices, a function of the bytes of the collective; empty where
        some phase has none.

        Args:
            kind: of the collectives that are carried.
            lines_of: takes a kind and, as keywords, ``ranks`` and ``stride``, and returns the lower bounds of the plain
                prices in such groups, one for each algorithm.
        """
        phases = self.phases(kind, 1.0)
        parts = [(lines_of(phase.kind, ranks=phase.ranks, stride=phase.stride), phase.nbytes) for phase in phases]
        if not all(lines for lines, _ in parts):
            return []
        nothing, some = (sum(self.coding(kind, nbytes)) for nbytes in (0.0, 1.0))
        return [exchange_line(parts, (nothing, some - nothing), self.every)]

    def sums(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of a collective of ``nbytes`` bytes before coding as a step's share (1 / ``every``) of the
        sums over all phases, coding included.

        Its bound is the same share of the sum of the phases' bounds, set by the resource of the largest one; its
        algorithm is that of the phase with the most bytes. Joules are those of all ranks. Without phases all amounts
        are 0 and the algorithm is that of the plain price.
        """
        phases = self.phases(kind, nbytes)
        priced = [self.plain(phase.ranks, phase.stride)(phase.kind, phase.nbytes) for phase in phases]
        # Of a collective with a root, only the groups of the root's counterparts exchange between groups.
        rooted = kind in (*ROOTED, *TO_OR_FROM_ROOT)
        copies = [1 if rooted and phase.stride > self.stride else self.ranks // phase.ranks for phase in phases]
        places = [phase.stride if self.on_parts else 0 for phase in phases]
        whole = _together(priced, *self.coding(kind, nbytes), places, copies)
        sizes = [phase.nbytes for phase in phases]
        main = priced[sizes.index(max(sizes))] if phases else self.plain(self.ranks, self.stride)(kind, nbytes)
        shared = {name: getattr(whole.cost, name) / self.every for name in (*_TIMES, "setup")}
        energy = None if whole.cost.energy is None else whole.cost.energy / self.every
        cost = replace(whole.cost, **shared, energy=energy)

        def proved() -> Bound:
            """Return the step's share of the sum of the phases' bounds, as set by the largest."""
            bounds = [each.bound for each in priced]
            largest = max(bounds, key=lambda bound: bound.time, default=Bound(0.0, "nothing"))
            return replace(largest, time=sum(bound.time for bound in bounds) / self.every)

        return replace(whole, cost=cost, algorithm=main.algorithm, proof=proved)


@dataclass(eq=False)
class LevelPrices(PhasedPrices):
    """Prices of a group of ranks on a fabric of parts, level by level (:func:`lightloom.collectives.levels.levels`);
    ``fabric`` is the group's, ``stride`` the distance between its ranks in the whole fabric."""

    plain: Callable[[int, int], CheapestPrices | LevelPrices]
    fabric: Fabric
    ranks: int
    stride: int
    model: CostModel
    on_parts = True

    def choice(self, kind: Kind, nbytes: float) -> LevelPrices:
        """Return these prices themselves, as each level chooses its own algorithm."""
        return self

    def phases(self, kind: Kind, nbytes: float) -> list[GroupPhase]:
        """Return the collectives of the levels of the fabric of parts that carry one of ``kind`` and ``nbytes`` bytes,
        in order, each with its kind, bytes, ranks and stride: for an all-reduce a reduce-scatter inside the innermost
        part, an all-reduce of the shares between parts and an all-gather inside; for other kinds, and an all-reduce
        where the innermost part adds up in its network, the same kind inside, then between, but between first for
        all-gathers, broadcasts and scatters. UnsupportedError for a permute, a barrier, or a kind whose parts have
        sizes."""
        return levels(kind, nbytes, self.fabric, self.stride)

    @cached_method()
    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of a collective as the sums over all its levels, with the lower bound of any schedule on the
        whole fabric of parts; cached.

        Raises:
            BoundError: the time lies below the bound.
        """
        whole = self.sums(kind, nbytes)
        bound = lower_bound(Collective(kind, self.fabric.ranks, nbytes), self.fabric, self.model)
        if not keeps_to(whole.cost, bound):
            raise BoundError(
                f"{kind} on {self.fabric.heading()} costs {whole.cost.time} s level by level, below the lower bound of "
                f"{bound.time} s set by {bound.bound_by}"
            )
        return replace(whole, proof=lambda: bound)


@dataclass(eq=False)
class ExchangePrices(PhasedPrices):
    """Prices of an exchange method that has phases of its own, among a group of ranks."""

    exchange: PricedExchange
    """The method, and the engine that encodes and decodes for it."""
    plain: Callable[[int, int], CheapestPrices | LevelPrices]
    element_bytes: Mapping[Kind, int]
    """Bytes of one gradient in the kinds of collectives that carry them."""
    ranks: int
    stride: int
    adds: Callable[[int, int], bool]
    """True where the fabric adds up light on its way in groups of so many ranks so far apart."""
    on_parts: bool = False

    @property
    def every(self) -> int:
        """Number of training steps from one exchange to the next; 1 for methods that exchange at every step."""
        return self.exchange.every

    def choice(self, kind: Kind, nbytes: float) -> CollectivePrices | LevelPrices | ExchangePrices:
        """Return these prices for a collective of ``nbytes`` uncompressed bytes that the method carries in at least one
        phase, otherwise those of the algorithm that carries it as it is."""
        if kind in self.element_bytes and self.phases(kind, nbytes):
            return self
        return self.plain(self.ranks, self.stride).choice(kind, nbytes)

    def phases(self, kind: Kind, nbytes: float) -> list[GroupPhase]:
        """Return the collectives of an exchange, in order, in the place of one of ``kind`` and ``nbytes`` uncompressed
        bytes, each with its kind, bytes, ranks and stride; a kind that carries no gradients is returned as its only
        phase. Empty where the group has one rank in every phase."""
        if kind not in self.element_bytes:
            return [GroupPhase(kind, nbytes, self.ranks, self.stride)]
        return group_phases(self.exchange, kind, nbytes / self.element_bytes[kind], self.ranks, self.stride, self.adds)

    def values_nbytes(self, kind: Kind, nbytes: float) -> float | None:
        """Return the bytes as float32, 4 a value, of the gradients in a collective of ``nbytes`` uncompressed bytes;
        None where this kind carries no gradients."""
        return 4 * nbytes / self.element_bytes[kind] if kind in self.element_bytes else None

    def sent_nbytes(self, kind: Kind, nbytes: float) -> float:
        """Return the size in bytes of the plain collective of ``kind`` whose ranks send as many bytes as the method
        does in the place of one of ``nbytes`` uncompressed bytes; divided by ``every``, so a step's share. ``kind``
        must carry gradients."""
        return self.exchange.sent_bytes(kind, nbytes / self.element_bytes[kind], self.ranks) / self.exchange.every

    def coding(self, kind: Kind, nbytes: float) -> tuple[float, float]:
        """Return the seconds of encoding and of decoding of a rank in one whole exchange, not a step's share; ``kind``
        must carry gradients; ``nbytes`` is the size of the collective before coding."""
        return self.exchange.coding(kind, nbytes / self.element_bytes[kind], self.ranks)

    @cached_method()
    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of an exchange in the place of a collective of ``nbytes`` uncompressed bytes, a step's share
        of it; for a kind that carries no gradients the plain price. Cached."""
        if kind not in self.element_bytes:
            return self.plain(self.ranks, self.stride)(kind, nbytes)
        return self.sums(kind, nbytes)


def _together(
    priced: Sequence[Priced], encode: float, decode: float, places: Sequence[int], copies: Sequence[int]
) -> Priced:
    """Return one price of all phases one after the other, with coding; its algorithm and bound are left at their
    defaults.

    Circuits stay, and are set up once, where all phases whose circuits share a place have the same circuits.

    Args:
        priced: price of each phase.
        encode: seconds of encoding, added to those of the phases.
        decode: seconds of decoding, added likewise.
        places: for each phase, a number that is equal for phases whose circuits share links.
        copies: for each phase, the number of groups that run it at once; the joules are those of all of them, and None
            where those of any phase are.
    """
    costs = [each.cost for each in priced]
    circuits: dict[int, list[Priced]] = {}
    for each, place in zip(priced, places, strict=True):
        if each.circuits is not None or each.cost.reconfiguration:
            circuits.setdefault(place, []).append(each)
    keys = {place: {each.circuits for each in found} for place, found in circuits.items()}
    same = all(len(found) == 1 and None not in found for found in keys.values())
    static = same or (len(priced) == 1 and priced[0].cost.static)
    setup = sum(found[0].cost.setup for found in circuits.values()) if static else 0.0
    again = sum(cost.setup for cost in costs) - setup if static else 0.0
    sums = {name: sum(getattr(cost, name) for cost in costs) for name in _TIMES}
    sums |= {"time": sums["time"] - again + encode + decode, "reconfiguration": sums["reconfiguration"] - again}
    sums |= {"encode": sums["encode"] + encode, "decode": sums["decode"] + decode}
    energies = [None if cost.energy is None else cost.energy * count for cost, count in zip(costs, copies, strict=True)]
    energy = None if None in energies else sum(energy for energy in energies if energy is not None)
    steps = sum(cost.steps for cost in costs)
    cost = Cost(steps=steps, setup=setup, static=static, energy=energy, **sums)
    kept = " ".join(str(key) for found in keys.values() for key in found) if same else None
    return Priced(cost=cost, circuits=kept or None)


def phase_document(phase: Phase) -> dict[str, object]:
    """Return a phase of an exchange in plain types, for JSON: ``kind`` of its collective, ``bytes``, ``bytes_by_terms``
    (pairs of number of summed gradients and bytes), ``where`` (the ranks that it joins, such as "everywhere" or
    "between nodes") and ``hideable`` (true if it may run behind the backward pass)."""
    sizes = [list(size) for size in phase.nbytes_by_terms]
    return {**attributes(phase, "kind bytes=nbytes"), "bytes_by_terms": sizes, **attributes(phase, "where hideable")}


def given_bytes(price: Price, kind: Kind, nbytes: float, ranks: int) -> float:
    """Return the bytes that a rank of a group gives to the network in a collective at these prices, coded ones as they
    are sent, summed over phases; of a method that exchanges every so many steps, a step's share.

    Where the network adds up schedules' data on its way, a rank gives all of it once; elsewhere as many bytes as around
    a ring, (ranks - 1) / ranks of the size, twice that in an all-reduce.

    Args:
        price: prices of the group.
        kind: of the collective.
        nbytes: its size before coding.
        ranks: ranks of the group.
    """
    chosen = price.choice(kind, nbytes) if isinstance(price, CheapestPrices | ExchangePrices | LevelPrices) else None
    if isinstance(chosen, PhasedPrices):
        phases = chosen.phases(kind, nbytes)
        return sum(given_bytes(chosen.plain(each.ranks, each.stride), *each[:3]) for each in phases) / chosen.every
    if isinstance(chosen, SchedulePrices):
        nbytes = chosen.sent_nbytes(kind, nbytes)
        if chosen.fabric.in_network_reduction:
            return nbytes
    return (2 if kind == "all-reduce" else 1) * nbytes * (ranks - 1) / ranks
