"""Prices of collectives within groups of ranks; each collective may choose its own algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Protocol

from lightloom.clusters.settings import TrainingSettings
from lightloom.collectives.cost.price import CostModel
from lightloom.collectives.evaluate import Refusal, attempt
from lightloom.collectives.registry import Algorithm, algorithms, find
from lightloom.collectives.spec import Kind
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.planner.pricing.cheapest import CheapestPrices, CollectivePrices
from lightloom.planner.pricing.compression import Compression, gradient_bytes
from lightloom.planner.pricing.library import LIBRARY, LibraryPrices, carrier
from lightloom.planner.pricing.price_cache import prices_path, read_prices, write_prices
from lightloom.planner.pricing.price_line import LINE_SIZES, LowerPrice, chords, price_line, sized_line
from lightloom.planner.pricing.schedule_prices import SchedulePrices
from lightloom.simulation.lower import Price

AUTO = "auto"
"""In the place of an algorithm: each exchange takes the cheapest for its kind, group and size."""
_STRAIGHT = ("one-stage-striped", "one-stage")
_MANY_RANKS = 128
"""Schedules among more ranks are dropped once their lines are known."""


class Pricing(Protocol):
    """Prices of the collectives of a group of ranks."""

    def refusal(self, kind: Kind, algorithm: str, ranks: int, ratio: float, stride: int = 1) -> str | None:
        """Why the group has no such collective; None where it has."""

    def price(self, algorithm: str, ranks: int, ratio: float, stride: int = 1) -> Price:
        """Prices of a group of ``ranks`` that lie ``stride`` apart, gradients being sent ``ratio`` times smaller."""

    def algorithm(self, kind: Kind, nbytes: float, algorithm: str, ranks: int, ratio: float, stride: int = 1) -> str:
        """Name of the algorithm that carries a collective at that price."""

    def lines(
        self, kind: Kind, algorithm: str, ranks: int, ratio: float, stride: int = 1, *, hidden_setup: bool
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
        compressions: Sequence[Compression] = (),
        choices: Sequence[str] = (),
    ) -> None:
        """``choices`` are the algorithms that an exchange chooses among; without any, the fabric's collective library
        where it carries the exchange, otherwise all that have one schedule for all sizes."""
        self.fabric = fabric
        self.model = model
        self._training = training
        self._compressions = {each.ratio: each for each in compressions}
        self._named = bool(choices)
        self._choices = [*map(carrier, choices)] or [each for each in algorithms().values() if not each.by_size]
        self._parts: dict[tuple[int, int], Fabric | None] = {}
        self._keys: dict[int, str] = {}
        self._plain: dict[tuple[str, str], CollectivePrices] = {}
        self._compressed: dict[tuple[str, str, float], SchedulePrices] = {}
        self._prices: dict[tuple[str, int, float, int], CheapestPrices] = {}
        self._others: dict[str, GroupPrices] = {}
        """These prices on other fabrics."""
        self._usable: dict[tuple[Kind, str, str], str | None] = {}
        self._lines: dict[tuple[int, Kind, bool], LowerPrice] = {}
        self._read: dict[tuple[str, str], int] = {}
        """Number of prices that came from the disk."""

    def with_choices(self, choices: Sequence[str]) -> GroupPrices:
        """The same prices where exchanges choose among other algorithms."""
        return self._sharing(self.fabric, choices)

    def on(self, fabric: Fabric) -> GroupPrices:
        """Prices of the same choice of algorithms on another fabric."""
        key = fabric.model_dump_json()
        if key not in self._others:
            names = [each.name for each in self._choices] if self._named else []
            self._others[key] = self._sharing(fabric, names)
        return self._others[key]

    def _sharing(self, fabric: Fabric, choices: Sequence[str]) -> GroupPrices:
        """Prices that share all schedules and prices with these."""
        other = GroupPrices(fabric, self._training, self.model, tuple(self._compressions.values()), choices)
        for name in ("_plain", "_compressed", "_usable", "_read", "_keys", "_lines"):
            setattr(other, name, getattr(self, name))
        return other

    @property
    def element_bytes(self) -> Mapping[Kind, int]:
        """Bytes of one uncompressed element in the kinds of collectives that a codec makes smaller."""
        return gradient_bytes(self._training)

    @property
    def failures(self) -> dict[str, str]:
        """Algorithms that accepted a collective and then failed, and how."""
        return {name: why for (_, name, _), why in self._usable.items() if why is not None}

    def refusal(self, kind: Kind, algorithm: str, ranks: int, ratio: float, stride: int = 1) -> str | None:
        part = self._part(ranks, stride)
        if part is None:
            return f"the fabric has no part of {ranks} ranks" + (f" that lie {stride} apart" if stride > 1 else "")
        if ratio != 1 and part.in_network_reduction:
            return "a fabric that adds up light in the network cannot add up compressed streams"
        reasons = [self._declined(kind, each, part, ratio) for each in self._among(kind, algorithm, part, ratio)]
        return None if None in reasons else "; ".join(dict.fromkeys(filter(None, reasons)))

    def price(self, algorithm: str, ranks: int, ratio: float, stride: int = 1) -> CheapestPrices:
        """Prices of a group; a ratio other than 1 must be that of one of the compressions."""
        key = algorithm, ranks, ratio, stride
        if key not in self._prices:
            self._prices[key] = CheapestPrices(partial(self._bounded, *key))
        return self._prices[key]

    def algorithm(self, kind: Kind, nbytes: float, algorithm: str, ranks: int, ratio: float, stride: int = 1) -> str:
        return self.price(algorithm, ranks, ratio, stride).choice(kind, nbytes).algorithm.name

    def lines(
        self, kind: Kind, algorithm: str, ranks: int, ratio: float, stride: int = 1, *, hidden_setup: bool
    ) -> Sequence[LowerPrice]:
        candidates = self._candidates(kind, algorithm, ranks, ratio, stride)
        return [self._line(prices, kind, hidden_setup) for prices in candidates]

    def schedules(self, algorithm: Algorithm, part: Fabric) -> CollectivePrices:
        """Prices of one algorithm on a fabric, those on the disk included, or of the fabric's library."""
        key = algorithm.name, self._key(part)
        if key not in self._plain and algorithm is LIBRARY:
            self._plain[key] = LibraryPrices(part, self.model)
        elif key not in self._plain:
            self._plain[key] = prices = SchedulePrices(algorithm, part, self.model)
            prices.preload(read_prices(prices_path(algorithm, part, self.model)))
            self._read[key] = len(prices.cached)
        return self._plain[key]

    def save(self) -> None:
        """Cache on disk what is new."""
        for key, prices in self._plain.items():
            if len(prices.cached) > self._read.get(key, 0):
                write_prices(prices_path(prices.algorithm, prices.fabric, self.model), prices.cached)
                self._read[key] = len(prices.cached)

    def failure(self, kind: Kind, algorithm: Algorithm, part: Fabric) -> str | None:
        """How an algorithm that accepts a collective fails to build or to prove it; None where it does not.

        Prices the sizes that lines are drawn through, compressed ones too.
        """
        key = kind, algorithm.name, self._key(part)
        if key not in self._usable:
            prices = self.schedules(algorithm, part)
            ratios = self._compressions if kind in gradient_bytes(self._training) else {}
            all_prices = [prices, *(self._smaller(prices, ratio) for ratio in ratios if self._codes(algorithm, part))]
            outcome = attempt(algorithm, partial(_draw, all_prices, kind))
            self._usable[key] = outcome.why if isinstance(outcome, Refusal) else None
            if part.ranks > _MANY_RANKS:
                prices.drop_schedules()
        return self._usable[key]

    def _bounded(
        self, algorithm: str, ranks: int, ratio: float, stride: int, kind: Kind
    ) -> Sequence[tuple[CollectivePrices, LowerPrice]]:
        candidates = self._candidates(kind, algorithm, ranks, ratio, stride)
        if not candidates:
            part = self._part(ranks, stride)
            assert part is not None
            failures = (self.failure(kind, each, part) for each in self._among(kind, algorithm, part, ratio))
            raise UnsupportedError("; ".join(dict.fromkeys(filter(None, failures))))
        return [(prices, self._line(prices, kind, False)) for prices in candidates]

    def _line(self, prices: CollectivePrices, kind: Kind, hidden_setup: bool) -> LowerPrice:
        key = id(prices), kind, hidden_setup
        if key not in self._lines:
            if prices.algorithm.by_size:
                self._lines[key] = sized_line(kind, prices.fabric, prices.model)
            elif isinstance(prices, LibraryPrices):
                self._lines[key] = prices.below(kind)
            elif prices.algorithm.pipelined:
                self._lines[key] = chords(prices, kind)
            else:
                self._lines[key] = price_line(prices, kind, hidden_setup=hidden_setup)
        return self._lines[key]

    def _candidates(
        self, kind: Kind, algorithm: str, ranks: int, ratio: float, stride: int
    ) -> Sequence[CollectivePrices]:
        part = self._part(ranks, stride)
        assert part is not None
        usable = [
            each
            for each in self._among(kind, algorithm, part, ratio)
            if self._declined(kind, each, part, ratio) is None
            and (each.by_size or self.failure(kind, each, part) is None)
        ]
        prices = [self.schedules(each, part) for each in usable]
        return prices if ratio == 1 else [self._smaller(each, ratio) for each in prices]

    def _smaller(self, prices: CollectivePrices, ratio: float) -> SchedulePrices:
        assert isinstance(prices, SchedulePrices)
        key = prices.algorithm.name, self._key(prices.fabric), ratio
        if key not in self._compressed:
            self._compressed[key] = prices.compressed(self._compressions[ratio], gradient_bytes(self._training))
        return self._compressed[key]

    def _declined(self, kind: Kind, algorithm: Algorithm, part: Fabric, ratio: float) -> str | None:
        if (algorithm.by_size or algorithm.pipelined) and ratio != 1:
            return f"{algorithm.name} has no steps between which a codec could be charged"
        if algorithm is LIBRARY and ratio != 1:
            return "the fabric's collective library has no codec"
        return algorithm.refusal(kind, part, self.model)

    def _codes(self, algorithm: Algorithm, part: Fabric) -> bool:
        """Whether a codec can make what an algorithm sends smaller."""
        return not part.in_network_reduction and algorithm is not LIBRARY

    def _among(self, kind: Kind, algorithm: str, part: Fabric, ratio: float) -> Sequence[Algorithm]:
        """The algorithms that may carry a collective, straight exchanges where no other carries an all-to-all; the
        fabric's library where it carries the collective and no algorithm is named."""
        if algorithm == AUTO and not self._named and self._declined(kind, LIBRARY, part, ratio) is None:
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
            self._keys[id(part)] = part.model_dump_json()
        return self._keys[id(part)]


def _draw(all_prices: Sequence[CollectivePrices], kind: Kind) -> None:
    for prices, nbytes in product(all_prices, LINE_SIZES):
        prices(kind, nbytes)
