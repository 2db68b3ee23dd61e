"""Prices of one algorithm's verified schedules in one group of ranks, and their cache on the disk.

Where every size has a schedule of its own, one is built for each power of two and carries up to twice its bytes, at the
time that those bytes take: no plan searches more than a few designs, and plans share those that are cached.

With a codec the same schedule carries coded sums of gradients: hop by hop of their own size. A codec behind the port
makes every packet smaller, one between the hops makes every message smaller; the fabric says what that is worth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from math import floor, log2
from pathlib import Path
from typing import TypeAlias, cast

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.bounds.lower_bound import Bound, lower_bound
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.loads import StepLoads, at_size
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.cost.stepped import CodecWork, codec_work
from lightloom.collectives.registry import build, build_with_loads, costed, keeps_to, loads_costed, with_bound
from lightloom.collectives.schedule.columns import Schedule, circuits_key
from lightloom.collectives.synthesis.engine.cache import effort
from lightloom.core.arrays import Effort
from lightloom.core.caches import Latest
from lightloom.core.files import LOG, cache_directory, read_entry, source_hash, write_entry
from lightloom.core.results import Document, content_hash
from lightloom.machines.fabrics.derived import structure
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.gradients import VALUE_BYTES, PricedExchange
from lightloom.planning.simulation.engine import Priced

SMALL, LARGE = 2.0**12, 2.0**37
"""Bytes; smaller sizes are bounded by the price of nothing, larger ones by the first line alone."""
LINE_SIZES = (0.0, SMALL, LARGE, 2 * LARGE)
"""Bytes of the collectives whose prices lines are drawn through."""

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
        sizes = {kind: prices.sent_nbytes(kind, LARGE) for kind in prices.element_bytes}
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
