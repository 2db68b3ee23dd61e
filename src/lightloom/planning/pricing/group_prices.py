"""Prices of collectives within groups of ranks; each collective may choose its own algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from math import inf
from typing import Protocol

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import Kind
from lightloom.collectives.cost.price import CostModel
from lightloom.collectives.registry import Refusal, algorithms, attempt, find
from lightloom.core.arrays import Effort
from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.gradients import PricedExchange, gradient_element_bytes
from lightloom.planning.pricing.collective_prices import (
    LIBRARY,
    LINE_SIZES,
    CheapestPrices,
    CollectivePrices,
    ExchangePrices,
    LibraryPrices,
    LowerPrice,
    SchedulePrices,
    carrier,
    line_below,
    prices_path,
    proved_line,
    read_prices,
    write_prices,
)
from lightloom.planning.simulation.engine import Price

AUTO = "auto"
"""In the place of an algorithm: each exchange takes the cheapest for its kind, group and size."""
_STRAIGHT = ("one-stage-striped", "one-stage")
_MANY_RANKS: Effort = 128
"""Schedules among more ranks are dropped once their lines are known."""
_ALL_LISTED: Effort = 8192
"""Ranks of a fabric up to which plans build schedules of as many rows as fit in memory."""
MOST_ROWS: Effort = 1 << 21
"""Rows of schedules that are built among more ranks: those of an all-reduce of 1,024 that lists every transfer."""


class Pricing(Protocol):
    """Prices of the collectives of a group of ranks."""

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        """Return why the group has no such collective; None where it has."""

    def price(self, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> Price:
        """Return the prices of a group of ``ranks`` that lie ``stride`` apart, gradients exchanged by method
        ``exchange``, 0 for as they are."""

    def lines(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, *, hidden_setup: bool
    ) -> Sequence[LowerPrice]:
        """Lower bounds of the prices of the algorithms that may carry a collective; the least is a bound."""


class GroupPrices(Pricing):
    """Prices of collectives on the part of a fabric that a group of ranks has to itself: of verified schedules, or of
    the fabric's collective library where it states one and no algorithms are named.

    The part is the same kind of fabric with as many ranks (:meth:`Fabric.group`): a ring's part is taken to close,
    which bounds what axes that divide the channels take. Where none of the algorithms carries an all-to-all, the blocks
    go straight from rank to rank instead.
    """

    def __init__(
        self,
        fabric: Fabric,
        training: TrainingSettings,
        model: CostModel = "physical",
        exchanges: Sequence[PricedExchange] = (),
        choices: Sequence[str] = (),
        most_rows: float = inf,
    ) -> None:
        """``exchanges`` are the methods that strategies number from 1 on, with their engines. ``choices`` are the
        algorithms that a collective chooses among; without any, the fabric's collective library where it carries the
        collective, otherwise all that have one schedule for all sizes. Schedules of more than ``most_rows`` are left
        out, on fabrics of more than 8,192 ranks those of more than :data:`MOST_ROWS`."""
        self.fabric = fabric
        self.model = model
        self._training = training
        self._exchanges = dict(enumerate(exchanges, start=1))
        self._divided = False  # whether circuits of several axes stand at once
        self._named = bool(choices)
        self._most_rows = most_rows if fabric.ranks <= _ALL_LISTED else min(most_rows, MOST_ROWS)
        self._choices = [*map(carrier, choices)] or [each for each in algorithms().values() if not each.by_size]
        self._parts: dict[tuple[int, int], Fabric | None] = {}
        self._keys: dict[int, tuple[Fabric, str]] = {}
        """By identity of a fabric, which is held so that no other one takes it over."""
        self._plain: dict[tuple[str, str], CollectivePrices] = {}
        self._coded: dict[tuple[str, str, int], SchedulePrices] = {}
        self._prices: dict[tuple[str, int, int, int], CheapestPrices] = {}
        self._phases: dict[tuple[str, int, int, int], ExchangePrices] = {}
        self._others: dict[str, GroupPrices] = {}
        """These prices on other fabrics."""
        self._usable: dict[tuple[Kind, str, str], str | None] = {}
        self._refusals: dict[tuple[Kind, str, str], str | None] = {}
        self._lines: dict[tuple[int, Kind, bool], LowerPrice] = {}
        self._proved: dict[tuple[str, Kind], LowerPrice] = {}
        self._read: dict[tuple[str, str], int] = {}
        """Number of prices that came from the disk."""

    def with_choices(self, choices: Sequence[str]) -> GroupPrices:
        """Return prices where exchanges choose among other algorithms."""
        return self._sharing(self.fabric, choices)

    def on(self, fabric: Fabric) -> GroupPrices:
        """Return the prices of the same choice of algorithms on another fabric, beside circuits of other axes."""
        key = fabric.model_dump_json()
        if key not in self._others:
            names = [each.name for each in self._choices] if self._named else []
            self._others[key] = self._sharing(fabric, names)
            self._others[key]._divided = True
        return self._others[key]

    def _sharing(self, fabric: Fabric, choices: Sequence[str]) -> GroupPrices:
        """Return the prices that share all schedules and prices with these."""
        other = GroupPrices(
            fabric, self._training, self.model, tuple(self._exchanges.values()), choices, self._most_rows
        )
        for name in ("_plain", "_coded", "_usable", "_refusals", "_read", "_keys", "_lines", "_proved"):
            setattr(other, name, getattr(self, name))
        return other

    @property
    def element_bytes(self) -> Mapping[Kind, int]:
        """Bytes of one uncompressed element in the kinds of collectives that a codec makes smaller."""
        return gradient_element_bytes(self._training)

    def exchange(self, number: int) -> PricedExchange:
        """Return the method of a number other than 0."""
        return self._exchanges[number]

    @property
    def failures(self) -> dict[str, str]:
        """Algorithms that accepted a collective and then failed, and how."""
        return {name: why for (_, name, _), why in self._usable.items() if why is not None}

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        part = self._part(ranks, stride)
        if part is None:
            return f"the fabric has no part of {ranks} ranks" + (f" that lie {stride} apart" if stride > 1 else "")
        exchange = self._of_kind(kind, exchange)
        if exchange and (why := self._exchange_refusal(kind, algorithm, part, exchange, stride)) is not None:
            return why
        if exchange and not self._exchanges[exchange].in_schedule:
            return None
        reasons = [self._declined(kind, each, part, exchange) for each in self._among(kind, algorithm, part, exchange)]
        return None if None in reasons else "; ".join(dict.fromkeys(filter(None, reasons)))

    def _exchange_refusal(self, kind: Kind, algorithm: str, part: Fabric, exchange: int, stride: int) -> str | None:
        """Return why a method does not serve in the place of a collective of gradients; None where it does."""
        method, light = self._exchanges[exchange], part.in_network_reduction
        why = method.refusal(kind, in_network=light, stride=stride) or method.group_refusal(part.ranks)
        if why is not None or method.in_schedule:
            return why
        phases = self._phased(algorithm, part.ranks, exchange, stride).phases(kind, 1.0)
        if self._divided and len(phases) > 1:
            return "circuits that stand for the whole step serve one collective, and the exchange has several"
        refusals = (self.refusal(phase.kind, algorithm, phase.ranks, 0, phase.stride) for phase in phases)
        return next(filter(None, refusals), None)

    def price(self, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> CheapestPrices | ExchangePrices:
        """Return the prices of a group where gradients are exchanged by the method of that number."""
        if exchange and not self._exchanges[exchange].in_schedule:
            return self._phased(algorithm, ranks, exchange, stride)
        return self._cheapest(algorithm, ranks, exchange, stride)

    def _of_kind(self, kind: Kind, exchange: int) -> int:
        """Return the number of a method, 0 where a kind of collective carries no gradients."""
        return exchange if kind in self.element_bytes else 0

    def _cheapest(self, algorithm: str, ranks: int, exchange: int, stride: int) -> CheapestPrices:
        key = algorithm, ranks, exchange, stride
        if key not in self._prices:
            self._prices[key] = CheapestPrices(partial(self._bounded, *key))
        return self._prices[key]

    def _phased(self, algorithm: str, ranks: int, exchange: int, stride: int) -> ExchangePrices:
        key = algorithm, ranks, exchange, stride
        if key not in self._phases:

            def plain(members: int, apart: int) -> CheapestPrices:
                return self._cheapest(algorithm, members, 0, apart)

            part, method = self._part(ranks, stride), self._exchanges[exchange]
            light = part is not None and part.in_network_reduction
            self._phases[key] = ExchangePrices(method, plain, self.element_bytes, ranks, stride, in_network=light)
        return self._phases[key]

    def lines(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, *, hidden_setup: bool
    ) -> Sequence[LowerPrice]:
        if exchange and not self._exchanges[exchange].in_schedule:

            def plain(part_kind: Kind, members: int, apart: int) -> Sequence[LowerPrice]:
                return self.lines(part_kind, algorithm, members, 0, apart, hidden_setup=hidden_setup)

            phased = self._phased(algorithm, ranks, exchange, stride).lines(kind, plain)
            return plain(kind, ranks, stride) if phased is None else phased
        candidates = self._candidates(kind, algorithm, ranks, exchange, stride)
        return [self._line(prices, kind, hidden_setup) for prices in candidates]

    def proved_lines(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, *, hidden_setup: bool
    ) -> Sequence[LowerPrice]:
        """Lower bounds of the prices for which no schedule is built; :meth:`lines` where these do not hold, since a
        codec changes the bytes, or where prices are those of a library, in closed form."""
        part, exchange = self._part(ranks, stride), self._of_kind(kind, exchange)
        assert part is not None
        if exchange or LIBRARY in self._among(kind, algorithm, part, exchange):
            return self.lines(kind, algorithm, ranks, exchange, stride, hidden_setup=hidden_setup)
        key = self._key(part), kind
        if key not in self._proved:
            self._proved[key] = proved_line(kind, part, self.model)
        return [self._proved[key]]

    def schedules(self, algorithm: Algorithm, part: Fabric) -> CollectivePrices:
        """Return the prices of one algorithm on a fabric, those on the disk included, or of the fabric's library."""
        key = algorithm.name, self._key(part)
        if key not in self._plain and algorithm is LIBRARY:
            self._plain[key] = LibraryPrices(part, self.model)
        elif key not in self._plain:
            self._plain[key] = prices = SchedulePrices(algorithm, part, self.model)
            prices.preload(read_prices(prices_path(algorithm, part, self.model), algorithm.name))
            self._read[key] = len(prices.cached)
        return self._plain[key]

    def save(self) -> None:
        """Cache on disk what is new."""
        for key, prices in self._plain.items():
            if len(prices.cached) > self._read.get(key, 0):
                write_prices(prices_path(prices.algorithm, prices.fabric, self.model), prices.cached)
                self._read[key] = len(prices.cached)

    def failure(self, kind: Kind, algorithm: Algorithm, part: Fabric) -> str | None:
        """Return how an algorithm that accepts a collective fails to build or to prove it; None where it does not.

        Prices the sizes that lines are drawn through, compressed ones too.
        """
        key = kind, algorithm.name, self._key(part)
        if key not in self._usable:
            prices = self.schedules(algorithm, part)
            carried = kind in self.element_bytes and not part.in_network_reduction and algorithm is not LIBRARY
            coded = [number for number, method in self._exchanges.items() if carried and method.in_schedule]
            all_prices = [prices, *(self._with_codec(prices, number) for number in coded)]
            outcome = attempt(algorithm, partial(_draw, all_prices, kind))
            self._usable[key] = outcome.why if isinstance(outcome, Refusal) else None
            if part.ranks > _MANY_RANKS:
                prices.drop_schedules()
        return self._usable[key]

    def _bounded(
        self, algorithm: str, ranks: int, exchange: int, stride: int, kind: Kind
    ) -> Sequence[tuple[CollectivePrices, LowerPrice]]:
        candidates = self._candidates(kind, algorithm, ranks, exchange, stride)
        if not candidates:
            part = self._part(ranks, stride)
            assert part is not None
            failures = (self.failure(kind, each, part) for each in self._among(kind, algorithm, part, exchange))
            raise UnsupportedError("; ".join(dict.fromkeys(filter(None, failures))))
        return [(prices, self._line(prices, kind, False)) for prices in candidates]

    def _line(self, prices: CollectivePrices, kind: Kind, hidden_setup: bool) -> LowerPrice:
        key = id(prices), kind, hidden_setup
        if key not in self._lines:
            self._lines[key] = line_below(prices, kind, hidden_setup=hidden_setup)
        return self._lines[key]

    def _candidates(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int
    ) -> Sequence[CollectivePrices]:
        part, exchange = self._part(ranks, stride), self._of_kind(kind, exchange)
        assert part is not None
        usable = [
            each
            for each in self._among(kind, algorithm, part, exchange)
            if self._declined(kind, each, part, exchange) is None
            and (each.by_size or self.failure(kind, each, part) is None)
        ]
        prices = [self.schedules(each, part) for each in usable]
        return prices if exchange == 0 else [self._with_codec(each, exchange) for each in prices]

    def _with_codec(self, prices: CollectivePrices, exchange: int) -> SchedulePrices:
        assert isinstance(prices, SchedulePrices)
        key = prices.algorithm.name, self._key(prices.fabric), exchange
        if key not in self._coded:
            self._coded[key] = prices.coded(self._exchanges[exchange], self.element_bytes)
        return self._coded[key]

    def _declined(self, kind: Kind, algorithm: Algorithm, part: Fabric, exchange: int) -> str | None:
        if (algorithm.by_size or algorithm.pipelined) and exchange != 0:
            return f"{algorithm.name} has no steps between which a codec could be charged"
        if algorithm is LIBRARY and exchange != 0:
            return "the fabric's collective library has no codec between its hops; name an algorithm, such as ring"
        key = kind, algorithm.name, self._key(part)
        if key not in self._refusals:
            self._refusals[key] = self._too_long(kind, algorithm, part) or algorithm.refusal(kind, part, self.model)
        return self._refusals[key]

    def _too_long(self, kind: Kind, algorithm: Algorithm, part: Fabric) -> str | None:
        rows = algorithm.rows(kind, part)
        if rows <= self._most_rows:
            return None
        return (
            f"{algorithm.name} lists {rows:,} transfers among {part.ranks:,} ranks, and at most "
            f"{self._most_rows:,} are listed here"
        )

    def _among(self, kind: Kind, algorithm: str, part: Fabric, exchange: int) -> Sequence[Algorithm]:
        """Return the algorithms that may carry a collective, straight exchanges where no other carries an all-to-all;
        the fabric's library where it carries the collective and no algorithm is named."""
        if algorithm == AUTO and not self._named and LIBRARY.refusal(kind, part, self.model) is None:
            return [LIBRARY]
        among = self._choices if algorithm == AUTO else [carrier(algorithm)]
        if kind == "all-to-all" and all(each.refusal(kind, part, self.model) for each in among):
            straight = [find(name) for name in _STRAIGHT]
            among = [each for each in straight if each.refusal(kind, part, self.model) is None][:1] or straight
        return among

    def _part(self, ranks: int, stride: int) -> Fabric | None:
        if ranks == self.fabric.ranks:
            return self.fabric
        if (ranks, stride) not in self._parts:
            self._parts[ranks, stride] = self.fabric.group(ranks, stride)
        return self._parts[ranks, stride]

    def _key(self, part: Fabric) -> str:
        if id(part) not in self._keys:
            self._keys[id(part)] = part, part.model_dump_json()
        return self._keys[id(part)][1]


def _draw(all_prices: Sequence[CollectivePrices], kind: Kind) -> None:
    for prices, nbytes in product(all_prices, LINE_SIZES):
        prices(kind, nbytes)
