"""Prices for the simulator: one verified schedule for each kind of collective, resized to each bucket.

Where every size has a schedule of its own, one is built for each power of two and carries up to twice its bytes, at the
time that those bytes take: no plan searches more than a few designs, and plans share those that are cached.

With a codec the same schedule carries coded sums of gradients: hop by hop of their own size. A codec behind the port
makes every packet smaller, one between the hops makes every message smaller; the fabric says what that is worth.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hashlib import sha256
from itertools import islice
from math import floor, isclose, log2
from pathlib import Path
from typing import cast

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.bounds.lower_bound import Bound, lower_bound
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.loads import StepLoads, at_size, circuits_key
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.cost.stepped import CodecWork, codec_work
from lightloom.collectives.evaluate import (
    ROUNDING,
    costed,
    keeps_to,
    loads_costed,
)
from lightloom.collectives.registry import build, build_with_loads
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.effort import effort
from lightloom.core.arrays import Effort
from lightloom.core.cache import LOG, cache_directory, read_entry, write_entry
from lightloom.core.results import Document, content_hash
from lightloom.machines.fabrics.derived import structure
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.gradients import VALUE_BYTES, PricedExchange
from lightloom.planning.simulation.engine import Priced

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
    """What a codec has to do, by whether it is in line with the links."""


_MOST_STRUCTURES: Effort = 16384
_of_structures: OrderedDict[object, _Built] = OrderedDict()
"""What was built and verified last, without rows, by algorithm, kind, cost model and structure of the fabric."""


class SchedulePrices:
    """Calls as the simulator's ``Price``; builds and verifies on first use of a kind, costs on first use of a size."""

    def __init__(self, algorithm: Algorithm, fabric: Fabric, model: CostModel) -> None:
        self.algorithm = algorithm
        self.fabric = fabric
        self.model = model
        self.exchange: PricedExchange | None = None
        self._element_bytes: Mapping[Kind, int] = {}
        self._only: float | None = None
        """The size of which the schedules of all collectives are built."""
        self._built: dict[tuple[Kind, float], _Built] = {}
        """By kind and the size that the schedule was built for."""
        self._priced: dict[tuple[Kind, float, float], tuple[Priced, Bound]] = {}
        """By kind, the size that the schedule was built for, and the size."""
        self._unchecked: set[tuple[Kind, float, float]] = set()
        """Prices from the disk that were not held against their bounds yet."""

    def coded(self, exchange: PricedExchange, element_bytes: Mapping[Kind, int]) -> SchedulePrices:
        """The same schedules with coded payload in the kinds of collectives that ``element_bytes`` names.

        Args:
            exchange: whose coded sums travel along a schedule (``PricedExchange.in_schedule``).
            element_bytes: bytes of one gradient as it is in each kind.
        """
        prices = SchedulePrices(self.algorithm, self.fabric, self.model)
        prices.exchange, prices._element_bytes, prices._built = exchange, element_bytes, self._built
        return prices

    def at(self, size: float) -> SchedulePrices:
        """The same where schedules built for ``size`` carry everything, so that one kind of circuits serves all."""
        prices = SchedulePrices(self.algorithm, self.fabric, self.model)
        prices.exchange, prices._element_bytes, prices._built = self.exchange, self._element_bytes, self._built
        prices._priced, prices._unchecked, prices._only = self._priced, self._unchecked, size
        return prices

    def built_for(self, kind: Kind, nbytes: float) -> float:
        """The size for which the schedule that carries this collective is built; 0 where one serves all sizes."""
        if not self.algorithm.by_size:
            return 0.0
        return self._only or 2.0 ** floor(log2(max(self.sent_nbytes(kind, nbytes), 1.0)))

    def values_nbytes(self, kind: Kind, nbytes: float) -> float | None:
        """Bytes of float32 that the codec takes for a collective; None where this kind is not compressed."""
        return nbytes / self._element_bytes[kind] * VALUE_BYTES if kind in self._element_bytes else None

    def sent_nbytes(self, kind: Kind, nbytes: float) -> float:
        """The size of a collective of ``nbytes`` as the schedule carries it."""
        values = self.values_nbytes(kind, nbytes)
        if self.exchange is None or values is None:
            return nbytes
        ring = self.algorithm.name.startswith(_RING)
        return self.exchange.along_schedule(kind, values / VALUE_BYTES, self.fabric.ranks, ring=ring)

    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        return self._entry(kind, nbytes)[0]

    def cost(self, kind: Kind, nbytes: float) -> tuple[Cost, Bound]:
        """The cost of one collective, and the bound it was held against."""
        priced, bound = self._entry(kind, nbytes)
        return priced.cost, bound

    def schedule(self, kind: Kind, nbytes: float) -> Schedule:
        """The verified schedule of one collective."""
        schedule, sent = self._rows(kind, nbytes), self.sent_nbytes(kind, nbytes)
        loads = self._build(kind, nbytes).loads
        return schedule.resized(sent) if loads is None else at_size(schedule, sent, loads, self.fabric)

    def choice(self, kind: Kind, nbytes: float) -> SchedulePrices:
        """The prices that serve a collective: these."""
        return self

    @property
    def cached(self) -> Mapping[tuple[Kind, float, float], tuple[Priced, Bound]]:
        """Prices so far, by kind, the size that the schedule was built for, and the size."""
        return self._priced

    def preload(self, prices: Mapping[tuple[Kind, float, float], tuple[Priced, Bound]]) -> None:
        """Take prices that the same schedules had before; a schedule is then built only where it is asked for."""
        self._priced.update(prices)
        self._unchecked.update(prices)

    def _stands(self, kind: Kind, nbytes: float, priced: Priced, bound: Bound) -> bool:
        """Return whether a price from the disk keeps to its lower bound, which is worked out again."""
        proved = lower_bound(Collective(kind, self.fabric.ranks, nbytes), self.fabric, self.model)
        return isclose(bound.time, proved.time, rel_tol=ROUNDING) and keeps_to(priced.cost, proved)

    def drop_schedules(self) -> None:
        """Keep prices and loads only: rows grow with the square of the ranks, and can be built again."""
        for key, built in list(self._built.items()):
            built.schedule = None
            if built.loads is None:
                del self._built[key]

    def _rows(self, kind: Kind, nbytes: float) -> Schedule:
        """The verified schedule of a collective at the size that it was built for."""
        built = self._build(kind, nbytes)
        if built.schedule is None:
            size = self.built_for(kind, nbytes)
            built.schedule = build(self.algorithm, Collective(kind, self.fabric.ranks, size), self.fabric)
        return built.schedule

    def _build(self, kind: Kind, nbytes: float) -> _Built:
        size = self.built_for(kind, nbytes)
        if (kind, size) not in self._built:
            alike = self.algorithm.by_structure and (self.algorithm, kind, self.model, structure(self.fabric))
            known = _of_structures.get(alike) if alike else None
            built = self._built[kind, size] = self._made(kind, size) if known is None else replace(known)
            if alike and built.loads is not None:
                _of_structures[alike] = replace(built, schedule=None)
                _of_structures.move_to_end(alike)
                if len(_of_structures) > _MOST_STRUCTURES:
                    _of_structures.popitem(last=False)
        return self._built[kind, size]

    def _made(self, kind: Kind, size: float) -> _Built:
        collective = Collective(kind, self.fabric.ranks, size)
        schedule, loads = build_with_loads(self.algorithm, collective, self.fabric, self.model)
        circuits = circuits_key(schedule, self.fabric) if loads is None and self.fabric.exclusive else None
        if loads is not None and loads.changes is not None and loads.changes.static:
            circuits = circuits_key(schedule, self.fabric, loads.changes.rows)
            loads = replace(loads, changes=replace(loads.changes, rows=None))
        return _Built(schedule, loads, circuits)

    def _entry(self, kind: Kind, nbytes: float) -> tuple[Priced, Bound]:
        key = kind, self.built_for(kind, nbytes), nbytes
        if key in self._unchecked:
            self._unchecked.discard(key)
            if not self._stands(kind, nbytes, *self._priced[key]):
                name = self.algorithm.name
                LOG.warning("warning: a cached price of %s does not keep to its lower bound: it is made again", name)
                del self._priced[key]
        if key not in self._priced:
            built, fabric, sent = self._build(kind, nbytes), self.fabric, self.sent_nbytes(kind, nbytes)
            codec, values = None, self.values_nbytes(kind, nbytes)
            if self.exchange is not None and values is not None:
                work, engine = self._work(kind, nbytes), self.exchange.coder
                calls = engine.encode_message, engine.decode_message
                codec = work.times(values, engine.encode, engine.decode, calls)
                if self.exchange.in_line and sent:
                    fabric = fabric.with_smaller_packets(nbytes / sent)
            if built.loads is not None:
                loads = built.loads.at_size(sent, fabric)
                price, bound = loads_costed(self.algorithm, loads, fabric, codec)
            else:
                assert built.schedule is not None
                price, bound = costed(built.schedule.resized(sent), fabric, self.model, codec)
            self._priced[key] = Priced(cost=price, circuits=built.circuits if price.static else None), bound
        return self._priced[key]

    def _work(self, kind: Kind, nbytes: float) -> CodecWork:
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

Prices = Mapping[tuple[Kind, float, float], tuple[Priced, Bound]]
"""By kind, the size that the schedule was built for, and the size."""
_PRICING = ("core", "exchange/compression", "photonics", "machines", "collectives", "planning/pricing")
"""Packages that decide what a collective costs."""
_MOST: Effort = 4096
"""Prices in a file, the latest ones."""


def prices_path(algorithm: Algorithm, fabric: Fabric, model: CostModel) -> Path | None:
    """File of the prices of an algorithm on a fabric; None where they are not cached."""
    module, name = fabric.implementation
    origins = (algorithm.build.__module__, module)
    if not all(origin.startswith("lightloom.") for origin in origins):
        return None
    key: list[object] = [algorithm.name, name, fabric.model_dump(mode="json"), model, _code_hash()]
    if algorithm.by_size:
        key.append(effort(fabric.ranks))
    return cache_directory() / "prices" / f"{content_hash(key)}.json"


def read_prices(path: Path | None) -> Prices:
    """Return the prices of a file; none where there is no file, or it is damaged."""
    content = None if path is None else read_entry(path)
    if content is None:
        return {}
    try:
        return dict(_entry(row) for row in json.loads(content))
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _entry(row: Document) -> tuple[tuple[Kind, float, float], tuple[Priced, Bound]]:
    priced = Priced(cost=Cost(**row["cost"]), circuits=row["circuits"])
    key = cast(Kind, row["kind"]), float(row["built_for"]), float(row["nbytes"])
    return key, (priced, Bound(**row["bound"]))


def write_prices(path: Path | None, prices: Prices) -> None:
    """Write prices to a file."""
    if path is None or not prices:
        return
    rows = [
        {
            "kind": kind,
            "built_for": size,
            "nbytes": nbytes,
            "cost": asdict(priced.cost),
            "circuits": priced.circuits,
            "bound": asdict(bound),
        }
        for (kind, size, nbytes), (priced, bound) in islice(reversed(prices.items()), _MOST)  # type: ignore[call-overload]
    ]
    write_entry(path, json.dumps(rows[::-1]))


@cache
def _code_hash() -> str:
    """Hash of the code that builds, verifies and costs schedules."""
    digest = sha256()
    for package in _PRICING:
        for file in sorted((Path(__file__).parents[2] / package).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
