"""Prices of collectives within groups of ranks; each collective may choose its own algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import accumulate, combinations, permutations
from math import inf
from typing import Literal, NamedTuple, Protocol

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.bounds.lower_bound import Bound, bandwidth_bound
from lightloom.collectives.collective import FROM_ALL_GATHER, Collective, Kind
from lightloom.collectives.cost.price import CostModel
from lightloom.collectives.levels import levels
from lightloom.collectives.registry import Refusal, algorithms, attempt, find
from lightloom.core.arrays import Effort, Mask, first_rows
from lightloom.core.caches import cached_method
from lightloom.core.errors import UnsupportedError
from lightloom.exchange.methods import TwoLevelExchange
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.fabric import AxisShare, Fabric
from lightloom.planning.gradients import VALUE_BYTES, PricedExchange
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.collective_prices import (
    STRIPED,
    Candidate,
    CheapestPrices,
    ExchangePrices,
    LeastPrice,
    LevelPrices,
)
from lightloom.planning.pricing.library_prices import LIBRARY, LibraryPrices, carrier
from lightloom.planning.pricing.price_lines import CollectivePrices, LowerPrice, PriceLine, line_below, proved_line
from lightloom.planning.pricing.schedule_prices import (
    LINE_SIZES,
    SchedulePrices,
    prices_path,
    read_prices,
    write_prices,
)
from lightloom.planning.simulation.engine import Price, Priced

Axis = Literal["tensor", "expert", "context", "pipeline", "data", "expert-data"]
"""Groups of a strategy that exchange: ranks that share operators, experts, tokens; neighbouring stages; replicas of
what all hold and of experts."""
AUTO = "auto"
"""In the place of an algorithm: each exchange takes the cheapest for its kind, group and size."""
_STRAIGHT = ("one-stage-striped", "one-stage")
_SHARED = ("_plain", "_refusals", "_keys", "_floors", "_sends", "_proved", "_bounds")
"""Fields of prices that other choices of algorithms, other fabrics and other methods of exchange share."""
_SHARED_WITH_METHODS = ("_coded", "_usable", "_lines")
"""Fields that are shared where the methods of exchange are the same."""
_MANY_RANKS: Effort = 128
"""Schedules among more ranks are dropped once their lines are known."""
_ALL_LISTED: Effort = 8192
"""Ranks of a fabric up to which plans build schedules of as many rows as fit in memory."""
MOST_ROWS: Effort = 1 << 21
"""Rows of schedules that are built among more ranks: those of an all-reduce of 1,024 that lists every transfer."""


def gradient_element_bytes(training: TrainingSettings) -> Mapping[Kind, int]:
    """Return the bytes of one gradient by kind of collective, of the two that carry gradients: "all-reduce"
    (``gradient_bytes`` of the settings) and "reduce-scatter" (``sharded_gradient_bytes``)."""
    return {"all-reduce": training.gradient_bytes, "reduce-scatter": training.sharded_gradient_bytes}


class Pricing(Protocol):
    """Prices of the collectives of groups of ranks; the number of ranks and their stride say which group."""

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        """Return the reason, in words, that a group of ``ranks`` that lie ``stride`` apart cannot have a collective of
        this kind; None where it can.

        Args:
            kind: of the collective.
            algorithm: name of an algorithm, or "auto" for the cheapest.
            ranks: ranks of the group.
            exchange: number, from 1 on, of the method by which gradients are exchanged; 0 for gradients as they are.
            stride: distance between neighbouring ranks of the group.
        """

    def price(self, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> Price:
        """Return the function of kind and bytes that prices collectives in a group of ``ranks`` that lie ``stride``
        apart.

        ``algorithm`` names an algorithm or is "auto" for the cheapest; ``exchange`` is the number, from 1 on, of the
        method by which gradients are exchanged, 0 for gradients as they are.
        """


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
        self.element_bytes = gradient_element_bytes(training)
        """Bytes of one uncompressed element in the kinds of collectives that a codec makes smaller."""
        self._exchanges = dict(enumerate(exchanges, start=1))
        self._divided = False  # whether circuits of several axes stand at once
        self._named = bool(choices)
        self._most_rows = most_rows if fabric.ranks <= _ALL_LISTED else min(most_rows, MOST_ROWS)
        self._choices = [*map(carrier, choices)] or [each for each in algorithms().values() if not each.by_size]
        self._keys: dict[int, tuple[Fabric, str]] = {}
        """By identity of a fabric, which is held so that no other one takes it over."""
        self._plain: dict[tuple[str, str], CollectivePrices] = {}
        self._coded: dict[tuple[str, str, int], SchedulePrices] = {}
        self._others: dict[str, GroupPrices] = {}
        """These prices on other fabrics."""
        self._usable: dict[tuple[Kind, str, str], str | None] = {}
        self._refusals: dict[tuple[Kind, str, str], str | None] = {}
        self._lines: dict[tuple[int, Kind, bool], LowerPrice] = {}
        self._floors: dict[tuple[Kind, str, str], tuple[PriceLine, bool]] = {}
        self._sends: dict[tuple[str, str], tuple[bool, Mapping[str, tuple[float, float]]]] = {}
        self._proved: dict[tuple[str, Kind], PriceLine] = {}
        self._bounds: dict[str, dict[tuple[Kind, float, float, bool], Bound]] = {}
        """Lower bounds of collectives by fabric, as its prices share them."""

    def with_choices(self, choices: Sequence[str]) -> GroupPrices:
        """Return prices where exchanges choose among the algorithms of these names, none for the default choice;
        schedules and prices made so far, and later, are shared with this object. UnknownNameError for a name that no
        algorithm has."""
        return self._sharing(self.fabric, choices)

    def asked_again(
        self, fabric: Fabric, training: TrainingSettings, exchanges: Sequence[PricedExchange], choices: Sequence[str]
    ) -> GroupPrices:
        """Return prices of another question, at the same cost model, its arguments those of the constructor: where the
        settings of training are the same, what holds of both questions is shared with this object."""
        if training != self._training:
            return GroupPrices(fabric, training, self.model, exchanges, choices, self._most_rows)
        return self._sharing(fabric, choices, exchanges)

    def on(self, fabric: Fabric) -> GroupPrices:
        """Return the prices of the same choice of algorithms on another fabric, a share of the channels beside the
        circuits of other axes; cached by the fabric's content; schedules and prices are shared with this object. As its
        circuits stand for the whole step, exchange methods of several collectives are refused there."""
        key = fabric.model_dump_json()
        if key not in self._others:
            self._others[key] = self._sharing(fabric, [each.name for each in self._choices] if self._named else [])
            self._others[key]._divided = True
        return self._others[key]

    def _sharing(
        self, fabric: Fabric, choices: Sequence[str], exchanges: Sequence[PricedExchange] | None = None
    ) -> GroupPrices:
        """Return new prices on a fabric with the choices of these names, none for the default choice; all schedules and
        prices are shared with this object, but not those of methods of exchange where others are given."""
        own = [*self._exchanges.values()]
        methods = own if exchanges is None else [*exchanges]
        other = GroupPrices(fabric, self._training, self.model, methods, choices, self._most_rows)
        for name in (*_SHARED, *(_SHARED_WITH_METHODS if methods == own else ())):
            setattr(other, name, getattr(self, name))
        return other

    def exchange(self, number: int) -> PricedExchange:
        """Return the exchange method of a number from 1 on; KeyError for any other number."""
        return self._exchanges[number]

    @property
    def failures(self) -> dict[str, str]:
        """Algorithms that accepted a collective and then failed to build or prove it, by name, each with the reason in
        words; of several the last."""
        return {name: why for (_, name, _), why in self._usable.items() if why is not None}

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        """Return the reason, in words, that a collective cannot run in a group of ``ranks`` that lie ``stride`` apart:
        the fabric has no such part, the method of exchange does not serve there, or no algorithm carries it. None where
        it can. UnknownNameError for the name of no algorithm.

        Args:
            kind: of the collective.
            algorithm: name of an algorithm, or "auto" for any of the choices.
            ranks: ranks of the group.
            exchange: number of the method of exchange, 0 for gradients as they are; ignored for kinds that carry no
                gradients.
            stride: distance between neighbouring ranks of the group.
        """
        part = self._part(ranks, stride)
        if part is None:
            return f"the fabric has no part of {ranks} ranks" + (f" that lie {stride} apart" if stride > 1 else "")
        exchange = self._of_kind(kind, exchange)
        if exchange and (why := self._exchange_refusal(kind, algorithm, part, exchange, stride)) is not None:
            return why
        if exchange and not self._exchanges[exchange].in_schedule:
            return None
        if part.parts:
            return self._refusal_of_parts(kind, algorithm, part, exchange, stride)
        reasons: list[str] = []
        for each in self._among(kind, algorithm, part, exchange):
            if (why := self._declined(kind, each, part, exchange)) is None:
                return None
            reasons.append(why)
        return "; ".join(dict.fromkeys(reasons))

    def _refusal_of_parts(self, kind: Kind, algorithm: str, part: Fabric, exchange: int, stride: int) -> str | None:
        """Return the reason that a collective cannot run level by level over ``part``, a fabric of parts whose ranks
        lie ``stride`` apart: the kind cannot be composed of phases on parts, some phase has no algorithm on its part,
        or ``exchange`` is not 0, as coded sums need one schedule. None where the parts carry it one after the other."""
        if exchange:
            return "coded sums travel along one schedule, and the parts of this fabric have one each"
        try:
            phases = levels(kind, 1.0, part, stride)
        except UnsupportedError as error:
            return str(error)
        for phase in phases:
            if (why := self.refusal(phase.kind, algorithm, phase.ranks, 0, phase.stride)) is not None:
                return f"{phase.kind} among {phase.ranks} ranks, {phase.stride} apart: {why}"
        return None

    def _exchange_refusal(self, kind: Kind, algorithm: str, part: Fabric, exchange: int, stride: int) -> str | None:
        """Return the reason that a method of exchange, or the algorithm in one of its phases, does not serve in the
        place of a collective of gradients; None where it does.

        Args:
            kind: of the collective, which carries gradients.
            algorithm: name of an algorithm, or "auto".
            part: fabric of the group.
            exchange: number of the method, from 1 on.
            stride: distance between neighbouring ranks of the group.
        """
        method, light = self._exchanges[exchange], part.only_adds
        why = method.refusal(kind, in_network=light, stride=stride) or method.group_refusal(part.ranks)
        if why is None and isinstance(method.method, TwoLevelExchange):
            node, inner = method.method.node, replace(method, method=method.method.between)
            across = self._part(part.ranks // node, stride * node) if part.ranks > node else None
            if across is not None:
                why = inner.refusal(kind, in_network=across.only_adds, stride=stride * node)
        if why is not None or method.in_schedule:
            return why
        phases = self._phased(algorithm, part.ranks, exchange, stride).phases(kind, 1.0)
        if self._divided and len(phases) > 1:
            return "circuits that stand for the whole step serve one collective, and the exchange has several"
        refusals = (self.refusal(phase.kind, algorithm, phase.ranks, 0, phase.stride) for phase in phases)
        return next(filter(None, refusals), None)

    def price(
        self, algorithm: str, ranks: int, exchange: int, stride: int = 1
    ) -> CheapestPrices | LevelPrices | ExchangePrices:
        """Return the prices of a group of ``ranks`` that lie ``stride`` apart, cached: where method ``exchange`` sends
        in phases of its own, of those phases; else of the cheapest algorithm, on a fabric of parts level by level.

        ``algorithm`` names the only algorithm to take or is "auto" for all choices; ``exchange`` is the number of a
        method from 1 on, 0 for gradients as they are. Whether the group is served is found when it is asked for a
        price; that raises UnsupportedError where no algorithm carries the collective. The fabric must have the group.
        """
        if exchange and not self._exchanges[exchange].in_schedule:
            return self._phased(algorithm, ranks, exchange, stride)
        return self._cheapest(algorithm, ranks, exchange, stride)

    def _of_kind(self, kind: Kind, exchange: int) -> int:
        """Return ``exchange``, the number of a method, for the kinds of collectives that carry gradients, and 0 for
        others."""
        return exchange if kind in self.element_bytes else 0

    @cached_method()
    def _cheapest(self, algorithm: str, ranks: int, exchange: int, stride: int) -> CheapestPrices | LevelPrices:
        """Return the prices, cached, in a group of ``ranks`` that lie ``stride`` apart, where each collective takes its
        cheapest algorithm, coded by method ``exchange`` unless that is 0; on a fabric of parts level by level, not
        coded. ``algorithm`` names the only algorithm to take, or is "auto" for all choices."""
        part = self._part(ranks, stride)
        if part is not None and part.parts:
            return LevelPrices(self._plain_prices(algorithm), part, ranks, stride, self.model)
        return CheapestPrices(partial(self._candidates, algorithm, ranks, exchange, stride))

    @cached_method()
    def _phased(self, algorithm: str, ranks: int, exchange: int, stride: int) -> ExchangePrices:
        """Return the prices, cached, of the method of number ``exchange``, which sends in phases of its own, in a group
        of ``ranks`` that lie ``stride`` apart. ``algorithm`` names the only algorithm that carries a phase, or is
        "auto" for all choices."""

        def adds(members: int, apart: int) -> bool:
            """Return whether groups of ``members`` ranks that lie ``apart`` are added up on their way."""
            part = self._part(members, apart)
            return part is not None and part.only_adds

        plain, on_parts = self._plain_prices(algorithm), bool(self.fabric.parts)
        return ExchangePrices(self._exchanges[exchange], plain, self.element_bytes, ranks, stride, adds, on_parts)

    def _plain_prices(self, algorithm: str) -> Callable[[int, int], CheapestPrices | LevelPrices]:
        """Return a function that takes ranks and stride of a group and returns the prices, by ``algorithm`` or "auto",
        of collectives that are not coded."""
        return lambda members, apart: self._cheapest(algorithm, members, 0, apart)

    def lines(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, *, hidden_setup: bool
    ) -> Sequence[LowerPrice]:
        """Return a list with one lower bound of the price of a collective, a function from its bytes to seconds: the
        least of the algorithms that may carry it, each built where its floor is not above the others, or that of the
        phases of a method or of a fabric of parts; empty where none may.

        Args:
            kind: of the collective.
            algorithm: name of an algorithm, or "auto" for all choices.
            ranks: ranks of the group, which the fabric must have.
            exchange: number of the method of exchange; 0 for gradients as they are.
            stride: distance between neighbouring ranks of the group.
            hidden_setup: leave out the first set-up of all circuits, done before the data exists; otherwise only of
                circuits that can stay in place.
        """
        exchange = self._of_kind(kind, exchange)
        phased = exchange and not self._exchanges[exchange].in_schedule
        price = self.price(algorithm, ranks, exchange, stride) if phased or self.fabric.parts else None
        if price is not None and not isinstance(price, CheapestPrices):
            plain = partial(self.lines, algorithm=algorithm, exchange=0, hidden_setup=hidden_setup)
            return price.lines(kind, plain)
        candidates = self._candidates(algorithm, ranks, exchange, stride, kind)
        if [each.algorithm for each in candidates] == [LIBRARY]:
            return [candidates[0].line(hidden_setup)]
        return [LeastPrice(candidates, hidden_setup=hidden_setup)] if candidates else []

    def proved_lines(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, *, hidden_setup: bool
    ) -> Sequence[LowerPrice]:
        """Return a list with one proved lower bound on the price of a collective, by its bytes, for which no schedule
        is built; for a method of exchange with phases of its own that of the phases and the coding. Where gradients are
        coded along a schedule, or prices are those of a library, :meth:`lines` are returned instead.

        Args:
            kind: of the collective.
            algorithm: name of an algorithm, or "auto" for all choices.
            ranks: ranks of the group, which the fabric must have.
            exchange: number of the method of exchange; 0 for gradients as they are.
            stride: distance between neighbouring ranks of the group.
            hidden_setup: leave out the first set-up of all circuits; the proved bound always does.
        """
        part, exchange = self._part(ranks, stride), self._of_kind(kind, exchange)
        assert part is not None
        if exchange and not self._exchanges[exchange].in_schedule:
            plain = partial(self.proved_lines, algorithm=algorithm, exchange=0, hidden_setup=hidden_setup)
            return self._phased(algorithm, ranks, exchange, stride).lines(kind, plain)
        if exchange or (not part.parts and LIBRARY in self._among(kind, algorithm, part, exchange)):
            return self.lines(kind, algorithm, ranks, exchange, stride, hidden_setup=hidden_setup)
        return [self._proved_line(kind, part)]

    def _proved_line(self, kind: Kind, part: Fabric) -> PriceLine:
        """Return a proved lower bound of a collective on ``part`` for which no schedule is built, cached."""
        key = self._key(part), kind
        if key not in self._proved:
            self._proved[key] = proved_line(kind, part, self.model)
        return self._proved[key]

    def schedules(self, algorithm: Algorithm, part: Fabric) -> CollectivePrices:
        """Return the prices, cached, of one algorithm without a codec on ``part``, those on the disk included; for
        ``LIBRARY`` those of the fabric's library."""
        key = algorithm.name, self._key(part)
        if key not in self._plain and algorithm is LIBRARY:
            self._plain[key] = LibraryPrices(part, self.model)
        elif key not in self._plain:
            self._plain[key] = prices = _preloaded(SchedulePrices(algorithm, part, self.model))
            prices.proved = self._bounds.setdefault(key[1], prices.proved)
        return self._plain[key]

    def save(self) -> None:
        """Write to the cache on disk the prices of each algorithm and codec that has more than were read or written
        before."""
        for prices in (*self._plain.values(), *self._coded.values()):
            if isinstance(prices, SchedulePrices) and len(prices.cached) > prices.read:
                write_prices(prices_path(prices), prices.cached)
                prices.read = len(prices.cached)

    def failure(self, kind: Kind, algorithm: Algorithm, part: Fabric) -> str | None:
        """Return the reason that an algorithm which accepts this kind of collective fails to build or to prove it on
        ``part``; None where it does not fail. Cached.

        Prices collectives of no bytes, 4 KiB, 128 and 256 GiB, for kinds that carry gradients also coded by each method
        that sends along schedules (unless the fabric adds up in its network), which builds and verifies the schedules;
        among more than 128 ranks their rows are dropped again.

        Raises:
            BoundError: a cost lies below its lower bound.
        """
        key = kind, algorithm.name, self._key(part)
        if key not in self._usable:
            prices = self.schedules(algorithm, part)
            carried = kind in self.element_bytes and not part.in_network_reduction and algorithm is not LIBRARY
            coded = [number for number, method in self._exchanges.items() if carried and method.in_schedule]
            all_prices = [prices, *(self._with_codec(prices, number) for number in coded)]
            # Prices at the sizes of lines are kept; an algorithm that fails raises here.
            outcome = attempt(algorithm, lambda: [price(kind, size) for price in all_prices for size in LINE_SIZES])
            self._usable[key] = outcome.why if isinstance(outcome, Refusal) else None
            if part.ranks > _MANY_RANKS:
                prices.drop_schedules()
        return self._usable[key]

    def _line(self, prices_of: Callable[[], CollectivePrices], kind: Kind, hidden_setup: bool) -> LowerPrice:
        """Return the lower bound of some prices for one kind of collective, computed once. With ``hidden_setup`` the
        first set-up of all circuits is left out, otherwise only that of circuits that can stay in place."""
        prices = prices_of()
        key = id(prices), kind, hidden_setup
        if key not in self._lines:
            self._lines[key] = line_below(prices, kind, hidden_setup=hidden_setup)
        return self._lines[key]

    @cached_method()
    def _candidates(self, algorithm: str, ranks: int, exchange: int, stride: int, kind: Kind) -> Sequence[Candidate]:
        """Return the algorithms (the one named ``algorithm``, all choices for "auto") that do not decline a kind of
        collective in a group of ``ranks`` that lie ``stride`` apart, coded by method ``exchange`` unless that is 0 or
        the kind carries no gradients; empty where there are none. For "auto", an algorithm whose striped form does not
        decline either is spare. Cached; the fabric must have the group."""
        part, exchange = self._part(ranks, stride), self._of_kind(kind, exchange)
        assert part is not None
        # Pipelines come first, whose rows are few and which may spare many. Then come striped forms: no other form is
        # faster. Of each, rings, whose circuits may stand, come before the algorithms that state the ends of their
        # lightpaths, which rings may spare. Searches for each size come last.
        among = self._among(kind, algorithm, part, exchange)
        among = [each for each in among if self._declined(kind, each, part, exchange) is None]
        among.sort(key=lambda each: (each.by_size, not each.pipelined, not each.striped, each.ends is not None))
        names = {each.name for each in among} if algorithm == AUTO else set()
        candidates: list[Candidate] = []
        for each in among:
            spare, prices = f"{each.name}{STRIPED}" in names, partial(self._prices, each, part, exchange)
            failure, line = partial(self._failure_to_build, kind, each, part), partial(self._line, prices, kind)
            floor = self._floor(kind, each, part) if exchange == 0 and not spare else (None, False)
            candidates.append(Candidate(each, *floor, failure, prices, line, spare))
        return candidates

    def _prices(self, algorithm: Algorithm, part: Fabric, exchange: int) -> CollectivePrices:
        """Return the prices of one algorithm on ``part``, coded by method ``exchange`` unless that is 0; cached."""
        prices = self.schedules(algorithm, part)
        return self._with_codec(prices, exchange) if exchange else prices

    def _failure_to_build(self, kind: Kind, algorithm: Algorithm, part: Fabric) -> str | None:
        """Return what :meth:`failure` does; None of algorithms that build by size and of the library, of which nothing
        is built before a plan asks for a price, which is then held against its bound."""
        return None if algorithm.by_size or algorithm is LIBRARY else self.failure(kind, algorithm, part)

    def _floor(self, kind: Kind, algorithm: Algorithm, part: Fabric) -> tuple[PriceLine | None, bool]:
        """Return a lower bound of one algorithm's prices, circuits in place, for which nothing is built, cached: that
        of every schedule or, where more is known of the algorithm, of its own, which follows from its sends
        (:meth:`Algorithm.least_seconds`) and, where its circuits surely change, another set-up; and True where that is
        near its prices. None of those of which nothing is built anyway."""
        if algorithm.by_size or algorithm is LIBRARY:
            return None, False
        key = kind, algorithm.name, self._key(part)
        if key not in self._floors:
            proved, seconds, a_byte, changes = self._proved_line(kind, part), 0.0, 0.0, False
            if kind in (*FROM_ALL_GATHER, "all-to-all"):
                changes, least = self._least(algorithm, part)
                # The paper's model charges circuits neither latencies nor, in every step, all bytes.
                seconds, a_byte = least[kind] if self.model == "physical" or not part.exclusive else (0.0, 0.0)
            if changes:
                seconds, a_byte = part.setup_time + seconds, max(proved.far_slope, a_byte)
            known = seconds > 0 or a_byte > 0
            # Circuits that may or may not stand take a set-up more or less, and blocks that do not go straight are
            # passed on several times.
            straight = kind != "all-to-all" or algorithm.straight
            near = known and straight and (changes or not part.exclusive)
            self._floors[key] = proved._replace(nothing=seconds, slope=a_byte) if known else proved, near
        return self._floors[key]

    def _least(self, algorithm: Algorithm, part: Fabric) -> tuple[bool, Mapping[str, tuple[float, float]]]:
        """Return True where the circuits of an algorithm surely change on ``part``, and the seconds and seconds a byte
        that its sends take at least, by kind; cached."""
        key = algorithm.name, self._key(part)
        if key not in self._sends:
            self._sends[key] = algorithm.changes_circuits(part), algorithm.least_seconds(part)
        return self._sends[key]

    def _with_codec(self, prices: CollectivePrices, exchange: int) -> SchedulePrices:
        """Return the prices of the same schedules with gradients coded by the method of number ``exchange``, cached,
        those on the disk included."""
        assert isinstance(prices, SchedulePrices)
        key = prices.algorithm.name, self._key(prices.fabric), exchange
        if key not in self._coded:
            self._coded[key] = _preloaded(prices.coded(self._exchanges[exchange], self.element_bytes))
        return self._coded[key]

    def _declined(self, kind: Kind, algorithm: Algorithm, part: Fabric, exchange: int) -> str | None:
        """Return the reason that an algorithm does not carry a kind of collective on ``part``, or not with the codec of
        method ``exchange`` (0 for none), without building it: the algorithm has no steps for a codec (built by size,
        pipelined, or the library), lists more transfers than this object's limit of rows, or refuses by itself. None
        where it does carry it."""
        if (algorithm.by_size or algorithm.pipelined) and exchange != 0:
            return f"{algorithm.name} has no steps between which a codec could be charged"
        if algorithm is LIBRARY and exchange != 0:
            return "the fabric's collective library has no codec between its hops; name an algorithm, such as ring"
        key = kind, algorithm.name, self._key(part)
        if key not in self._refusals:
            self._refusals[key] = self._too_long(kind, algorithm, part) or algorithm.refusal(kind, part, self.model)
        return self._refusals[key]

    def _too_long(self, kind: Kind, algorithm: Algorithm, part: Fabric) -> str | None:
        """Return the reason that an algorithm lists more transfers for a collective on ``part`` than this object's
        limit of rows; None where it does not."""
        if self._most_rows == inf or (rows := algorithm.rows(kind, part)) <= self._most_rows:
            return None
        return (
            f"{algorithm.name} lists {rows:,} transfers among {part.ranks:,} ranks, and at most "
            f"{self._most_rows:,} are listed here"
        )

    def _among(self, kind: Kind, algorithm: str, part: Fabric, exchange: int) -> Sequence[Algorithm]:
        """Return the algorithms to consider for a collective on ``part``, some of which may still decline it.

        That is the one that ``algorithm`` names, or for "auto" all choices. For "auto" without choices named, the
        fabric's library alone where it carries the collective. Where none of them carries an all-to-all, straight
        exchanges from rank to rank instead: of ``one-stage-striped`` and ``one-stage`` the first that accepts it, or
        both where neither does. ``exchange`` is not used. UnknownNameError for the name of no algorithm.
        """
        if algorithm == AUTO and not self._named and LIBRARY.refusal(kind, part, self.model) is None:
            return [LIBRARY]
        among = self._choices if algorithm == AUTO else [carrier(algorithm)]
        if kind == "all-to-all" and all(each.refusal(kind, part, self.model) for each in among):
            straight = [find(name) for name in _STRAIGHT]
            among = [each for each in straight if each.refusal(kind, part, self.model) is None][:1] or straight
        return among

    @cached_method()
    def _part(self, ranks: int, stride: int) -> Fabric | None:
        """Return the fabric of a group of ``ranks`` that lie ``stride`` apart, cached, the whole fabric for all its
        ranks; None where the fabric has no such part."""
        return self.fabric if ranks == self.fabric.ranks else self.fabric.group(ranks, stride)

    def _key(self, part: Fabric) -> str:
        """Return the JSON text of a fabric, cached, by which prices of equal fabrics are shared."""
        if id(part) not in self._keys:
            self._keys[id(part)] = part, part.model_dump_json()
        return self._keys[id(part)][1]


def _preloaded(prices: SchedulePrices) -> SchedulePrices:
    """Add the prices in the cache on disk to ``prices``, in place, and return it."""
    prices.preload(read_prices(prices_path(prices), prices.algorithm.name))
    return prices


# Channels of a circuit-switched fabric divided among the axes of a strategy whose circuits stand at the same time.
#
# axis           groups                                channels of every link
# tensor         tp neighbours                         0 ... 2
# data           replicas, tp apart                    3 ... 6        planes of a switch, wavelengths of a ring
# pipeline       every rank and that of the next stage 7
#
# Circuits are set once, so every axis keeps its own from the first step on; a plane that carries circuits of tensor
# groups carries none of data groups. Sends of the pipeline go both ways at once, and copies of tied tables use their
# circuits.


class AxisGroups(NamedTuple):
    """Groups of one axis of parallelism: the axis, ranks of a group, and their stride."""

    name: Axis
    ranks: int
    stride: int
    """Distance between neighbouring ranks of a group; of the pipeline, from a stage to the next."""

    def unit(self, fabric: Fabric) -> int:
        """Return the number of channels of every link of ``fabric`` of which each share of this axis' groups is a
        multiple: one plane of a switch, a wavelength of a WDM ring for each of the groups that interleave, twice as
        many where they do not reach around it; for the pipeline the fewest on which every rank sends forward and back,
        1 or 2. 0 where channels cannot be shared."""
        if self.name == "pipeline":
            return fabric.shift_unit(self.stride)
        return fabric.share_unit(self.ranks, self.stride)


def live_axes(strategy: Strategy) -> tuple[AxisGroups, ...]:
    """Return the axes along which a strategy exchanges anything, those with more than one rank, with ranks and stride
    of their groups; in the order tensor (stride 1), context, expert, data of all replicas dp · cp (each at stride tp),
    expert-data of replicas / ep, only where ep > 1 (stride tp · ep), and pipeline (stride replicas · tp)."""
    tp, replicas, ep = strategy.tp, strategy.replicas, strategy.ep
    axes = (
        AxisGroups("tensor", tp, 1),
        AxisGroups("context", strategy.cp, tp),
        AxisGroups("expert", ep, tp),
        AxisGroups("data", replicas, tp),
        AxisGroups("expert-data", replicas // ep if ep > 1 else 1, tp * ep),
        AxisGroups("pipeline", strategy.pp, replicas * tp),
    )
    return tuple(axis for axis in axes if axis.ranks > 1)


def least_channels(fabric: Fabric, axes: Sequence[AxisGroups]) -> int | None:
    """Return the least number of channels of every link with which the circuits of all these axes stand at once, the
    sum of their units; None where some axis cannot share channels or there are no axes."""
    units = [axis.unit(fabric) for axis in axes]
    return sum(units) if units and all(units) else None


def divides(fabric: Fabric) -> bool:
    """Return True where axes of parallelism can divide the channels of a fabric among themselves: its circuits are
    exclusive, and sends between stages can share channels with others."""
    return fabric.exclusive and fabric.shift_unit(1) > 0


def seconds_a_byte(fabric: Fabric, kind: Kind, ranks: int, stride: int) -> float:
    """Return the least seconds for each byte of a collective in a group of ``ranks`` that lie ``stride`` apart, on all
    channels that whole units of the axis can fill, which no schedule beats.

    0 where the fabric's channels are not divided among axes (:func:`divides`) or the group has one rank; infinite where
    the fabric has no such share.
    """
    if not divides(fabric) or ranks == 1:
        return 0.0
    unit = fabric.share_unit(ranks, stride)
    part = fabric.share(ranks, stride, fabric.shared_channels // unit * unit)
    return inf if part is None else bandwidth_bound(Collective(kind, ranks, 1.0), part)


def undivided_pair(fabric: Fabric, stride: int) -> tuple[float, float]:
    """Return the bytes per second and seconds of latency from each rank to the one ``stride`` ranks on, as a pipeline
    sends, with all channels the pipeline's own; where the fabric's channels cannot be divided, or the stride leads back
    to the same rank, those of a message with its software's latency."""
    if not divides(fabric) or stride % fabric.ranks == 0:
        return fabric.message(stride)
    shift = fabric.shift(stride, fabric.shared_channels)
    return shift.rate, shift.latency


def circuits_stand(fabric: Fabric, rows: Strategies) -> Mask:
    """Return a mask of the rows whose axes' circuits can stand at once: [rows].

    It is True where the sum of the axes' units of channels is at most the channels, for data parallelism alone
    (sharding ``none`` or ``zero-3``, one micro-batch), where some axis cannot share channels, and in all rows on
    fabrics without exclusive circuits.
    """
    if not fabric.exclusive:
        return np.ones(len(rows), np.bool_)
    first, row = first_rows((rows.dp, rows.tp, rows.pp, rows.ep, rows.cp))
    needed = [0 if rows[at].plain else least_channels(fabric, live_axes(rows[at])) or 0 for at in first.tolist()]
    return (np.array(needed, np.int64) <= fabric.shared_channels)[row]


@dataclass(frozen=True)
class Division:
    """Channels of every link that the groups of each axis of parallelism hold."""

    fabric: Fabric
    axes: tuple[AxisGroups, ...]
    channels: tuple[int, ...]
    """Number of channels of each axis: [axis]."""

    def by_axis(self) -> dict[str, int]:
        """Return the number of channels of each axis by the axis' name."""
        return {axis.name: count for axis, count in zip(self.axes, self.channels, strict=True)}

    def __str__(self) -> str:
        """Return the channels of each axis in words, such as "of 8 planes: tensor 5, data 2, pipeline 1"."""
        held = ", ".join(f"{name} {count}" for name, count in self.by_axis().items())
        what = "planes" if self.fabric.switch_planes else "wavelengths of every link"
        return f"of {self.fabric.shared_channels} {what}: {held}"

    def shares(self) -> list[tuple[AxisGroups, AxisShare]]:
        """Return each axis with its share: ranks, stride, first channel from 0 and number of channels; the shares lie
        one after the other in the order of the axes."""
        first = accumulate(self.channels, initial=0)
        return [
            (axis, AxisShare(axis.ranks, axis.stride, begin, count))
            for axis, begin, count in zip(self.axes, first, self.channels, strict=False)
        ]

    def number(self, axis: Axis) -> int | None:
        """Return the index, from 0, of an axis among :attr:`axes`; None where the axis is not among them, as it
        exchanges nothing."""
        names = [each.name for each in self.axes]
        return names.index(axis) if axis in names else None

    def part(self, number: int) -> Fabric | None:
        """Return a group of the axis at index ``number`` of :attr:`axes` as a fabric of the channels that the axis
        holds; None where the fabric has no such share."""
        axis = self.axes[number]
        return self.fabric.share(axis.ranks, axis.stride, self.channels[number])


@dataclass(frozen=True)
class Divisions:
    """All divisions of a fabric's channels among axes, each a number of equal parts for every axis."""

    fabric: Fabric
    axes: tuple[AxisGroups, ...]

    PARTS = 8
    """Parts of the channels that are divided, where there are more channels than that."""

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Number of channels of which each axis holds a multiple: [axis]."""
        return tuple(axis.unit(self.fabric) for axis in self.axes)

    @cached_property
    def counts(self) -> int:
        """Number of equal parts into which the channels are divided: the channels, at most 8."""
        return min(self.fabric.shared_channels, self.PARTS)

    def channels(self, parts: Sequence[int]) -> tuple[int, ...] | None:
        """Return the number of channels of each axis, [axis], for a number of equal parts of the channels for each
        axis, ``parts`` [axis].

        These are whole units of the axis, rounded down, one unit at least. Where that is more than there are, axes give
        units back, those with the most channels first; None where even so there are too few channels.
        """
        total = self.fabric.shared_channels
        counts = [
            max(part * total // self.counts // unit, 1) * unit for part, unit in zip(parts, self.units, strict=True)
        ]
        for number in sorted(range(len(counts)), key=lambda axis: -counts[axis]):
            over = sum(counts) - total
            if over > 0:
                unit = self.units[number]
                counts[number] = max(counts[number] - -(-over // unit) * unit, unit)
        return tuple(counts) if sum(counts) <= total else None

    def equal(self) -> tuple[int, ...]:
        """Return the number of parts of each axis, [axis], when all :attr:`counts` parts are shared out: equally many,
        and one more for the first axes where they do not divide evenly."""
        count, more = divmod(self.counts, len(self.axes))
        return tuple(count + (number < more) for number in range(len(self.axes)))

    def neighbours(self, parts: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return, for each ordered pair of axes, the parts [axis] after one part has moved from the first to the
        second; in the order of the first, then of the second; pairs whose first axis has no part are left out."""
        return [
            tuple(count - (number == giver) + (number == taker) for number, count in enumerate(parts))
            for giver, taker in permutations(range(len(parts)), 2)
            if parts[giver] > 0
        ]


class DividedChannels:
    """Prices of collectives where each axis of a strategy has its own share of the channels. ``prices`` are those on
    all channels, ``division`` says which axis has how many."""

    def __init__(self, prices: GroupPrices, division: Division) -> None:
        self._prices, self.division = prices, division

    @cached_method()
    def pricing(self, axis: Axis) -> Pricing:
        """Return the prices of the collectives of an axis on its own share of the channels, cached; on all channels for
        the pipeline and for an axis that is not divided."""
        return self._prices.on(self.fabric(axis))

    def fabric(self, axis: Axis) -> Fabric:
        """Return a group of an axis as a fabric of its share of the channels; the whole fabric for the pipeline, for an
        axis that is not divided, and where there is no such share."""
        number = self.division.number(axis)
        part = None if number is None or axis == "pipeline" else self.division.part(number)
        return self.division.fabric if part is None else part

    def shift(self, stride: int) -> tuple[float, float]:
        """Return the bytes per second and seconds of latency each way between stages whose ranks lie ``stride`` apart.

        They use the circuits from each stage to the next, one after the other where stages are not neighbours (the
        shorter way around), which divides the rate and multiplies the latency. The pipeline must be among the divided
        axes.
        """
        number = self.division.number("pipeline")
        assert number is not None
        axis = self.division.axes[number]
        shift = self.division.fabric.shift(axis.stride, self.division.channels[number])
        stages = stride // axis.stride % axis.ranks
        times = max(min(stages, axis.ranks - stages), 1)
        return shift.rate / times, shift.latency * times


class ScaledChannels(DividedChannels):
    """Estimated prices on shares of the channels, by which a division is chosen before schedules are built for it:
    those on all channels, with what bytes add multiplied by how many fewer channels the axis has."""

    def pricing(self, axis: Axis) -> Pricing:
        """Return estimated prices of an axis: those on all channels, where the time that bytes add to a collective of
        no bytes is multiplied by the number of all channels over those of the axis. For the pipeline, and an axis that
        is not divided, they are those on all channels. The price function of a group raises UnsupportedError where the
        axis' share refuses the collective."""
        part = super().pricing(axis)
        assert isinstance(part, GroupPrices)
        return _ScaledPrices(self._prices, part)


class _ScaledPrices(Pricing):
    """Prices of collectives on a share of the channels, estimated from those on all channels. ``whole`` prices on all
    channels; ``part`` is on the share and says what it refuses."""

    def __init__(self, whole: GroupPrices, part: GroupPrices) -> None:
        self._whole, self._part = whole, part

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        """Return the reason that the share of the channels has no such collective in a group of ``ranks`` that lie
        ``stride`` apart; None where it has. ``algorithm`` is a name or "auto", ``exchange`` the number of a method, 0
        for none."""
        return self._part.refusal(kind, algorithm, ranks, exchange, stride)

    def price(self, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> Price:
        """Return the function that prices collectives in a group of ``ranks`` that lie ``stride`` apart: at the prices
        on all channels, where the time that bytes add to the same schedule without bytes is multiplied by the number of
        all channels over those of the share; what a cost splits its time into stays as on all channels. ``algorithm``
        is a name or "auto", ``exchange`` the number of a method, 0 for none.

        The function raises UnsupportedError where the share refuses the collective.
        """
        whole = self._whole.price(algorithm, ranks, exchange, stride)
        longer = self._whole.fabric.usable_channels / self._part.fabric.usable_channels - 1

        def priced(kind: Kind, nbytes: float) -> Priced:
            """Return the estimated price of a collective on the part; UnsupportedError where the part refuses it."""
            if (refusal := self.refusal(kind, algorithm, ranks, exchange, stride)) is not None:
                raise UnsupportedError(refusal)
            own = whole.carrier(kind, nbytes) if isinstance(whole, CheapestPrices) else whole
            price, nothing = own(kind, nbytes), own(kind, 0.0)
            more = longer * (price.cost.repeated_time - nothing.cost.repeated_time)
            return Priced(cost=replace(price.cost, time=price.cost.time + more), algorithm=price.algorithm)

        return priced


def slope(prices: GroupPrices, kind: Kind, ranks: int, stride: int, exchange: int) -> float:
    """Return a lower bound on the seconds for each byte of a collective in a group of ``ranks`` that lie ``stride``
    apart, with all channels given to its axis.

    Gradients that method ``exchange`` (from 1 on; 0 for as they are) codes count by the least share of their bytes that
    it sends. The bound is 0 where channels are not divided among axes or the method has phases of its own, and infinite
    where the fabric has no such share.
    """
    seconds, sizes = seconds_a_byte(prices.fabric, kind, ranks, stride), prices.element_bytes
    if exchange == 0 or kind not in sizes:
        return seconds
    method = prices.exchange(exchange)
    return seconds * VALUE_BYTES / sizes[kind] * method.least_share() if method.in_schedule else 0.0


# Switch planes shared out among the groups of a strategy, and how long setting one anew takes.
#
# 8 planes    tensor tensor tensor tensor tensor data pipeline pipeline       5, 1 and 2
#
# A group's collectives run on its own planes alone: a schedule of the same kind of fabric with as many planes.

Planes = Mapping[Axis, int]
"""Switch planes of each axis; their sum is at most the planes of the fabric."""


class PlanePrices:
    """Prices of collectives where each axis has some of the planes of a circuit switch."""

    def __init__(self, prices: GroupPrices, reconfiguration_time: float | None = None) -> None:
        """Set up the prices of groups that share the planes of one switch.

        Args:
            prices: those on all planes.
            reconfiguration_time: seconds in which a plane is set anew, where others than those of the fabric are asked
                for: right for collectives whose own circuits stand.

        Raises:
            UnsupportedError: the fabric has no switch planes.
        """
        fabric = prices.fabric
        if not fabric.switch_planes or not fabric.share_unit(fabric.ranks, 1):
            raise UnsupportedError(
                f"circuits set anew within a step (--reconfigure-in-step) on {fabric.kind_name}: expected switch "
                "planes that groups share (circuit-switch), or for placed plans wavelengths around a ring (wdm-ring)"
            )
        self.fabric = fabric
        self.planes = fabric.shared_channels
        """Planes of the switch."""
        self.reconfiguration_time = fabric.setup_time if reconfiguration_time is None else reconfiguration_time
        """Seconds in which a plane is set anew."""
        self.prices = prices

    def shared(self, strategy: Strategy, planes: Planes) -> DividedChannels:
        """Return the prices of the axes of a strategy, each on the number of planes that ``planes`` states by the axis'
        name; axes that are left out have all of them. The counts are not checked against the planes that there are."""
        axes = live_axes(strategy)
        counts = tuple(planes.get(axis.name, self.planes) for axis in axes)
        return DividedChannels(self.prices, Division(self.fabric, axes, counts))


@cache
def divisions(planes: int, axes: int) -> list[tuple[int, ...]]:
    """Return every way to share out all ``planes`` among so many ``axes``, each with at least one: tuples with the
    number of planes of each axis, in lexicographic order; empty where there are fewer planes than axes. Cached."""
    edges = combinations(range(1, planes), axes - 1)
    return [tuple(b - a for a, b in zip((0, *cut), (*cut, planes), strict=True)) for cut in edges]
